"""The linear-chain conditional random field: a distribution over whole taggings of a sequence.

    score(y) = start[y_1] + Σ_t emissions[t, y_t] + Σ_t transitions[y_t, y_{t+1}] + end[y_n]
    log p(y) = score(y) − log Z,      log Z = log Σ_y exp score(y)

A transition that is not allowed has the score −∞: no probability in training, never taken in decoding. Sums over
taggings are matrix products of exponentials relative to the largest; where scores lie so far apart that one of them
could underflow, they are taken in log space instead. Whatever the numbers given, sums run in float64: a probability is
the small difference of scores that grow with the sequence. Shapes: T steps, B sequences, K tags; time comes first
unless `batch_first`. What stands past a sequence's end has no effect; a sequence of length 0 has one, empty, tagging,
with score and log Z 0.

Where the sequences end is given in one of two ways: `lengths`, B integers as a list or tensor, or `mask`, bool or uint8
in the layout of the tags, true at real steps and false in the padding after them (pytorch-crf's convention).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ..errors import ArgumentError
from ..layers.batch import read_lengths
from ..masks import length_mask

CHUNK = 1 << 20  # numbers that are held at once when transitions are counted in log space
Lengths = Tensor | Sequence[int] | None  # (B,)
SAFE = 1e150  # products of exponentials are trusted between 1/SAFE and SAFE: float64 has twice that range


class Scores(NamedTuple):
    """What a chain is scored by, −∞ where something is not allowed."""

    transitions: Tensor  # (K, K): [i, j] from i to j
    start: Tensor  # (K,)
    end: Tensor  # (K,)


class CRF(nn.Module):
    """Transition scores between `tags` tags, and what is computed with them.

    `allowed` (K, K), `starts` and `ends` (K,) are masks of what may follow what, come first and come last; without
    them everything may. With `batch_first`, emissions are (B, T, K), tags and masks (B, T), and so are results.

    >>> crf = CRF(3, starts=torch.tensor([True, True, False]))
    >>> emissions, lengths = torch.randn(5, 2, 3), torch.tensor([5, 3])
    >>> crf.log_partition(emissions, lengths).shape, crf.marginals(emissions, lengths).shape
    (torch.Size([2]), torch.Size([5, 2, 3]))
    >>> crf.best(emissions, lengths).tags.shape
    torch.Size([5, 2])
    """

    allowed: Tensor
    starts: Tensor
    ends: Tensor

    def __init__(
        self,
        tags: int,
        allowed: Tensor | None = None,
        starts: Tensor | None = None,
        ends: Tensor | None = None,
        *,
        batch_first: bool = False,
    ) -> None:
        super().__init__()
        self.tags = tags
        self.batch_first = batch_first
        self.transitions = nn.Parameter(torch.empty(tags, tags).uniform_(-0.1, 0.1))
        self.start = nn.Parameter(torch.zeros(tags))
        self.end = nn.Parameter(torch.zeros(tags))
        for name, mask, shape in (
            ("allowed", allowed, (tags, tags)),
            ("starts", starts, (tags,)),
            ("ends", ends, (tags,)),
        ):
            if mask is None:
                mask = torch.ones(shape, dtype=torch.bool)
            if mask.dtype != torch.bool or mask.shape != shape:
                raise ValueError(f"{name} must be bool of shape {shape}, got {mask.dtype} of shape {tuple(mask.shape)}")
            self.register_buffer(name, mask.clone(), persistent=False)

    def scores(self) -> Scores:
        """The parameters in float64, −∞ where something is not allowed."""
        return Scores(
            self.transitions.double().masked_fill(~self.allowed, -torch.inf),
            self.start.double().masked_fill(~self.starts, -torch.inf),
            self.end.double().masked_fill(~self.ends, -torch.inf),
        )

    # ---------------------------------------------------------------- the distribution

    def log_partition(self, emissions: Tensor, lengths: Lengths = None, mask: Tensor | None = None) -> Tensor:
        """log Z of each sequence, (B,), for emissions (T, B, K)."""
        dtype = emissions.dtype
        return self._log_partition(*self._read(emissions, lengths, mask)).to(dtype)

    def _log_partition(self, emissions: Tensor, lengths: Tensor) -> Tensor:
        result: Tensor = LogPartition.apply(emissions, lengths, *self.scores())
        if torch.isneginf(result).any():
            row = int(torch.isneginf(result).nonzero()[0])
            raise ArgumentError(f"no tagging of {int(lengths[row])} steps is allowed (sequence {row} of the batch)")
        return result

    def score(self, emissions: Tensor, tags: Tensor, lengths: Lengths = None, mask: Tensor | None = None) -> Tensor:
        """The score of a tagging of each sequence, (B,), for tags (T, B); −∞ if it is not allowed."""
        dtype = emissions.dtype
        emissions, lengths = self._read(emissions, lengths, mask)
        return self._score(emissions, self._read_tags(tags, emissions, lengths), lengths).to(dtype)

    def _score(self, emissions: Tensor, tags: Tensor, lengths: Tensor) -> Tensor:
        if not len(emissions):
            return emissions.new_zeros(emissions.shape[1])
        real = length_mask(lengths, len(emissions))
        transitions, start, end = self.scores()
        own = emissions.gather(2, tags.unsqueeze(2)).squeeze(2)
        between = torch.where(real[1:], transitions[tags[:-1], tags[1:]], 0)
        last = tags.gather(0, (lengths - 1).clamp(min=0).unsqueeze(0)).squeeze(0)
        ends = torch.where(lengths > 0, start[tags[0]] + end[last], 0)
        return (own * real).sum(0) + between.sum(0) + ends

    def loss(self, emissions: Tensor, tags: Tensor, lengths: Lengths = None, mask: Tensor | None = None) -> Tensor:
        """−log p of a tagging of each sequence, (B,), for emissions (T, B, K) and tags (T, B).

        >>> crf = CRF(2)
        >>> crf.loss(torch.zeros(1, 1, 2), torch.tensor([[1]])).exp()
        tensor([2.], grad_fn=<ExpBackward0>)
        """
        dtype = emissions.dtype
        emissions, lengths = self._read(emissions, lengths, mask)
        score = self._score(emissions, self._read_tags(tags, emissions, lengths), lengths)
        if torch.isneginf(score).any():
            row = int(torch.isneginf(score).nonzero()[0])
            raise ArgumentError(f"the tags of sequence {row} of the batch are not allowed; correct them first")
        return (self._log_partition(emissions, lengths) - score).to(dtype)  # in float64: both are large numbers

    @torch.no_grad()
    def marginals(self, emissions: Tensor, lengths: Lengths = None, mask: Tensor | None = None) -> Tensor:
        """The probability of each tag at each step, (T, B, K); 0 past a sequence's end."""
        dtype = emissions.dtype
        emissions, lengths = self._read(emissions, lengths, mask)
        scores = self.scores()
        before, after = _messages(emissions, lengths, scores, both=True)
        total = _total(before, lengths, scores.end)
        return self._give(_marginals(emissions, before, after, total, lengths), 0).to(dtype)

    # ---------------------------------------------------------------- the best taggings

    def best(self, emissions: Tensor, lengths: Lengths = None, mask: Tensor | None = None) -> Best:
        """The best tagging of each sequence (Viterbi): tags (T, B), 0 past its end, and scores (B,)."""
        tags, scores = self.n_best(emissions, 1, lengths, mask)
        return Best(tags[0], scores[0])

    @torch.no_grad()
    def n_best(self, emissions: Tensor, n: int, lengths: Lengths = None, mask: Tensor | None = None) -> Best:
        """The n best taggings of each sequence: tags (n, T, B), and scores (n, B), the best first.

        Where a sequence has fewer, the scores of those that do not exist are −∞.

        >>> crf = CRF(2)
        >>> tags, scores = crf.n_best(torch.tensor([[[0.0, 5.0]], [[0.0, 1.0]]]), 2)
        >>> tags[:, :, 0].tolist()
        [[1, 1], [1, 0]]
        """
        if n < 1:
            raise ValueError(f"n must be 1 or more, got {n}")
        dtype = emissions.dtype
        emissions, lengths = self._read(emissions, lengths, mask)
        steps, size, K = emissions.shape
        transitions, start, end = self.scores()
        # Of each tag at a step, the n best ways to it: their scores (B, K, n), and which way at the step before each
        # continues, a number below K·n.
        ways = emissions.new_full((size, K, n), -torch.inf)
        ways[:, :, 0] = 0
        into = transitions.T.unsqueeze(2)
        origins = []
        ends = set(lengths.tolist())
        final = ways.new_full((size, n), -torch.inf)
        final[:, 0] = 0  # of an empty sequence
        chosen = torch.zeros(size, n, dtype=torch.int64, device=emissions.device)
        for t in range(steps):
            if t == 0:
                ways = ways + (start + emissions[0]).unsqueeze(2)
            else:
                onward = ways.unsqueeze(1) + into  # (B, K to, K from, n)
                ways, origin = _top(onward.flatten(2), n)
                ways = ways + emissions[t].unsqueeze(2)
                origins.append(origin)
            if t + 1 in ends:
                ending = lengths == t + 1
                final[ending], chosen[ending] = _top((ways[ending] + end.unsqueeze(1)).flatten(1), n)
        tags = torch.zeros(steps, size, n, dtype=torch.int64, device=emissions.device)
        at = torch.zeros_like(chosen)
        for t in reversed(range(steps)):
            if t < steps - 1:
                at = origins[t].flatten(1).gather(1, at)
            if t + 1 in ends:
                at = torch.where((lengths == t + 1).unsqueeze(1), chosen, at)
            tags[t] = at
        tags = torch.where(length_mask(lengths, steps).unsqueeze(2), tags // n, 0)
        return Best(self._give(tags.permute(2, 0, 1), 1), final.T.to(dtype))

    # ---------------------------------------------------------------- the caller's layout

    def _read(self, emissions: Tensor, lengths: Lengths, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Emissions (T, B, K) in float64, with zeros past each sequence's end, and the lengths (B,)."""
        if emissions.dim() != 3 or emissions.shape[2] != self.tags:
            layout = "B, T" if self.batch_first else "T, B"
            raise ValueError(f"emissions must be ({layout}, {self.tags}), got {tuple(emissions.shape)}")
        if self.batch_first:
            emissions = emissions.transpose(0, 1)
        emissions = emissions.double()
        steps, size, _ = emissions.shape
        if mask is not None:
            if lengths is not None:
                raise ValueError("lengths and mask both say where sequences end; give one of them")
            counts: Tensor | None = self._read_mask(mask, steps, size).to(emissions.device)
        else:
            counts = None if lengths is None else read_lengths(lengths, steps, size, emissions.device, of="emissions")
        if counts is None:
            return emissions, torch.full((size,), steps, device=emissions.device)
        return torch.where(length_mask(counts, steps).unsqueeze(2), emissions, 0), counts

    def _read_mask(self, mask: Tensor, steps: int, size: int) -> Tensor:
        """The lengths (B,) of a mask in the caller's layout."""
        shape = (size, steps) if self.batch_first else (steps, size)
        if not isinstance(mask, Tensor) or mask.dtype not in (torch.bool, torch.uint8) or mask.shape != shape:
            given = f"{mask.dtype} of shape {tuple(mask.shape)}" if isinstance(mask, Tensor) else type(mask).__name__
            raise ValueError(f"mask must be bool of shape {shape}, true at real steps; got {given}")
        real = mask.bool().T if self.batch_first else mask.bool()
        lengths = real.sum(0)
        if not torch.equal(real, length_mask(lengths, steps)):
            row = int((real != length_mask(lengths, steps)).any(0).nonzero()[0])
            raise ValueError(
                f"mask must be true at the first steps of a sequence and false after them; in sequence {row} of the "
                "batch a real step follows padding"
            )
        return lengths

    def _read_tags(self, tags: Tensor, emissions: Tensor, lengths: Tensor) -> Tensor:
        """Tags (T, B), 0 past each sequence's end, for emissions (T, B, K)."""
        steps, size, _ = emissions.shape
        shape = (size, steps) if self.batch_first else (steps, size)
        if not isinstance(tags, Tensor) or tags.dtype.is_floating_point or tags.shape != shape:
            given = f"{tags.dtype} of shape {tuple(tags.shape)}" if isinstance(tags, Tensor) else type(tags).__name__
            raise ValueError(f"tags must be integers of shape {shape}, got {given}")
        tags = (tags.T if self.batch_first else tags).to(emissions.device, torch.int64)
        tags = torch.where(length_mask(lengths, steps), tags, 0)
        if tags.numel() and not 0 <= int(tags.min()) <= int(tags.max()) < self.tags:
            wrong = int(tags[(tags < 0) | (tags >= self.tags)][0])
            raise ValueError(f"tags must lie between 0 and {self.tags - 1}, got {wrong}")
        return tags

    def _give(self, value: Tensor, time: int) -> Tensor:
        """A result whose dimensions `time` and `time` + 1 are T and B, in the caller's layout."""
        return value.transpose(time, time + 1) if self.batch_first else value

    def extra_repr(self) -> str:
        layout = ", batch_first=True" if self.batch_first else ""
        return f"{self.tags} tags, {int(self.allowed.sum())} transitions allowed{layout}"


class Best(NamedTuple):
    """Taggings and their scores."""

    tags: Tensor  # (T, B) or (n, T, B) int64
    scores: Tensor  # (B,) or (n, B)


class LogPartition(torch.autograd.Function):
    """log Z (B,). Its gradient is the expected number of times each score is used: what the two passes give."""

    @staticmethod
    def forward(
        ctx: Any, emissions: Tensor, lengths: Tensor, transitions: Tensor, start: Tensor, end: Tensor
    ) -> Tensor:
        scores = Scores(transitions, start, end)
        both = any(ctx.needs_input_grad)
        before, after = _messages(emissions, lengths, scores, both)
        total = _total(before, lengths, end)
        ctx.save_for_backward(emissions, lengths, *scores, before, after, total)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        emissions, lengths, transitions, _, _, before, after, total = ctx.saved_tensors
        steps, _, K = emissions.shape
        p = _marginals(emissions, before, after, total, lengths) * grad.unsqueeze(1)  # (T, B, K)
        if not steps:
            return p, None, torch.zeros_like(transitions), p.sum((0, 1)), p.sum((0, 1))
        last = p.gather(0, (lengths - 1).clamp(min=0).view(1, -1, 1).expand(1, -1, K)).squeeze(0)
        onward = (after[1:] - total.unsqueeze(1)).masked_fill_(
            ~length_mask(lengths, steps)[1:].unsqueeze(2), -torch.inf
        )
        pairs = _count_pairs(before[:-1], transitions, onward, grad)
        return p, None, pairs, p[0].sum(0), last.sum(0)


def _messages(emissions: Tensor, lengths: Tensor, scores: Scores, both: bool) -> tuple[Tensor, Tensor]:
    """Log of the sum over all ways up to, and from, each tag at each step, its own emission included: 2 × (T, B, K).

    The second is the first of the sequence read backwards, so both run in one loop, the second with flipped emissions
    from where its sequence begins. Without `both` only the first is made.
    """
    steps, size, K = emissions.shape
    begin = torch.zeros(1, size, 1, dtype=torch.int64, device=emissions.device)
    drive = emissions.unsqueeze(1)
    into, first = scores.transitions.unsqueeze(0), scores.start.unsqueeze(0)
    if both:
        begin = torch.stack((begin[0], (steps - lengths).unsqueeze(1)))
        drive = torch.stack((emissions, emissions.flip(0)), 1)
        into = torch.stack((scores.transitions, scores.transitions.T))
        first = torch.stack((scores.start, scores.end))
    first = first.unsqueeze(1)  # (·, 1, K)
    largest = _finite_max(into.flatten(1), 1).unsqueeze(1)  # (·, 1, 1)
    factors = (into - largest).exp_()  # (·, K from, K to)
    begins = begin == torch.arange(steps, device=emissions.device).view(-1, 1, 1, 1)  # (T, ·, B, 1)
    late = bool(begins[1:].any())  # not all begin at the first step
    messages = emissions.new_empty(steps, 1 + both, size, K)
    state = emissions.new_zeros(1 + both, size, K)
    for t in range(steps):
        if t:
            top = _finite_max(state, 2)
            sums = torch.bmm((state - top).exp_(), factors)
            if size and float(sums.min()) * SAFE > 1:
                state = sums.log_().add_(top).add_(largest)
            else:
                state = torch.logsumexp(state.unsqueeze(3) + into.unsqueeze(1), 2)
        if t == 0 or late:
            state = torch.where(begins[t], first, state)
        state = torch.add(state, drive[t], out=messages[t])
    return messages[:, 0], messages[:, 1].flip(0) if both else messages[:, :0]


def _count_pairs(before: Tensor, transitions: Tensor, onward: Tensor, weight: Tensor) -> Tensor:
    """The expected number of times each transition is used, (K, K), sequences counting by `weight` (B,).

    Its probability at a step is exp(before + transitions + onward): before (T − 1, B, K) of the tag it leaves, onward
    (T − 1, B, K) of the tag it enters, −∞ past a sequence's end.
    """
    steps, size, K = before.shape
    top = _finite_max(before, 2)
    entering = (onward + top).exp_()
    if not before.numel() or max(entering.max(), transitions.max().exp()) < SAFE:
        leaving = (before - top).exp_().mul_(weight.unsqueeze(1))
        return transitions.exp() * (leaving.flatten(0, 1).T @ entering.flatten(0, 1))
    pairs = torch.zeros_like(transitions)
    stride = max(1, CHUNK // (size * K * K))
    for t in range(0, steps, stride):
        log = before[t : t + stride].unsqueeze(3) + transitions + onward[t : t + stride].unsqueeze(2)  # (t, B, K, K)
        pairs += torch.einsum("tbij,b->ij", log.exp_(), weight)
    return pairs


def _finite_max(x: Tensor, dim: int) -> Tensor:
    """The largest along a dimension, which stays; where all are −∞, a number that can be subtracted from them."""
    return x.amax(dim, keepdim=True).clamp_(min=torch.finfo(x.dtype).min / 4)


def _total(before: Tensor, lengths: Tensor, end: Tensor) -> Tensor:
    """log Z, (B,)."""
    if not len(before):
        return before.new_zeros(before.shape[1])
    K = before.shape[2]
    last = before.gather(0, (lengths - 1).clamp(min=0).view(1, -1, 1).expand(1, -1, K)).squeeze(0)
    return torch.where(lengths > 0, torch.logsumexp(last + end, 1), 0)


def _marginals(emissions: Tensor, before: Tensor, after: Tensor, total: Tensor, lengths: Tensor) -> Tensor:
    """The probability of each tag at each step, (T, B, K), 0 past the end."""
    log = before + after - emissions - total.unsqueeze(1)  # both passes count the tag's own emission
    return torch.where(length_mask(lengths, len(emissions)).unsqueeze(2), log, -torch.inf).exp_()


def _top(values: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """The n largest along the last dimension, and where they stand; −∞ at 0 where there are fewer."""
    if n == 1:
        best = values.max(-1, keepdim=True)
        return best.values, best.indices
    top = values.topk(min(n, values.shape[-1]), -1)
    return top.values, top.indices
