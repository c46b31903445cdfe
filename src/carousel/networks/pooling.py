"""A sequence of vectors made one: last, mean, max or attention. What stands past a sequence's end never reaches it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..errors import ArgumentError
from ..masks import length_mask

POOLINGS = ("last", "mean", "max", "attention")


def pooling(name: str, size: int, bidirectional: bool = False) -> nn.Module:
    """The pooling `name` for vectors of `size` numbers: (T, B, size) and lengths (B,) → (B, size).

    A sequence of length 0 becomes the zero vector.

    >>> y = torch.tensor([[[1.0, 9.0]], [[3.0, 5.0]], [[100.0, 100.0]]])  # three steps, of which two are real
    >>> [pooling(name, 2)(y, torch.tensor([2])).tolist() for name in ("last", "mean", "max")]
    [[[3.0, 5.0]], [[2.0, 7.0]], [[3.0, 9.0]]]
    """
    match name:
        case "last":
            return Last(size // 2 if bidirectional else size)
        case "mean":
            return Mean()
        case "max":
            return Max()
        case "attention":
            return Attention(size)
    raise ArgumentError(f"pooling must be one of {', '.join(POOLINGS)}; got {name!r}")


class Last(nn.Module):
    """Where each direction ends: the first `forward_size` numbers of the last step, the others of the first step."""

    def __init__(self, forward_size: int) -> None:
        super().__init__()
        self.forward_size = forward_size

    def forward(self, y: Tensor, lengths: Tensor) -> Tensor:
        """y (T, B, F), lengths (B,) → (B, F)."""
        last = y[(lengths - 1).clamp(min=0), torch.arange(y.shape[1], device=y.device)]
        ends = torch.cat((last[:, : self.forward_size], y[0, :, self.forward_size :]), 1)
        return ends.masked_fill(lengths.unsqueeze(1) == 0, 0)

    def extra_repr(self) -> str:
        return f"forward_size={self.forward_size}"


class Mean(nn.Module):
    """The mean over the steps."""

    def forward(self, y: Tensor, lengths: Tensor) -> Tensor:
        """y (T, B, F), lengths (B,) → (B, F)."""
        total = y.masked_fill(~length_mask(lengths, len(y)).unsqueeze(2), 0).sum(0)
        return total / lengths.clamp(min=1).unsqueeze(1)


class Max(nn.Module):
    """The largest value of each number over the steps."""

    def forward(self, y: Tensor, lengths: Tensor) -> Tensor:
        """y (T, B, F), lengths (B,) → (B, F)."""
        largest = y.masked_fill(~length_mask(lengths, len(y)).unsqueeze(2), -torch.inf).amax(0)
        return largest.masked_fill(lengths.unsqueeze(1) == 0, 0)


class Attention(nn.Module):
    """A weighted mean: the weight of a step is the softmax, over the steps, of v · tanh(W y + b)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.project = nn.Linear(size, size)
        self.score = nn.Linear(size, 1, bias=False)

    def weights(self, y: Tensor, lengths: Tensor) -> Tensor:
        """y (T, B, F), lengths (B,) → (T, B): how much each step counts; 0 past the end, 1 in sum."""
        past = ~length_mask(lengths, len(y))
        y = y.masked_fill(past.unsqueeze(2), 0)  # a NaN there would reach the gradient of W
        scores = self.score(torch.tanh(self.project(y))).squeeze(2)
        scores = scores.masked_fill(past, torch.finfo(scores.dtype).min)
        return scores.softmax(0).masked_fill(past, 0)

    def forward(self, y: Tensor, lengths: Tensor) -> Tensor:
        """y (T, B, F), lengths (B,) → (B, F)."""
        y = y.masked_fill(~length_mask(lengths, len(y)).unsqueeze(2), 0)
        return torch.einsum("tb,tbf->bf", self.weights(y, lengths), y)
