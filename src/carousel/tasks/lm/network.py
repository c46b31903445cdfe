"""The language model's network: embedding → layers → (projection) → vocabulary."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ...data import END, PAD, UNK, TextBatch
from ...layers import RecurrentStepper
from ...metrics import perplexity
from ...networks.adaptive import AdaptiveSoftmax, AdaptiveStepper, default_cutoffs
from ...networks.embedder import Embedder, input_rows, read_columns
from ...networks.encoder import SequenceDropout
from ...ops.cross_entropy import linear_cross_entropy
from ...training import Loss, Network, SummedMetric
from .data import LanguageAssets
from .settings import LanguageSettings

RESTARTS = 0.01  # fraction of the streams of running text that restart in a batch
WINDOW = 1024  # steps of a line that are in memory at once when it is evaluated: a line may have ten million


class LanguageNetwork(Network):
    """Tokens (T, B) to the log-probabilities of those that follow them."""

    def __init__(self, settings: LanguageSettings, assets: LanguageAssets) -> None:
        super().__init__()
        self.settings = s = settings
        size = len(assets.vocabulary)
        width = s.embedding if isinstance(s.embedding, int) else input_rows(s.cell, s.hidden)
        self.embedder = Embedder(size, width, s.embedding_dropout)
        self.layers = s.recurrent(
            width,
            num_layers=s.layers,
            dropout=s.dropout,
            variational=s.variational,
            recurrent_dropout=s.recurrent_dropout,
            weight_drop=s.weight_drop,
            zoneout=s.zoneout,
            forget_bias=s.forget_bias,
        )
        if s.embedding == "one-hot":
            read_columns(self.layers, self.embedder)
        self.drop_input = SequenceDropout(s.dropout if s.input_dropout is None else s.input_dropout, s.variational)
        self.drop_output = SequenceDropout(s.dropout if s.output_dropout is None else s.output_dropout, s.variational)
        self.project = nn.Linear(s.hidden, width, bias=False) if s.tied and s.hidden != width else None
        self.adaptive = None
        if s.output == "adaptive":
            self.adaptive = AdaptiveSoftmax(s.hidden, size, default_cutoffs(size))
        else:
            self.bias = nn.Parameter(torch.zeros(size))
            if not s.tied:
                self.output = nn.Parameter(torch.empty(size, s.hidden).uniform_(-0.1, 0.1))
        rare = assets.singletons
        singletons = None if rare is None or not rare.any() else torch.from_numpy(rare)
        self.singletons: Tensor | None
        self.register_buffer("singletons", singletons, persistent=False)
        self._state: Any = None  # carried from one window of running text to the next

    @property
    def output_weight(self) -> Tensor:
        """(V, E) if tied, else (V, H)."""
        return self.embedder.weight if self.settings.tied else self.output

    def read(self, inputs: Tensor, state: Any = None, lengths: Tensor | None = None) -> tuple[Tensor, Any]:
        """inputs (T, B) → what the output layer sees, (T, B, E or H), and the state after it."""
        x = self.drop_input(self.embedder(inputs))
        x, state = self.layers(x, state, lengths=lengths)
        if self.project is not None:
            x = self.project(x)
        return self.drop_output(x), state

    def cross_entropy(
        self, x: Tensor, targets: Tensor, reduction: str = "mean", label_smoothing: float = 0.0
    ) -> Tensor:
        """The output layer's loss, as `linear_cross_entropy` has it; x as from `read`, targets (T, B)."""
        if self.adaptive is not None:
            return self.adaptive.loss(x, targets, ignore_index=PAD, reduction=reduction)
        return linear_cross_entropy(
            x, self.output_weight, targets, self.bias, ignore_index=PAD, reduction=reduction,
            label_smoothing=label_smoothing,
        )  # fmt: skip

    def log_probs(self, batch: TextBatch, state: Any = None) -> tuple[Tensor, Any]:
        """The log-probability of each target, (T, B), 0 past the end of a sequence; and the state after them."""
        losses = []
        for first in range(0, len(batch.inputs), WINDOW):
            inputs, targets = (part[first : first + WINDOW] for part in (batch.inputs, batch.targets))
            x, state = self.read(inputs, state, (batch.lengths - first).clamp(0, len(inputs)))
            losses.append(self.cross_entropy(x, targets, reduction="none"))
        return -torch.cat(losses), state

    def row_names(self, assets: LanguageAssets) -> dict[str, tuple[Sequence[str], ...]]:
        tokens = (assets.vocabulary.tokens,)
        return {"embedder.weight": tokens, "output": tokens, "bias": tokens}

    def loss(self, batch: TextBatch) -> Loss:
        running = self.settings.layout != "lines"
        state = self._state if running and not batch.reset else None
        full = batch.tokens == batch.inputs.numel()
        inputs, targets = self._with_unknown(batch)
        if running and self.training:
            inputs, state = self._restart(inputs, state)
        x, state = self.read(inputs, state, None if full else batch.lengths)
        if running:
            self._state = _detach(state)
        mean = self.cross_entropy(x, targets, label_smoothing=self.settings.label_smoothing)
        return Loss(mean, batch.tokens)

    def _restart(self, inputs: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Let some streams, or all if there is no state yet, begin with the first token and the initial state.

        Every text that is read later begins so, but training has it once an epoch, too seldom to be learned: the state
        can then be drawn to where it never was in training, and stay there through thousands of steps.
        """
        drawn = torch.rand(inputs.shape[1], device=inputs.device) < (1.0 if state is None else RESTARTS)
        if not drawn.any():
            return inputs, state
        inputs = torch.cat((inputs[:1].masked_fill(drawn, self.settings.first_token), inputs[1:]))
        if state is None:
            return inputs, None
        initial = (spec.initial for spec in self.layers.cell.states.values())
        parts = state if isinstance(state, tuple) else (state,)
        parts = tuple(
            part.masked_fill(drawn.view(1, -1, *[1] * (part.dim() - 2)), value)
            for part, value in zip(parts, initial, strict=True)
        )
        return inputs, parts if isinstance(state, tuple) else parts[0]

    def _with_unknown(self, batch: TextBatch) -> tuple[Tensor, Tensor]:
        """Inputs and targets (T, B), in training with `[UNK]` for some of the tokens that occur once."""
        if self.singletons is None or not self.training:
            return batch.inputs, batch.targets
        drawn = torch.rand(self.singletons.shape, device=self.singletons.device) < self.settings.unknown_singletons
        hidden = self.singletons & drawn
        return batch.inputs.masked_fill(hidden[batch.inputs], UNK), batch.targets.masked_fill(
            hidden[batch.targets], UNK
        )

    def metric(self) -> Perplexity:
        return Perplexity(self)

    def describe_loss(self) -> Any:
        return lambda loss: f"loss {loss:.3f}  perplexity {math.exp(min(loss, 50)):,.1f}"

    @property
    def carried(self) -> dict[str, Tensor]:
        state = self._state
        if state is None:
            return {}
        return {str(k): part for k, part in enumerate(state if isinstance(state, tuple) else (state,))}

    @carried.setter
    def carried(self, state: dict[str, Tensor]) -> None:
        parts = tuple(state[str(k)] for k in range(len(state)))
        self._state = None if not parts else parts[0] if len(parts) == 1 else parts

    def stepper(self) -> RecurrentStepper:
        """This model as a search sees it."""
        if self.adaptive is not None:
            return AdaptiveStepper(self.embedder.weight, self.layers, self.adaptive)
        projection = None if self.project is None else self.project.weight
        return RecurrentStepper(self.embedder.weight, self.layers, self.output_weight, self.bias, projection=projection)


class Perplexity(SummedMetric):
    """exp of the mean negative log-probability of a token: of all tokens, and of all but `[END]`, if there are such."""

    best = "perplexity"
    lower_is_better = True
    sums = ("total", "count", "ends", "end_count")

    def __init__(self, network: LanguageNetwork) -> None:
        self.network = network
        self.state: Any = None
        self.total = self.count = self.ends = self.end_count = 0.0

    @torch.no_grad()
    def add(self, batch: TextBatch) -> None:
        log_probs, state = self.network.log_probs(batch, None if batch.reset else self.state)
        self.state = None if self.network.settings.layout == "lines" else state
        self.total -= float(log_probs.sum(dtype=torch.float64))
        self.count += batch.tokens
        end = batch.targets == END
        self.ends -= float(log_probs[end].sum(dtype=torch.float64))
        self.end_count += int(end.sum())

    def result(self) -> dict[str, float]:
        every = self.total / max(1.0, self.count)
        if self.network.settings.layout == "running":  # which has no [END]
            return {"perplexity": perplexity(every)}
        inner = (self.total - self.ends) / max(1.0, self.count - self.end_count)
        return {"perplexity": perplexity(every), "perplexity_without_end": perplexity(inner)}


def _detach(state: Any) -> Any:
    return tuple(part.detach() for part in state) if isinstance(state, tuple) else state.detach()
