"""How spans are written as tags, one per word: IOB1, IOB2 and BIOES; telling them apart, turning one into another.

| | a span of X is | two spans of X in a row |
|---|---|---|
| `iob1` | `I-X I-X`, `B-X` only to part it from a span of X before it | `I-X B-X` |
| `iob2` | `B-X I-X` (often called BIO) | `B-X B-X` |
| `bioes` | `B-X I-X E-X`, or `S-X` if it is one word; BILOU's `L-X` and `U-X` are read as `E-X` and `S-X` | `S-X S-X` |

What is outside of any span is `O`. All three are read alike, and so are tags that break their scheme's rules, in the
way of the usual scorers: a tag that cannot continue the span before it begins another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import numpy as np

from ...errors import ArgumentError

Scheme = Literal["iob1", "iob2", "bioes"]

PREFIXES: dict[Scheme, str] = {"iob1": "BI", "iob2": "BI", "bioes": "BIES"}
_BILOU = {"L": "E", "U": "S"}
_TAG = re.compile(r"([BIESLU])-(.+)")


class Span(NamedTuple):
    """Words `start` to `end` − 1 are a `type`."""

    type: str
    start: int
    end: int


def part(tag: str) -> tuple[str, str] | None:
    """A tag's prefix and type; `O` has no type; None if it is not written like a part of a span.

    >>> part("B-PER"), part("O"), part("U-LOC"), part("NOUN")
    (('B', 'PER'), ('O', ''), ('S', 'LOC'), None)
    """
    if tag == "O":
        return "O", ""
    match = _TAG.fullmatch(tag)
    return (_BILOU.get(match[1], match[1]), match[2]) if match else None


def type_of(tag: str) -> str:
    """The type of the span that a tag is a part of; `O` for what is outside of any.

    >>> type_of("B-PER"), type_of("O")
    ('PER', 'O')
    """
    return _read(tag)[1] or "O"


def are_spans(tags: Iterable[str]) -> bool:
    """Whether all of these are parts of spans or `O`, and not all `O`.

    >>> are_spans({"O", "B-PER", "I-PER"}), are_spans({"NOUN", "VERB"}), are_spans({"O"})
    (True, False, False)
    """
    parts = [part(tag) for tag in tags]
    return all(parts) and any(pair and pair[1] for pair in parts)


class Recognition:
    """Tells the scheme of a corpus that streams past, sentence by sentence.

    `E-` or `S-` is BIOES. Otherwise the scheme, of IOB1 and IOB2, whose rules are broken less often.

    >>> seen = Recognition()
    >>> seen.add(["I-PER", "I-PER", "O", "I-LOC", "B-LOC"])
    >>> seen.scheme
    'iob1'
    """

    def __init__(self) -> None:
        self.prefixes: set[str] = set()
        self.broken: dict[Scheme, int] = {"iob1": 0, "iob2": 0}

    def add(self, tags: Sequence[str]) -> None:
        self.prefixes.update(pair[0] for pair in map(part, tags) if pair)
        for scheme in self.broken:
            self.broken[scheme] += len(illegal(tags, scheme))

    @property
    def scheme(self) -> Scheme:
        if self.prefixes & {"E", "S"}:
            return "bioes"
        return "iob1" if self.broken["iob1"] < self.broken["iob2"] else "iob2"


def recognise(sentences: Iterable[Sequence[str]]) -> Scheme:
    """The scheme that these tags are written in.

    >>> recognise([["B-PER", "I-PER", "O"], ["S-LOC"]])
    'bioes'
    """
    seen = Recognition()
    for tags in sentences:
        seen.add(tags)
    return seen.scheme


def spans(tags: Sequence[str]) -> list[Span]:
    """The spans of one sentence, in order.

    >>> spans(["B-PER", "I-PER", "O", "B-LOC"])
    [Span(type='PER', start=0, end=2), Span(type='LOC', start=3, end=4)]
    """
    result: list[Span] = []
    start, before = 0, ("O", "")
    for at, tag in enumerate([*tags, "O"]):
        here = _read(tag)
        if not (here[0] in "IE" and before[0] in "BI" and here[1] == before[1]):
            if before[0] != "O":
                result.append(Span(before[1], start, at))
            start = at
        before = here
    return result


def write(spans: Iterable[Span], length: int, scheme: Scheme) -> list[str]:
    """The tags of a sentence of `length` words with these spans, which do not overlap.

    >>> write([Span("PER", 0, 3), Span("LOC", 3, 4)], 5, "bioes")
    ['B-PER', 'I-PER', 'E-PER', 'S-LOC', 'O']
    """
    tags = ["O"] * length
    for type, start, end in spans:
        tags[start:end] = [f"I-{type}"] * (end - start)
        if scheme == "iob2" or (scheme == "iob1" and start and _same(tags[start - 1], type)):
            tags[start] = f"B-{type}"
        elif scheme == "bioes":
            tags[start], tags[end - 1] = f"B-{type}", f"E-{type}"
            if end == start + 1:
                tags[start] = f"S-{type}"
    return tags


def convert(tags: Sequence[str], scheme: Scheme) -> list[str]:
    """One sentence's tags in this scheme, its rules kept.

    >>> convert(["I-PER", "I-PER", "B-PER"], "bioes")
    ['B-PER', 'E-PER', 'S-PER']
    """
    return write(spans(tags), len(tags), scheme)


def illegal(tags: Sequence[str], scheme: Scheme) -> list[int]:
    """The words at which the scheme's rules are broken.

    >>> illegal(["O", "I-PER", "B-PER"], "iob2"), illegal(["B-PER", "O"], "bioes")
    ([1], [1])
    """
    places = []
    before = ("O", "")
    for at, tag in enumerate(tags):
        here = _read(tag)
        if not _may_follow(before, here, scheme):
            places.append(at)
        before = here
    if scheme == "bioes" and before[0] in "BI":  # the sentence ends within a span
        places.append(len(tags) - 1)
    return places


def all_tags(types: Iterable[str], scheme: Scheme) -> list[str]:
    """Every tag of spans of these types: `O`, then each type's.

    >>> all_tags(["PER"], "bioes")
    ['O', 'B-PER', 'I-PER', 'E-PER', 'S-PER']
    """
    return ["O", *(f"{prefix}-{type}" for type in types for prefix in PREFIXES[scheme])]


class Legal(NamedTuple):
    """What may stand where among K tags."""

    pairs: np.ndarray  # (K, K) bool: whether j may follow i
    starts: np.ndarray  # (K,) bool: whether a sentence may begin with it
    ends: np.ndarray  # (K,) bool: whether a sentence may end with it


def legal(tags: Sequence[str], scheme: Scheme | None) -> Legal:
    """What the scheme allows; with no scheme, anything.

    >>> legal(["O", "B-PER", "I-PER"], "iob2").pairs.astype(int).tolist()
    [[1, 1, 0], [1, 1, 1], [1, 1, 1]]
    """
    K = len(tags)
    if scheme is None:
        return Legal(np.ones((K, K), bool), np.ones(K, bool), np.ones(K, bool))
    parts = [_read(tag) for tag in tags]
    outside = ("O", "")
    return Legal(
        np.array([[_may_follow(a, b, scheme) for b in parts] for a in parts]),
        np.array([_may_follow(outside, b, scheme) for b in parts]),
        np.array([_may_follow(a, outside, scheme) for a in parts]),
    )


def _read(tag: str) -> tuple[str, str]:
    pair = part(tag)
    if pair is None:
        raise ArgumentError(f"{tag!r} is not written like a part of a span: O, B-TYPE, I-TYPE, E-TYPE or S-TYPE")
    return pair


def _same(tag: str, type: str) -> bool:
    return _read(tag)[1] == type


def _may_follow(before: tuple[str, str], here: tuple[str, str], scheme: Scheme) -> bool:
    """Whether the scheme lets `here` come after `before`; a sentence begins and ends as if beside an `O`."""
    (a, of_a), (b, of_b) = before, here
    if scheme == "iob1":
        return b != "B" or of_a == of_b  # B only parts two spans of one type
    if scheme == "iob2":
        return b != "I" or of_a == of_b
    within = a in "BI"
    return (b in "IE" and of_a == of_b) if within else b in "OBS"
