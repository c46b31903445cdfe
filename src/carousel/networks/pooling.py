"""A sequence of vectors made one: last, mean, max or attention. What stands past a sequence's end never reaches it.

A sequence that is read in chunks is pooled in two steps: `parts` pools each chunk, and `join` makes the parts of each
sequence one, with the same result as pooling all its steps at once.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..errors import ArgumentError
from ..masks import length_mask

POOLINGS = ("last", "mean", "max", "attention")


class Pooling(nn.Module):
    """(T, B, F) and lengths (B,) → (B, F)."""

    def parts(self, y: Tensor, lengths: Tensor) -> Tensor:
        """What `join` needs of chunks y (T, C, F) with these lengths, (C,): (C, P)."""
        return self(y, lengths)

    def join(self, parts: Tensor, lengths: Tensor, owners: Tensor) -> Tensor:
        """The parts (C, P) of all chunks, with the sequence that each belongs to, (C,): in order, and each has one.
        Returns (B, F)."""
        raise NotImplementedError


def pooling(name: str, size: int, bidirectional: bool = False) -> Pooling:
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


class Last(Pooling):
    """Where each direction ends: the first `forward_size` numbers of the last step, the others of the first step."""

    def __init__(self, forward_size: int) -> None:
        super().__init__()
        self.forward_size = forward_size

    def forward(self, y: Tensor, lengths: Tensor) -> Tensor:
        """y (T, B, F), lengths (B,) → (B, F)."""
        last = y[(lengths - 1).clamp(min=0), torch.arange(y.shape[1], device=y.device)]
        ends = torch.cat((last[:, : self.forward_size], y[0, :, self.forward_size :]), 1)
        return ends.masked_fill(lengths.unsqueeze(1) == 0, 0)

    def join(self, parts: Tensor, lengths: Tensor, owners: Tensor) -> Tensor:
        """The forward direction ends in the last chunk, the other in the first."""
        changes = owners[1:] != owners[:-1]
        edge = changes.new_ones(1)
        last, first = parts[torch.cat((changes, edge))], parts[torch.cat((edge, changes))]
        return torch.cat((last[:, : self.forward_size], first[:, self.forward_size :]), 1)

    def extra_repr(self) -> str:
        return f"forward_size={self.forward_size}"


class Mean(Pooling):
    """The mean over the steps."""

    def forward(self, y: Tensor, lengths: Tensor) -> Tensor:
        """y (T, B, F), lengths (B,) → (B, F)."""
        total = y.masked_fill(~length_mask(lengths, len(y)).unsqueeze(2), 0).sum(0)
        return total / lengths.clamp(min=1).unsqueeze(1)

    def join(self, parts: Tensor, lengths: Tensor, owners: Tensor) -> Tensor:
        return _sums(parts * lengths.unsqueeze(1), owners) / _sums(lengths, owners).clamp(min=1).unsqueeze(1)


class Max(Pooling):
    """The largest value of each number over the steps."""

    def forward(self, y: Tensor, lengths: Tensor) -> Tensor:
        """y (T, B, F), lengths (B,) → (B, F)."""
        largest = y.masked_fill(~length_mask(lengths, len(y)).unsqueeze(2), -torch.inf).amax(0)
        return largest.masked_fill(lengths.unsqueeze(1) == 0, 0)

    def join(self, parts: Tensor, lengths: Tensor, owners: Tensor) -> Tensor:
        return _largest(parts, owners)


class Attention(Pooling):
    """A weighted mean: the weight of a step is the softmax, over the steps, of v · tanh(W y + b)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.project = nn.Linear(size, size)
        self.score = nn.Linear(size, 1, bias=False)

    def scores(self, y: Tensor, lengths: Tensor) -> Tensor:
        """y (T, B, F), lengths (B,) → (T, B): v · tanh(W y + b); the smallest number past the end."""
        past = ~length_mask(lengths, len(y))
        y = y.masked_fill(past.unsqueeze(2), 0)  # a NaN there would reach the gradient of W
        scores = self.score(torch.tanh(self.project(y))).squeeze(2)
        return scores.masked_fill(past, torch.finfo(scores.dtype).min)

    def weights(self, y: Tensor, lengths: Tensor) -> Tensor:
        """y (T, B, F), lengths (B,) → (T, B): how much each step counts; 0 past the end, 1 in sum."""
        return self.scores(y, lengths).softmax(0).masked_fill(~length_mask(lengths, len(y)), 0)

    def forward(self, y: Tensor, lengths: Tensor) -> Tensor:
        """y (T, B, F), lengths (B,) → (B, F)."""
        y = y.masked_fill(~length_mask(lengths, len(y)).unsqueeze(2), 0)
        return torch.einsum("tb,tbf->bf", self.weights(y, lengths), y)

    def parts(self, y: Tensor, lengths: Tensor) -> Tensor:
        """(C, F + 1): the weighted mean of each chunk, and the logarithm of what its weights were divided by."""
        return torch.cat((self(y, lengths), self.scores(y, lengths).logsumexp(0).unsqueeze(1)), 1)

    def join(self, parts: Tensor, lengths: Tensor, owners: Tensor) -> Tensor:
        means, logs = parts[:, :-1], parts[:, -1]
        shares = (logs - _largest(logs, owners)[owners].detach()).exp()
        return _sums(means * shares.unsqueeze(1), owners) / _sums(shares, owners).unsqueeze(1)


def _sums(parts: Tensor, owners: Tensor) -> Tensor:
    """The sum of each owner's parts: (C, …) → (B, …)."""
    return parts.new_zeros(int(owners[-1]) + 1, *parts.shape[1:]).index_add(0, owners, parts)


def _largest(parts: Tensor, owners: Tensor) -> Tensor:
    """The largest of each owner's parts, number by number: (C, …) → (B, …)."""
    index = owners.reshape(-1, *[1] * (parts.dim() - 1)).expand_as(parts)
    start = parts.new_zeros(int(owners[-1]) + 1, *parts.shape[1:])
    return start.scatter_reduce(0, index, parts, "amax", include_self=False)
