"""How a translator is used: lines in, translations out, each with its tokens, scores and attention."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor

from .. import pictures
from ..data import END, PAD, START, UNK, Vocabulary
from ..data.examples import Column
from ..data.pairs import collate_pairs
from ..decoding import (
    GNMT,
    Ban,
    Beam,
    BeamTree,
    Constraint,
    Ensemble,
    Greedy,
    Hypothesis,
    Length,
    LengthNorm,
    Mean,
    Prefix,
    Sample,
    Stepper,
    Strategy,
    Unnormalised,
    make_samplers,
    search,
)
from ..wording import counted

if TYPE_CHECKING:
    from .decoder import Writer
    from .translate import Translator

UNKNOWN = ("ban", "show", "replace")
WINDOW = 1024  # lines that are sorted by length, so that a batch has similar ones


@dataclass(frozen=True)
class Wish:
    """How to translate: by beam search, or with `beam` 1 the most probable token at every step, or drawn.

    `n` translations of each line, best first. `length` is how a score is made of a log-probability: `mean` of the
    tokens, `gnmt` with `alpha`, or `none`. A search stops when `completed` translations are complete (by default as
    many as the beam is wide) or at `max_length` tokens (by default 20 more than twice the source). `temperature`,
    `top_k`, `top_p` and `random_k` draw. `prefix` is how every translation begins, or one for each line.
    `unknown`: `[UNK]` is `ban`ned, `show`n, or `replace`d by the source token that got most attention. `tree` keeps all
    that the search considered.
    """

    beam: int = 5
    n: int = 1
    length: Literal["mean", "gnmt", "none"] = "mean"
    alpha: float = 0.6
    completed: int | None = None
    max_length: int | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    random_k: int | None = None
    prefix: str | Sequence[str] = ""
    unknown: Literal["ban", "show", "replace"] = "ban"
    seed: int = 0
    tree: bool = False

    def strategy(self) -> Strategy:
        samplers = make_samplers(self.temperature, self.random_k, self.top_k, self.top_p)
        if self.unknown not in UNKNOWN:
            raise ValueError(f"unknown must be one of {', '.join(UNKNOWN)}; got {self.unknown!r}")
        if samplers:
            return Sample(*samplers, copies=self.n)
        if self.n > self.beam >= 1:
            raise ValueError(f"n: a beam of {self.beam} has at most so many translations, {self.n} were asked for")
        if self.beam == 1 and self.completed is None:
            return Greedy()
        if self.length == "gnmt" and not 0 < self.alpha < math.inf:
            raise ValueError(f"alpha: the length penalty must be above 0, got {self.alpha:g}; length none has none")
        norms: dict[str, LengthNorm] = {"mean": Mean(), "gnmt": GNMT(max(self.alpha, 1e-9)), "none": Unnormalised()}
        if self.length not in norms:
            raise ValueError(f"length must be one of {', '.join(norms)}; got {self.length!r}")
        return Beam(self.beam, n_best=self.n, length=norms[self.length], completed=self.completed)


@dataclass(frozen=True, repr=False)
class SearchTree:
    """All that the search for a translation considered; prints as text, `picture()` draws it."""

    record: BeamTree
    item: int
    vocabulary: Vocabulary
    best: tuple[int, ...]

    def name(self, token: int) -> str:
        return surface(self.vocabulary, None, np.array([token]))[0]

    def picture(self) -> Any:
        """A plotly figure, with the best translation brought out."""
        return pictures.tree(self.record, self.item, self.name, best=self.best)

    def __str__(self) -> str:
        return self.record.show(self.item, self.name)


@dataclass(frozen=True, repr=False, eq=False)  # tensors have no one truth value
class Translation:
    """A line and its translation.

    `tokens` ends with `[END]` if the translation is `finished`, that is, ended by itself. `log_prob` is that of all
    tokens, `score` what the search ranks by: `log_prob` normalised by length. `attention` (tokens, source tokens) is
    how much each token looked at each of the source. `others` are the next best, best first. `note` says what is odd
    about the line: that it is empty, was cut off, or has no known token. `ids` are the tokens as numbers, and `tree`
    is the search, if it was to be kept.
    """

    source: str
    text: str
    source_tokens: list[str]
    tokens: list[str]
    log_prob: float
    score: float
    finished: bool
    attention: Tensor | None = None
    others: tuple[Translation, ...] = ()
    note: str | None = None
    ids: tuple[int, ...] = ()
    tree: SearchTree | None = None

    @property
    def n_best(self) -> tuple[Translation, ...]:
        """This one and the others."""
        return self, *self.others

    def alignment(self) -> list[tuple[int, int]]:
        """(source, target): for each token but `[END]`, the place of the source that it looked at most."""
        if self.attention is None or not self.source_tokens:
            return []
        count = len(self.tokens) - self.finished
        return [(place, k) for k, place in enumerate(self.attention[:count].argmax(1).tolist())]

    def attention_picture(self) -> Any:
        """The attention as a heat map: a plotly figure; `carousel.pictures.save` makes a file of it."""
        if self.attention is None:
            raise ValueError("there is no attention to show: the model has none, or it was left away")
        return pictures.attention(self.attention, self.source_tokens, self.tokens)

    def as_dict(self) -> dict[str, Any]:
        """In JSON's terms, without the attention."""
        said: dict[str, Any] = {
            "source": self.source,
            "text": self.text,
            "log_prob": round(self.log_prob, 6),
            "score": round(self.score, 6),
            "finished": self.finished,
            "source_tokens": self.source_tokens,
            "tokens": self.tokens,
        }
        if self.attention is not None:
            said["alignment"] = [f"{i}-{j}" for i, j in self.alignment()]
        if self.note:
            said["note"] = self.note
        if self.others:
            said["others"] = [other.as_dict() for other in self.others]
        return said

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"{self.source} → {self.text}  {self.score:.3f}"


def translate(
    models: Sequence[Translator],
    lines: Iterable[str],
    wish: Wish,
    *,
    batch: int = 64,
    window: int = WINDOW,
    attention: bool = True,
) -> Iterator[Translation]:
    """A translation of each line, in their order. With several models, by the mean of their probabilities.

    Lines are read `window` at a time and translated `batch` at a time, those of similar length together. Neither
    changes a translation.
    """
    check_ensemble(models)
    wish.strategy()  # a wish that cannot be is said before anything is read
    waiting, first = iter(lines), 0
    while group := list(islice(waiting, window)):
        yield from _translate(models, group, first, wish, batch, attention)
        first += len(group)
    if not isinstance(wish.prefix, str) and len(wish.prefix) > first:
        raise ValueError(f"prefix: there are {len(wish.prefix):,} for {counted(first, 'line')}; give one for each line")


def check_ensemble(models: Sequence[Translator]) -> None:
    first, *others = models
    for k, other in enumerate(others, 2):
        for side in ("source", "target"):
            mine, theirs = (getattr(model, f"{side}_vocabulary") for model in (first, other))
            if mine != theirs:
                raise ValueError(
                    f"model {k} of the ensemble has another {side} vocabulary ({len(theirs):,} tokens) than the first "
                    f"({len(mine):,} tokens); train both with the same data, tokens and vocabulary size"
                )


def _translate(
    models: Sequence[Translator], lines: list[str], first: int, wish: Wish, batch: int, attention: bool
) -> list[Translation]:
    model = models[0]
    encoded, notes = zip(*(model.read_source(line) for line in lines), strict=True)
    prefixes = [wish.prefix] * len(lines) if isinstance(wish.prefix, str) else wish.prefix[first : first + len(lines)]
    if len(prefixes) != len(lines):
        raise ValueError(f"prefix: there are {len(wish.prefix):,}, and more lines; give one text, or one for each line")
    begun = [_begin(model, text, wish) for text in prefixes]
    found: list[Translation | None] = [None] * len(lines)
    order = sorted((k for k, ids in enumerate(encoded) if len(ids)), key=lambda k: -len(encoded[k]))
    writers = [model.writer() for model in models]
    for start in range(0, len(order), batch):
        chosen = order[start : start + batch]
        record = BeamTree() if wish.tree else None
        sources, numbers = [encoded[k] for k in chosen], [first + k for k in chosen]
        hypotheses = search_batch(models, sources, wish, [begun[k] for k in chosen], numbers, record, writers)
        made = describe(models, [lines[k] for k in chosen], sources, hypotheses, wish, attention)
        for item, (k, several) in enumerate(zip(chosen, made, strict=True)):
            tree = None if record is None else SearchTree(record, item, model.target_vocabulary, several[0].ids)
            found[k] = replace(several[0], others=tuple(several[1:]), note=notes[k], tree=tree)
    nothing = Translation("", "", [], [], 0.0, 0.0, True)
    return [
        one or replace(nothing, source=line, note=note) for one, line, note in zip(found, lines, notes, strict=True)
    ]


def _begin(model: Translator, prefix: str, wish: Wish) -> list[int]:
    """The tokens that a translation is to begin with."""
    ids = [int(i) for i in model.target_vocabulary.encode(model.settings.read_text(prefix))]
    if UNK in ids and wish.unknown == "ban":
        raise ValueError(f"prefix: a token of {prefix!r} is unknown to the model; give another, or unknown: show")
    if wish.max_length is not None and len(ids) > wish.max_length:
        raise ValueError(f"prefix: {prefix!r} has {len(ids)} tokens, more than max_length, {wish.max_length}")
    return ids


def search_batch(
    models: Sequence[Translator],
    sources: Sequence[np.ndarray],
    wish: Wish,
    prefixes: Sequence[Sequence[int]] = (),
    items: Sequence[int] | None = None,
    record: BeamTree | None = None,
    writers: Sequence[Writer] | None = None,
) -> list[list[Hypothesis]]:
    """The hypotheses for each of some encoded sources, best first; `record` sees the search. `writers` are those of the
    models, for callers with several batches."""
    writers = writers or [model.writer() for model in models]
    with torch.no_grad():
        steppers: list[Stepper] = [m.stepper(*_pad(sources), w) for m, w in zip(models, writers, strict=True)]
    limits = [2 * len(ids) + 20 if wish.max_length is None else wish.max_length for ids in sources]
    never = [PAD, START, UNK] if wish.unknown == "ban" else [PAD, START]
    rules: list[Constraint] = [Ban(never), Length(maximum=limits)]
    if any(prefixes):
        rules.append(Prefix(prefixes))
    return search(
        steppers[0] if len(steppers) == 1 else Ensemble(steppers),
        len(sources),
        wish.strategy(),
        start=START,
        end=END,
        max_length=max(limits) + 1,
        constraints=rules,
        seed=wish.seed,
        items=items,
        record=record,
    )


def _pad(sources: Sequence[np.ndarray]) -> tuple[Tensor, Tensor]:
    """(S, B) and (B,)."""
    column = Column(np.concatenate(sources), np.array([len(ids) for ids in sources]))
    batch = collate_pairs(column, Column(np.zeros(0, np.int64), np.zeros(len(sources), np.int64)))
    return batch.source, batch.source_lengths


def describe(
    models: Sequence[Translator],
    lines: Sequence[str],
    sources: Sequence[np.ndarray],
    found: Sequence[Sequence[Hypothesis]],
    wish: Wish,
    attention: bool,
) -> list[list[Translation]]:
    """Hypotheses as translations."""
    model = models[0]
    weights: Iterator[Tensor | None] = iter([None] * sum(map(len, found)))
    if attention or wish.unknown == "replace":
        weights = iter(attention_of(models, sources, found))
    made = []
    for line, ids, hypotheses in zip(lines, sources, found, strict=True):
        source_tokens = surface(model.source_vocabulary, model.settings.read_text(line), ids)
        several = []
        for hypothesis in hypotheses:
            seen = next(weights)
            tokens = list(hypothesis.tokens)
            several.append(
                Translation(
                    source=line,
                    text=_text(model.target_vocabulary, tokens, source_tokens, seen, wish),
                    source_tokens=source_tokens,
                    tokens=surface(model.target_vocabulary, None, np.array(tokens)),
                    log_prob=hypothesis.log_prob,
                    score=hypothesis.score,
                    finished=hypothesis.finished,
                    attention=seen,
                    ids=tuple(tokens),
                )
            )
        made.append(several)
    return made


def surface(vocabulary: Vocabulary, text: str | None, ids: np.ndarray) -> list[str]:
    """The tokens as they are shown; unknown ones as `text` has them, if it is known."""
    if text is not None and vocabulary.kind == "word":
        return text.split()[: len(ids)]
    if text is not None and vocabulary.kind == "character":
        return list(text)[: len(ids)]
    made = []
    for i in ids.tolist():
        shown = vocabulary.token(i) if i <= UNK else vocabulary.decode([i])
        made.append(vocabulary.token(i) if "\ufffd" in shown else shown)  # part of a character
    return made


def _text(vocabulary: Vocabulary, tokens: list[int], source: list[str], seen: Tensor | None, wish: Wish) -> str:
    tokens = [token for token in tokens if token != END]
    if wish.unknown != "replace" or UNK not in tokens or seen is None:
        return vocabulary.decode(tokens)
    places = seen.argmax(1).tolist()
    words = [source[places[k]] if token == UNK else vocabulary.token(token) for k, token in enumerate(tokens)]
    return ("" if vocabulary.kind == "character" else " ").join(words)


@torch.no_grad()
def attention_of(
    models: Sequence[Translator], sources: Sequence[np.ndarray], found: Sequence[Sequence[Hypothesis]]
) -> list[Tensor | None]:
    """What each hypothesis looked at, (tokens, source tokens), in one run over all of them; None without attention.

    For several models, the mean.
    """
    repeated = [ids for ids, hypotheses in zip(sources, found, strict=True) for _ in hypotheses]
    tokens = [h.tokens[:-1] if h.finished else h.tokens for hypotheses in found for h in hypotheses]
    target = Column(
        np.array([t for one in tokens for t in one], np.int64), np.array([len(one) for one in tokens], np.int64)
    )
    batch = collate_pairs(Column(np.concatenate(repeated), np.array([len(ids) for ids in repeated])), target)
    every = [weights for model in models if (weights := model.attention_weights(batch)) is not None]
    if not every:
        return [None] * len(tokens)
    mean = torch.stack(every).mean(0)  # (T, B, S)
    lengths = [len(h.tokens) for hypotheses in found for h in hypotheses]
    return [mean[:length, k, : len(ids)].clone() for k, (length, ids) in enumerate(zip(lengths, repeated, strict=True))]


def perplexity(loss: float) -> float:
    return math.exp(loss) if loss < 700 else math.inf
