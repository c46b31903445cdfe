"""Small language models of the dates that the package makes, for labs that train many of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor, nn

from ..data.corpora.dates import split_dates, write_dates
from .fitting import next_token_loss

PAD, START, END = 0, 1, 2


@dataclass(frozen=True)
class Lines:
    """Dates as people write them, character by character: tokens (T, N), START first and END last, then padding."""

    train: Tensor
    dev: Tensor
    characters: tuple[str, ...]  # by token

    @property
    def tokens(self) -> int:
        return len(self.characters)

    def text(self, tokens: list[int]) -> str:
        """Tokens without START, up to END."""
        end = tokens.index(END) if END in tokens else len(tokens)
        return "".join(self.characters[token] for token in tokens[:end])


@cache
def dates(count: int, seed: int = 0, held_out: int = 300) -> Lines:
    """`count` lines to train on, and `held_out` others, of dates that the first do not have."""
    learn, other = split_dates(held_out, seed)
    sides = [[one.text for one in write_dates(days, n, seed)] for days, n in ((learn, count), (other, held_out))]
    known = ("[PAD]", "[START]", "[END]", *sorted({c for side in sides for line in side for c in line}))
    number = {character: k for k, character in enumerate(known)}

    def encode(lines: list[str]) -> Tensor:
        rows = [torch.tensor([START, *(number[c] for c in line), END]) for line in lines]
        return nn.utils.rnn.pad_sequence(rows, padding_value=PAD)

    return Lines(encode(sides[0]), encode(sides[1]), known)


def loss(network: nn.Module, tokens: Tensor) -> Tensor:
    """The mean cross-entropy of a token of tokens (T, B), given those before it."""
    return next_token_loss(network, tokens, ignore=PAD)


def draw(tokens: Tensor, rows: int) -> Tensor:
    """Some of the lines at random, (T, rows), without the padding that none of them needs."""
    some = tokens[:, torch.randint(tokens.shape[1], (rows,))]
    return some[: int((some != PAD).any(1).sum())]


@torch.no_grad()
def perplexity(network: nn.Module, tokens: Tensor) -> float:
    return math.exp(min(50.0, loss(network, tokens).item()))
