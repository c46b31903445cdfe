"""Tokens to vectors."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..ops.embedding import embedding


class Embedder(nn.Module):
    """A vector for each token; `[PAD]` is the zero vector. `dropout` hides whole tokens of the vocabulary from a batch.

    >>> Embedder(10, 4)(torch.tensor([[1, 2, 0]])).shape
    torch.Size([1, 3, 4])
    """

    def __init__(self, tokens: int, size: int, dropout: float = 0.0, scale: float = 0.1) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(tokens, size))
        self.dropout = dropout
        nn.init.uniform_(self.weight, -scale, scale)
        with torch.no_grad():
            self.weight[0] = 0

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens (...) → (..., size)."""
        vectors = embedding(tokens, self.weight)
        if self.training and self.dropout:
            kept = F.dropout(self.weight.new_ones(len(self.weight), 1), self.dropout)
            vectors = vectors * F.embedding(tokens, kept)
        return vectors

    def extra_repr(self) -> str:
        return f"{len(self.weight)}, {self.weight.shape[1]}, dropout={self.dropout}"
