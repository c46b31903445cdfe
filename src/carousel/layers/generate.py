"""A language model as a search sees it: a token in, the log-probabilities of the next out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ..ops.prediction import Predictor
from .packed import BeamState, PackedStepper
from .recurrent import Recurrent


class RecurrentStepper:
    """Embedding, recurrent layers, output layer, one token at a time: what `carousel.decoding.search` asks of a model.

    `embedding` (·, E), `layer` one way, `weight` (V, D) and `bias` (V) of the output layer; `projection` (D, P)
    with `projection_bias` (D) stands between the layers' output (P) and the output layer, for models that share one
    matrix between embedding and output. A sequence reads the parameters as they are when it begins, and its state holds
    on to them, packed for the steps to come. On a CPU a step is two native calls; wherever the kernels cannot run, the
    same comes from torch.

    >>> words, lstm, out = torch.nn.Embedding(50, 16), carousel.LSTM(16, 32), torch.nn.Linear(32, 50)
    >>> lm = RecurrentStepper(words.weight, lstm, out.weight, out.bias)
    >>> from carousel.decoding import Sample, TopK, search
    >>> [[drawn]] = search(lm, 1, Sample(TopK(5)), start=1, end=0, max_length=20, seed=3)
    """

    def __init__(
        self,
        embedding: Tensor,
        layer: Recurrent,
        weight: Tensor,
        bias: Tensor | None = None,
        *,
        projection: Tensor | None = None,
        projection_bias: Tensor | None = None,
    ):
        if layer.bidirectional:
            raise ValueError("layer: a bidirectional layer needs the whole sequence; generation runs in one direction")
        _check("embedding", embedding, (None, layer.input_size))
        size = layer.output_size
        if projection is not None:
            _check("projection", projection, (None, size))
            size = projection.shape[0]
        _check("weight", weight, (None, size))
        for name, vector, owner in (("bias", bias, weight), ("projection_bias", projection_bias, projection)):
            if vector is not None:
                if owner is None:
                    raise ValueError("projection_bias was given without a projection")
                _check(name, vector, (owner.shape[0],))
        self.embedding = embedding
        self.layer = layer
        self.weight = weight
        self.bias = bias
        self.projection = projection
        self.projection_bias = projection_bias
        self.vocab_size = weight.shape[0]

    @property
    def device(self) -> torch.device:
        return self.weight.device

    def start(self, items: int) -> None:
        """None: the layer's own initial state, whatever the number of rows."""
        return None

    def predictor(self) -> Predictor:
        """The output layer with the parameters as they are now."""
        return Predictor(self.weight, self.bias)

    def step(self, tokens: Tensor, state: GenerationState | None) -> tuple[Tensor, GenerationState]:
        """tokens (N,) and the state; the log-probabilities of the next, (N, V), and the new state."""
        vectors, state = self._advance(tokens, state)
        return state.predict(vectors), state

    def step_best(
        self, tokens: Tensor, state: GenerationState | None, k: int, never: Sequence[int]
    ) -> tuple[Tensor, Tensor, GenerationState] | None:
        """As `step`, but only the `k` best tokens of each row, none of `never`: their log-probabilities and they
        themselves, (N, k), best first, and the new state. None if that has no advantage."""
        if state is None or not state.predict.native:
            return None
        vectors, state = self._advance(tokens, state)
        return *state.predict.best(vectors, k, never), state

    def _advance(self, tokens: Tensor, state: GenerationState | None) -> tuple[Tensor, GenerationState]:
        """What the output layer sees, (N, D), and the new state."""
        if torch.is_grad_enabled():  # no gradient flows, and without one the layer's step is a native call
            with torch.no_grad():
                return self._advance(tokens, state)
        layers, predict, rows = state or GenerationState(PackedStepper(self.layer), self.predictor(), BeamState())
        y, rows = layers.step(self.embedding, rows, tokens)
        if self.projection is not None:
            y = F.linear(y, self.projection, self.projection_bias)
        return y, GenerationState(layers, predict, rows)

    def select(self, state: GenerationState | None, rows: Tensor) -> GenerationState | None:
        """The state whose row j is row `rows[j]`."""
        return state and state._replace(rows=state.rows.select(rows))


class GenerationState(NamedTuple):
    """Sequences that have begun: the parameters they began with, and the layers' state."""

    layers: PackedStepper
    predict: Predictor
    rows: BeamState


def _check(name: str, given: Tensor, shape: tuple[int | None, ...]) -> None:
    fits = given.dim() == len(shape) and all(w in (None, n) for w, n in zip(shape, given.shape, strict=True))
    if not fits:
        wanted = ", ".join("any" if want is None else str(want) for want in shape)
        raise ValueError(f"{name} must have the shape ({wanted}), got {tuple(given.shape)}")
