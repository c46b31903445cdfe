"""Hand-made features of words: their affixes, shape and case, and the words themselves, as embeddings.

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
from ..ops.embedding import embedding

BUCKETS = 1 << 16  # the most vectors with whole words as features, half of it without; features of one hash share one
AFFIX = 4  # characters of the longest prefix and suffix
UPPER, LOWER, DIGIT, SPECIAL = range(1, 5)  # kinds of characters; any other is a kind by itself


class WordFeatures(nn.Module):
    """Characters of words → the sum of the vectors of their features.

    >>> reader = WordFeatures(["[PAD]", "[UNK]", "A", "d", "a"], 16)
    >>> reader(torch.tensor([[2, 4], [3, 0], [4, 0]]), torch.tensor([3, 1])).shape, reader.size     # Ada, a
    (torch.Size([2, 16]), 16)
    """

    AFFIXES = tuple(f"{kind} {n}" for kind in ("prefix", "suffix") for n in range(1, AFFIX + 1))

    def __init__(
        self, characters: Sequence[str], size: int, *, words: int = BUCKETS, whole: bool = True, dropout: float = 0.0
    ) -> None:
        """`characters` are those that the ids stand for, the special tokens included; `words` is the size of the
        vocabulary, with which the number of vectors grows as far as `BUCKETS`; `whole`: the word itself, as it is
        written and in lower case, is a feature, too. In training, features are left out with probability `dropout`.

        Without `whole`, vectors begin at zero, so that a feature which training did not have adds nothing."""
        super().__init__()
        self.names = (*(("word", "lower") if whole else ()), "shape", "flags", *self.AFFIXES)
        self.size, self.whole, self.dropout = size, whole, dropout
        buckets = min(1 << (16 * words - 1).bit_length(), BUCKETS)
        self.weight = nn.Parameter(torch.zeros(buckets if whole else buckets // 2, size))
        if whole:
            nn.init.uniform_(self.weight, -0.1, 0.1)
            self.weight.data[0] = 0
        self.lowered: Tensor  # a number for each character in lower case
        self.kinds: Tensor
        self.register_buffer("lowered", torch.tensor([zlib.crc32(c.lower().encode()) for c in characters]))
        self.register_buffer("kinds", torch.tensor([_kind(c) for c in characters]))

    def forward(self, characters: Tensor, lengths: Tensor) -> Tensor:
        """characters (C, W), lengths (W) → (W, size)."""
        features = self.features(characters, lengths)
        salted = _spread(features + torch.arange(1, len(self.names) + 1, device=features.device))
        buckets = torch.where(features != 0, salted % (len(self.weight) - 1) + 1, 0)
        if self.training and self.dropout:
            buckets = buckets.masked_fill(torch.rand(buckets.shape, device=buckets.device) < self.dropout, 0)
            return embedding(buckets, self.weight).sum(1) / (1 - self.dropout)
        return embedding(buckets, self.weight).sum(1)

    def features(self, characters: Tensor, lengths: Tensor) -> Tensor:
        """A hash of each feature in `names` of each word, (W, names); 0 for affixes that a word is too short for."""
        steps = torch.arange(len(characters), device=characters.device)[:, None]
        real = length_mask(lengths, len(characters))  # (C, W)
        from_end = lengths - 1 - steps
        low, kinds = (torch.where(real, table[characters], 0) for table in (self.lowered, self.kinds))
        begins = real & (kinds != F.pad(kinds, (0, 0, 1, 0))[:-1])  # a run of characters of one kind
        columns = [_hash(characters, steps, real), _hash(low, steps, real)] if self.whole else []
        columns += [
            _hash(kinds, begins.cumsum(0), begins),
            _flags(kinds),
        ]
        enough = lengths if self.whole else lengths - 1  # no affix is the whole word
        for places in (steps, from_end):
            columns += [_hash(low, places, real & (places < n)) * (enough >= n) for n in range(1, AFFIX + 1)]
        return torch.stack(columns, 1)

    def extra_repr(self) -> str:
        return f"{len(self.names)} features, {self.weight.shape[0]}, {self.size}, dropout={self.dropout}"


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
