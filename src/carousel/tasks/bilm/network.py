"""The bidirectional language model's network: words and their characters to layers in each direction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from ...data import END, PAD, START
from ...data.stores.examples import ExampleBatch
from ...errors import ArgumentError
from ...layers import Clamp, Trace
from ...masks import length_mask
from ...metrics import perplexity
from ...networks.encoder import SequenceDropout
from ...ops.cross_entropy import linear_cross_entropy
from ...training import Loss, Metric, Network
from .data import BilmAssets
from .settings import BilmSettings


class Stack(nn.Module):
    """Recurrent layers in one direction, with dropout between them; what each of them says is seen."""

    def __init__(self, settings: BilmSettings) -> None:
        super().__init__()
        s = settings
        proj_size = s.embedding if s.hidden > s.embedding else 0
        options = {"proj_size": proj_size} if proj_size else {}
        self.layers = nn.ModuleList(s.recurrent(s.embedding, **options) for _ in range(s.layers))
        self.drop = SequenceDropout(s.dropout, s.variational)

    def forward(self, x: Tensor, lengths: Tensor) -> list[Tensor]:
        """x (T, B, E) → (T, B, E) of each layer, the lowest first; 0 past the end of a sequence."""
        outputs: list[Tensor] = []
        for layer in self.layers:
            outputs.append(layer(self.drop(outputs[-1]) if outputs else x, lengths=lengths)[0])
        return outputs

    def intervene(self, x: Tensor, clamps: Sequence[Clamp], lengths: Tensor) -> Trace:
        """The trace of all layers, with some of their gates or states held."""
        count, traces = len(self.layers), []
        for clamp in clamps:
            if clamp.layer is not None and not -count <= clamp.layer < count:
                raise ArgumentError(f"Clamp: layer={clamp.layer} is out of range 0..{count - 1}")
        for k, layer in enumerate(self.layers):
            own = [replace(clamp, layer=None) for clamp in clamps if clamp.layer in (None, k, k - count)]
            trace: Trace = layer.intervene(x, *own, lengths=lengths)  # type: ignore[operator]
            traces.append(trace)
            x = trace.output
        gates, states = (
            {name: torch.cat([planes[name] for planes in each]) for name in each[0]}
            for each in ([trace.gates for trace in traces], [trace.states for trace in traces])
        )
        finals = [trace.state if isinstance(trace.state, tuple) else (trace.state,) for trace in traces]
        final = tuple(torch.cat(parts) for parts in zip(*finals, strict=True))
        return replace(traces[-1], state=final if len(final) > 1 else final[0], gates=gates, states=states)


class Read(NamedTuple):
    """What the network makes of sentences of T words or fewer, B of them. Sentences stand between [START] and [END]."""

    marked: Tensor  # (T + 2, B) int64: [START], the words, [END]
    tokens: Tensor  # (T + 2, B, E): a vector for each of them
    forward: list[Tensor]  # of each layer (T + 1, B, E): from [START] to the last word
    backward: list[Tensor]  # of each layer (T + 1, B, E): from [END] to the first word, in this order


class BilmNetwork(Network):
    """words and their characters → layers from left to right, layers from right to left → the next word of each.

    The directions share the vectors of words and the output layer; the loss is that of both together.
    """

    unit = "words"

    def __init__(self, settings: BilmSettings, assets: BilmAssets) -> None:
        super().__init__()
        self.settings = s = settings
        words = assets.words
        size = len(words.words)
        self.embedder = s.word_embedder(words.words)
        self.embedder.drop.rate = 0.0  # it comes after the characters are added
        self.shapes = s.character_features(words.characters)
        self.spelled = None if self.shapes is None else nn.Linear(self.shapes.size, s.embedding, bias=False)
        self.drop = SequenceDropout(s.dropout, s.variational)
        self.forward_layers = Stack(s)
        self.backward_layers = Stack(s)
        self.bias = nn.Parameter(torch.zeros(size))
        if not s.tied:
            self.output = nn.Parameter(torch.empty(size, s.embedding).uniform_(-0.1, 0.1))
        if assets.vectors is not None:
            self.embedder.set_vectors(assets.vectors)

    @property
    def output_weight(self) -> Tensor:
        """(V, E)."""
        return self.embedder.embedder.weight if self.settings.tied else self.output

    def row_names(self, assets: BilmAssets) -> dict[str, tuple[Sequence[str], ...]]:
        words, characters = (assets.words.words.tokens,), assets.words.characters
        spelled = {} if characters is None else {"shapes.readers.0.embedder.weight": (characters.tokens,)}
        return {"embedder.embedder.weight": words, "output": words, "bias": words, **spelled}

    def words(self, batch: ExampleBatch) -> tuple[Tensor, Tensor]:
        """The words between their marks, (T + 2, B), and a vector for each, (T + 2, B, E)."""
        marked = mark(batch.tokens, batch.lengths)
        x = self.embedder(marked)
        if self.shapes is not None and self.spelled is not None and len(batch.tokens):
            assert batch.characters is not None and batch.spelling is not None
            mask = torch.zeros_like(marked, dtype=torch.bool)
            mask[1:-1] = batch.mask
            x = x + self.spelled(self.shapes(batch.characters, batch.spelling, mask))
        return marked, x

    def read(self, batch: ExampleBatch) -> Read:
        marked, x = self.words(batch)
        dropped = self.drop(x)
        steps = batch.lengths + 1  # either of the marks is read, the other only predicted
        ahead = self.forward_layers(dropped[:-1], steps)
        back = self.backward_layers(turned(dropped, batch.lengths + 2)[:-1], steps)
        return Read(marked, x, ahead, back)

    def contexts(self, batch: ExampleBatch) -> list[Tensor]:
        """Vectors for the words (T, B) of a batch, (T, B, 2·E) each: their own (twice), then what each layer says of
        them, forwards and backwards beside each other; 0 past the end of a sentence."""
        read = self.read(batch)
        own = read.tokens[1:-1] * batch.mask.unsqueeze(2)
        pairs = zip(read.forward, read.backward, strict=True)
        # The last backward step is the first word, so leaving out the first step leaves out the mark in both.
        return [
            torch.cat((own, own), 2),
            *(torch.cat((ahead[1:], turned(back[1:], batch.lengths)), 2) for ahead, back in pairs),
        ]

    def losses(self, batch: ExampleBatch, reduction: str = "none", label_smoothing: float = 0.0) -> Tensor:
        """Minus the log-probability of each word and mark: (2, T + 1, B), forwards, and backwards from the end."""
        read = self.read(batch)
        hidden = self.drop(torch.cat((read.forward[-1], read.backward[-1]), 1))
        targets = torch.cat((read.marked[1:], turned(read.marked, batch.lengths + 2)[1:]), 1)
        losses = linear_cross_entropy(
            hidden, self.output_weight, targets, self.bias, ignore_index=PAD, reduction=reduction,
            label_smoothing=label_smoothing,
        )  # fmt: skip
        return torch.stack(losses.chunk(2, 1)) if reduction == "none" else losses

    def loss(self, batch: ExampleBatch) -> Loss:
        """The mean over both directions, which the sum of their log-likelihoods is proportional to."""
        mean = self.losses(batch, "mean", self.settings.label_smoothing)
        return Loss(mean, int(batch.lengths.sum()) + len(batch.lengths))

    def metric(self) -> BothPerplexities:
        return BothPerplexities(self)

    def describe_loss(self) -> Any:
        return lambda loss: f"loss {loss:.3f}  perplexity {math.exp(min(loss, 50)):,.1f}"


class BothPerplexities(Metric):
    """exp of the mean negative log-probability of words and of the mark after the last: of each direction, and of both
    together, which is their geometric mean."""

    best = "perplexity"
    lower_is_better = True

    def __init__(self, network: BilmNetwork) -> None:
        self.network = network
        self.totals = [0.0, 0.0]
        self.count = 0

    @torch.no_grad()
    def add(self, batch: ExampleBatch) -> None:
        losses = self.network.losses(batch).sum((1, 2), dtype=torch.float64)
        self.totals = [total + more for total, more in zip(self.totals, losses.tolist(), strict=True)]
        self.count += int(batch.lengths.sum()) + len(batch.lengths)

    def merge(self, other: Self) -> None:
        self.totals = [own + more for own, more in zip(self.totals, other.totals, strict=True)]
        self.count += other.count

    def result(self) -> dict[str, float]:
        forward, backward = (total / max(1, self.count) for total in self.totals)
        means = {"perplexity": (forward + backward) / 2, "perplexity_forward": forward, "perplexity_backward": backward}
        return {name: perplexity(mean) for name, mean in means.items()}


def mark(tokens: Tensor, lengths: Tensor) -> Tensor:
    """Sentences (T, B) of these lengths between [START] and [END], (T + 2, B).

    >>> mark(torch.tensor([[7, 8], [9, 0]]), torch.tensor([2, 1])).T.tolist()
    [[1, 7, 9, 2], [1, 8, 2, 0]]
    """
    marked = tokens.new_full((len(tokens) + 2, tokens.shape[1]), PAD)
    marked[0] = START
    marked[1:-1] = tokens
    marked[lengths + 1, torch.arange(tokens.shape[1], device=tokens.device)] = END
    return marked


def turned(x: Tensor, lengths: Tensor) -> Tensor:
    """Each sequence of x (T, B, …) from its end to its beginning; what is past its end stays where it is.

    >>> turned(torch.tensor([[7, 8], [9, 0]]), torch.tensor([2, 1])).T.tolist()
    [[9, 7], [8, 0]]
    """
    step = torch.arange(len(x), device=x.device).unsqueeze(1)
    source = torch.where(length_mask(lengths, len(x)), lengths - 1 - step, step)
    return x[source, torch.arange(x.shape[1], device=x.device)]
