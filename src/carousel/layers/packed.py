"""The steps of a search, where sequences branch: several continue one, and many read the same word."""

from __future__ import annotations

from threading import Lock
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ..ops.backend import empty_from_pool
from . import native
from .recurrent import Recurrent

FEW = 4  # rows: their products cost less than to look for them


class BeamState(NamedTuple):
    """The state of a search's rows: row j continues row `parents[j]` of `state`; without parents row j.

    Nothing is copied when a search keeps some rows and doubles others. The next step sees who has the same parent.
    """

    state: Any = None  # as the layer has it, (layers, ·, H) each; None: its own initial state
    parents: Tensor | None = None  # (N,)

    def select(self, rows: Tensor) -> BeamState:
        """The rows `rows` (N,), in order and with repeats."""
        if self.state is None:
            return self
        return BeamState(self.state, rows if self.parents is None else self.parents.index_select(0, rows))


class InputProjectionCache:
    """W x + b of the words that a search has read, each made when it is first read.

    `words` (V, I), `weight` (G·H, I) and `bias` (G·H): the parameters of this moment. Several threads may ask at once.
    Where the words read would need more than `MOST` numbers, they are forgotten, and made again when they are read.
    """

    MOST = 1 << 26

    def __init__(self, words: Tensor, weight: Tensor, bias: Tensor | None) -> None:
        self.words, self.weight, self.bias = words, weight, bias
        self.lock = Lock()
        self._forget()

    def _forget(self) -> None:
        self.places = torch.full((len(self.words),), -1)  # (V,): where each word's row is
        self.rows = empty_from_pool(self.weight, 256, len(self.weight))
        self.used = 0

    def take(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """inputs (N,) → rows (·, G·H), and which of them each is, (N,)."""
        with self.lock:
            places = self.places.index_select(0, inputs)
            if len(places) and int(places.min()) < 0:
                self._make(inputs[places < 0].unique(), inputs)
                places = self.places.index_select(0, inputs)
            return self.rows, places

    def _make(self, new: Tensor, inputs: Tensor) -> None:
        if (self.used + len(new)) * len(self.weight) > self.MOST:
            self._forget()
            new = inputs.unique()
        end = self.used + len(new)
        if end > len(self.rows):
            more = empty_from_pool(self.rows, max(end, 2 * len(self.rows)), self.rows.shape[1])
            more[: self.used] = self.rows[: self.used]
            self.rows = more
        self.rows[self.used : end] = F.linear(self.words.index_select(0, new), self.weight, self.bias)
        self.places[new] = torch.arange(self.used, end)
        self.used = end


class PackedStepper:
    """A layer, one way, a step at a time, with the parameters as they are now: they are packed once for all steps.

    Rows with the same parent share its product, and rows with the same word; with `remembers` a word's is made once for
    all steps, which pays where one `PackedStepper` serves many searches. No gradient flows.

    >>> lstm, words = carousel.LSTM(8, 16).eval(), torch.randn(50, 8)
    >>> with torch.no_grad():
    ...     steps = PackedStepper(lstm)
    ...     y, rows = steps.step(words, BeamState(), torch.tensor([3, 7]))
    ...     y, rows = steps.step(words, rows.select(torch.tensor([0, 0, 1])), torch.tensor([5, 9, 5]))
    >>> y.shape
    torch.Size([3, 16])
    """

    def __init__(self, layer: Recurrent, remembers: bool = False) -> None:
        self.layer = layer
        self.remembers = remembers
        self.native = native.keep(layer)  # None: the layer has no native step
        self.projections: InputProjectionCache | None = None

    def step(self, x: Tensor, rows: BeamState, inputs: Tensor | None = None) -> tuple[Tensor, BeamState]:
        """x (N, I), or (·, I) of which each row reads the one that `inputs` (N,) names → output (N, P), and the rows
        after it."""
        state, parents = rows
        made = None
        if self.native is not None:
            read, projected = x, False
            if inputs is not None:
                inputs = inputs.to(torch.int64).contiguous()
                if self.remembers and len(inputs) > FEW and (projections := self._projections(x)) is not None:
                    (read, places), projected = projections.take(inputs), True
            made = self.native.step(read, state, places if projected else inputs, parents, projected)
        if made is None:
            if parents is not None:
                whole = isinstance(state, Tensor)
                parts = [part.index_select(1, parents) for part in ((state,) if whole else state)]
                state = parts[0] if whole else tuple(parts)
            made = self.layer.step(x if inputs is None else x.index_select(0, inputs), state)
        y, new = made
        return y, BeamState(new)

    def _projections(self, words: Tensor) -> InputProjectionCache | None:
        """The projections of these words; None if the layer does not take them."""
        if self.projections is None or self.projections.words is not words:
            parameters = self.native and self.native.stream.input_projection()
            self.projections = InputProjectionCache(words, *parameters) if parameters else None
        return self.projections
