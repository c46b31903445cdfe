"""BLEU and chrF of translations, by sacrebleu, with the signature that says how a number was made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ..errors import ArgumentError

# those of sacrebleu's that need nothing else to be installed or fetched
TOKENIZERS = {
    "13a": "as the WMT evaluations cut words: for raw text of most European languages",
    "none": "at spaces: for text that is tokenised already",
    "intl": "13a's rules for every script",
    "zh": "Chinese characters one by one, the rest as 13a",
    "char": "every character by itself",
}


@dataclass(frozen=True, repr=False)
class Score:
    """A score of a corpus from 0 to 100, and the `signature` to publish with it."""

    name: str
    score: float
    signature: str
    _metric: Any = field(compare=False)
    _pairs: tuple[tuple[str, list[str]], ...] = field(compare=False)

    @cached_property
    def sentences(self) -> tuple[float, ...]:
        """The score of every sentence by itself, in the order given. Their mean is not the corpus's score."""
        return tuple(self._metric.sentence_score(text, references).score for text, references in self._pairs)

    def __float__(self) -> float:
        return self.score

    def __str__(self) -> str:
        return f"{self.name} {self.score:.2f}"

    def __repr__(self) -> str:
        return f"<{self}  {self.signature}>"


@dataclass(frozen=True, repr=False)
class Bleu(Score):
    """What :func:`bleu` gives: `matched[n − 1]` of the `total[n − 1]` n-grams are right, `precisions` in percent.

    Where n-grams of an order match nothing, `precisions` has sacrebleu's smoothed value, as the score has.
    """

    matched: tuple[int, ...]
    total: tuple[int, ...]
    precisions: tuple[float, ...]
    brevity_penalty: float
    length: int  # words in the translations
    reference_length: int  # in the references; of several, that whose length is closest

    def __str__(self) -> str:
        precisions = "/".join(f"{p:.1f}" for p in self.precisions)
        lengths = f"lengths {self.length:,}:{self.reference_length:,}"
        return f"{super().__str__()}  {precisions}  brevity penalty {self.brevity_penalty:.3f}, {lengths}"


def bleu(
    translations: Sequence[str],
    references: Sequence[str | Sequence[str]],
    *,
    tokenize: str = "13a",
    lowercase: bool = False,
) -> Bleu:
    """BLEU of a corpus: how many n-grams of 1 to 4 words are in the references, and a penalty for being short.

    `references` has for each translation one text, or a list of several. `tokenize` is one of `TOKENIZERS`; take
    `"none"` for text in which words are apart already. A sentence's own score leaves out orders it is too short for.

    >>> found = bleu(["the cat the cat on the mat"], [["the cat is on the mat", "there is a cat on the mat"]])
    >>> found.matched, found.total, found.brevity_penalty
    ((5, 4, 2, 1), (7, 6, 5, 4), 1.0)
    >>> print(found)
    BLEU 46.71  71.4/66.7/40.0/25.0  brevity penalty 1.000, lengths 7:7
    >>> found.signature.split("|")[:-1]     # and sacrebleu's version
    ['nrefs:2', 'case:mixed', 'eff:no', 'tok:13a', 'smooth:exp']
    """
    from sacrebleu.metrics.bleu import BLEU  # here, because it is slow to import

    if tokenize not in TOKENIZERS:
        raise ArgumentError(f"tokenize must be one of {', '.join(map(repr, TOKENIZERS))}, got {tokenize!r}")
    pairs = _pair(translations, references)
    # `force`: that the text looks tokenised is for the caller to know
    metric = BLEU(tokenize=tokenize, lowercase=lowercase, force=True)
    score = metric.corpus_score([text for text, _ in pairs], _streams(pairs))
    alone = BLEU(tokenize=tokenize, lowercase=lowercase, force=True, effective_order=True)
    return Bleu(
        "BLEU",
        score.score,
        str(metric.get_signature()),
        alone,
        pairs,
        tuple(score.counts),
        tuple(score.totals),
        tuple(score.precisions),
        score.bp,
        score.sys_len,
        score.ref_len,
    )


def chrf(
    translations: Sequence[str],
    references: Sequence[str | Sequence[str]],
    *,
    words: int = 0,
    lowercase: bool = False,
) -> Score:
    """chrF of a corpus: F₂ of n-grams of 1 to 6 characters, spaces left out. It asks nothing about what a word is.

    `references` as for :func:`bleu`. `words=2` adds n-grams of 1 and 2 words, which makes it chrF++.

    >>> print(chrf(["the cat sat"], ["the cat sat"]), chrf(["the cat sat"], ["a cat sat down"]))
    chrF 100.00 chrF 40.49
    """
    from sacrebleu.metrics.chrf import CHRF

    if words not in (0, 1, 2):
        raise ArgumentError(f"words must be 0, 1 or 2, got {words!r}")
    pairs = _pair(translations, references)
    metric = CHRF(word_order=words, lowercase=lowercase)
    score = metric.corpus_score([text for text, _ in pairs], _streams(pairs))
    return Score("chrF" + "+" * words, score.score, str(metric.get_signature()), metric, pairs)


def _pair(translations: Sequence[str], references: Sequence[str | Sequence[str]]) -> tuple[tuple[str, list[str]], ...]:
    """Each translation with its references, of which there is at least one."""
    for name, given in (("translations", translations), ("references", references)):
        if isinstance(given, str):
            raise TypeError(f"{name} must be a list of texts, got one text: {given[:40]!r}")
    if len(translations) != len(references):
        raise ArgumentError(f"{len(translations)} translations, but references for {len(references)}")
    if not translations:
        raise ArgumentError("translations is empty; there is nothing to score")
    pairs = []
    for k, (text, right) in enumerate(zip(translations, references, strict=True)):
        several = [right] if isinstance(right, str) else list(right)
        if not several:
            raise ArgumentError(f"references[{k}] is empty; a translation needs at least one reference")
        for name, one in [(f"translations[{k}]", text), *((f"references[{k}]", one) for one in several)]:
            if not isinstance(one, str):
                raise TypeError(f"{name} must be text, got {type(one).__name__}")
        pairs.append((text, several))
    return tuple(pairs)


def _streams(pairs: Sequence[tuple[str, list[str]]]) -> Any:
    """References as sacrebleu wants them: all the first ones, then all the second ones; None where there is none."""
    most = max(len(references) for _, references in pairs)
    return [[references[k] if k < len(references) else None for _, references in pairs] for k in range(most)]
