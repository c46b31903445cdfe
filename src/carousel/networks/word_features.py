"""Hand-made features of words: the word itself, its affixes, its shape and its case, as embeddings.

Each feature has the vector of its hash, so that nothing is counted beforehand, and what a word has follows from its
characters alone. A word that training did not have shares most of its features with words that it had.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..masks import length_mask

BUCKETS = 1 << 16  # vectors; features with the same hash share one
AFFIX = 4  # characters of the longest prefix and suffix
UPPER, LOWER, DIGIT, SPECIAL = range(1, 5)  # kinds of characters; any other is a kind by itself


class WordFeatures(nn.Module):
    """Characters of words → the sum of the vectors of their features.

    >>> reader = WordFeatures(["[PAD]", "[UNK]", "A", "d", "a"], 16)
    >>> reader(torch.tensor([[2, 4], [3, 0], [4, 0]]), torch.tensor([3, 1])).shape, reader.size     # Ada, a
    (torch.Size([2, 16]), 16)
    """

    NAMES = (
        "word", "lower", "shape", "flags",
        *(f"prefix {n}" for n in range(1, AFFIX + 1)), *(f"suffix {n}" for n in range(1, AFFIX + 1)),
    )  # fmt: skip

    def __init__(self, characters: Sequence[str], size: int, buckets: int = BUCKETS) -> None:
        """`characters` are those that the ids stand for, the special tokens included."""
        super().__init__()
        self.size = size
        self.weight = nn.Parameter(torch.empty(buckets, size))
        nn.init.uniform_(self.weight, -0.1, 0.1)
        with torch.no_grad():
            self.weight[0] = 0
        self.lowered: Tensor  # a number for each character in lower case
        self.kinds: Tensor
        self.register_buffer("lowered", torch.tensor([zlib.crc32(c.lower().encode()) for c in characters]))
        self.register_buffer("kinds", torch.tensor([_kind(c) for c in characters]))

    def forward(self, characters: Tensor, lengths: Tensor) -> Tensor:
        """characters (C, W), lengths (W) → (W, size)."""
        features = self.features(characters, lengths)
        salted = _spread(features + torch.arange(1, len(self.NAMES) + 1, device=features.device))
        buckets = torch.where(features != 0, salted % (len(self.weight) - 1) + 1, 0)
        return F.embedding_bag(buckets, self.weight, mode="sum", padding_idx=0)

    def features(self, characters: Tensor, lengths: Tensor) -> Tensor:
        """A hash of each feature in `NAMES` of each word, (W, names); 0 for affixes that a word is too short for."""
        steps = torch.arange(len(characters), device=characters.device)[:, None]
        real = length_mask(lengths, len(characters))  # (C, W)
        from_end = lengths - 1 - steps
        low, kinds = (torch.where(real, table[characters], 0) for table in (self.lowered, self.kinds))
        begins = real & (kinds != F.pad(kinds, (0, 0, 1, 0))[:-1])  # a run of characters of one kind
        columns = [
            _hash(characters, steps, real),
            _hash(low, steps, real),
            _hash(kinds, begins.cumsum(0), begins),
            _flags(kinds),
        ]
        for places in (steps, from_end):
            columns += [_hash(low, places, real & (places < n)) * (lengths >= n) for n in range(1, AFFIX + 1)]
        return torch.stack(columns, 1)

    def extra_repr(self) -> str:
        return f"{len(self.NAMES)} features, {self.weight.shape[0]}, {self.size}"


def _kind(character: str) -> int:
    if len(character) > 1:
        return SPECIAL
    if character.isupper():
        return UPPER
    if character.isdigit():
        return DIGIT
    return LOWER if character.isalpha() else 8 + ord(character)


def _flags(kinds: Tensor) -> Tensor:
    """From the kinds of characters (C, W), a number for each word (W): has it a digit, a hyphen, is it in upper case,
    is only its first character?"""
    upper = kinds == UPPER
    flags = [
        (kinds == DIGIT).any(0),
        (kinds == 8 + ord("-")).any(0),
        upper.any(0) & ~(kinds == LOWER).any(0),
        upper[:1].any(0) & ~upper[1:].any(0),
    ]
    return 1 + torch.stack([flag.long() << k for k, flag in enumerate(flags)]).sum(0)


def _hash(values: Tensor, places: Tensor, chosen: Tensor) -> Tensor:
    """A hash of the `chosen` values at their places, (C, W) each, of every word, (W)."""
    return (_spread(_spread(values + 1) + places) * chosen).sum(0)


def _spread(x: Tensor) -> Tensor:
    """Each number's bits spread over all 64, modulo 2^64: two rounds of multiplication and shift."""
    for shift in (29, 32):
        x = x * 0x5851F42D4C957F2D
        x = x ^ ((x >> shift) & ((1 << 64 - shift) - 1))  # torch shifts the sign in
    return x
