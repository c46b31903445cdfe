"""Baselines of the tagger: the most frequent tag of each word, and linear chains on hand-made features.

The features are the word, its prefixes and suffixes, its shape, and the words beside it. The chain is fitted by the
averaged perceptron and as a CRF: neither is always the better one.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from ...data.sources.conll import Conll
from ...data.text.tags import Scheme, convert
from ...metrics.spans import SpanScore
from ...training import Data
from ..shared.baselines import sample, sampled
from .data import TagAssets, open_data
from .settings import TagSettings

WORK = 150_000_000  # words times squared tags that chains are fitted to at most: two or three minutes
METHODS: dict[str, tuple[str, dict[str, float]]] = {  # by name: python-crfsuite's algorithm and its parameters
    "averaged perceptron on hand-made features": ("ap", {"max_iterations": 10}),
    "CRF on hand-made features": ("lbfgs", {"c1": 0.1, "c2": 0.01, "max_iterations": 40}),
}

Tagged = tuple[list[str], list[str]]  # the words of a sentence and their tags


def baselines(settings: TagSettings, assets: TagAssets, data: Data) -> dict[str, Callable[[], float]]:
    """By F1 of spans, or accuracy of tags."""
    scheme, sources = assets.vocabulary.scheme, open_data(settings)
    assert sources.dev is not None
    train, dev = read(sources.train, scheme), read(sources.dev, scheme)
    tags = max(10, len(assets.vocabulary.tags))
    part = sample(train, lambda sentence: len(sentence[0]), WORK // tags**2)

    def chain(name: str) -> Callable[[], float]:
        return lambda: score(Chain(part, *METHODS[name]), dev, scheme)

    return {
        "most frequent tag of each word": lambda: score(MostFrequent(train), dev, scheme),
        **{sampled(name, part, train, "sentences"): chain(name) for name in METHODS},
    }


def read(source: Conll, scheme: Scheme | None) -> list[Tagged]:
    """The sentences of a file, their tags in the scheme of the model."""
    return [(words, tags if scheme is None else convert(tags, scheme)) for words, tags, _ in source]


def score(tag: Callable[[Sequence[str]], list[str]], dev: Sequence[Tagged], scheme: Scheme | None) -> float:
    """What `tag` reaches: F1 of spans, or, without a scheme, the share of words with the right tag."""
    spans, right, words = SpanScore(), 0, 0
    for sentence, gold in dev:
        predicted = tag(sentence)
        words += len(gold)
        right += sum(a == b for a, b in zip(gold, predicted, strict=True))
        if scheme is not None:
            spans.add(gold, predicted)
    return right / max(1, words) if scheme is None else spans.f1


class MostFrequent:
    """The tag that a word has most often in training; of an unseen word, its lower-cased form's or the commonest."""

    def __init__(self, sentences: Sequence[Tagged]) -> None:
        counts: dict[str, Counter[str]] = {}
        every: Counter[str] = Counter()
        for words, tags in sentences:
            every.update(tags)
            for word, tag in zip(words, tags, strict=True):
                for form in {word, word.lower()}:
                    counts.setdefault(form, Counter())[tag] += 1
        self.default = _first(every)
        self.tags = {word: _first(count) for word, count in counts.items()}

    def __call__(self, words: Sequence[str]) -> list[str]:
        return [self.tags.get(word) or self.tags.get(word.lower(), self.default) for word in words]


class Chain:
    """A linear chain of python-crfsuite on what `features` says of each word."""

    def __init__(self, sentences: Sequence[Tagged], algorithm: str, parameters: Mapping[str, float]) -> None:
        import pycrfsuite

        trainer = pycrfsuite.Trainer(algorithm=algorithm, verbose=False)
        trainer.set_params(parameters)
        for words, tags in sentences:
            trainer.append(list(features(words)), tags)
        self.tagger = pycrfsuite.Tagger()
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "crf")
            trainer.train(str(file))
            self.model = file.read_bytes()  # kept: the tagger reads it where it is
        self.tagger.open_inmemory(self.model)

    def __call__(self, words: Sequence[str]) -> list[str]:
        return self.tagger.tag(list(features(words)))


def features(words: Sequence[str]) -> Iterator[list[str]]:
    """Of each word: itself, its affixes and shape, and the words and shapes beside it.

    >>> next(features(["Ada"]))
    ['bias', 'w=Ada', 'l=ada', 's=Xx', 'p1=a', 'x1=a', 'p2=ad', 'x2=da', 'p3=ada', 'x3=ada', 'title', '-1', '+1']
    """
    lower, shapes = [word.lower() for word in words], [shape(word) for word in words]
    for at, word in enumerate(words):
        low = lower[at]
        names = ["bias", f"w={word}", f"l={low}", f"s={shapes[at]}"]
        for size in range(1, min(4, len(low)) + 1):
            names += [f"p{size}={low[:size]}", f"x{size}={low[-size:]}"]
        kinds = {"digit": any(map(str.isdigit, word)), "upper": word.isupper(), "title": word.istitle(),
                 "hyphen": "-" in word}  # fmt: skip
        names += [name for name, true in kinds.items() if true]
        for step in (-1, 1, -2, 2):
            beside = at + step
            if 0 <= beside < len(words):
                names.append(f"{step:+}l={lower[beside]}")
                if abs(step) == 1:
                    names += [f"{step:+}s={shapes[beside]}", f"{step:+}x={lower[beside][-3:]}"]
            elif abs(step) == 1:
                names.append(f"{step:+}")
        yield names


def shape(word: str) -> str:
    """The kinds of characters in a word, each run of one kind once.

    >>> shape("McDonald's"), shape("10:30")
    ("XxXx'x", 'd:d')
    """
    kinds = ("X" if c.isupper() else "d" if c.isdigit() else "x" if c.isalpha() else c for c in word)
    runs: list[str] = []
    for kind in kinds:
        if not runs or runs[-1] != kind:
            runs.append(kind)
    return "".join(runs)


def _first(count: Counter[str]) -> str:
    """The most frequent; of equally frequent ones the first in the alphabet."""
    return min(count, key=lambda tag: (-count[tag], tag))
