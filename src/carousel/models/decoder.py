"""The decoder of an encoder–decoder network: recurrent layers that look at the encoder's output, and its search."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from .. import layers
from ..attention import Attention, Memory, Real
from ..decoding import select_rows

InitName = Literal["bridge", "last", "zeros"]


class Bridge(nn.Module):
    """How the decoder begins, given the encoder's final state.

    bridge: tanh(W h + b) of the top layer's h, for each of the decoder's layers and states; last: that state itself,
    directions side by side, from the top layers down; zeros: nothing.
    """

    def __init__(self, kind: InitName, encoder: layers.Recurrent, decoder: layers.Recurrent) -> None:
        super().__init__()
        self.kind = kind
        self.directions = encoder.num_directions
        self.sizes = [decoder.state_size(name) for name in decoder.cell.states]
        self.layers = decoder.num_layers
        given = encoder.hidden_size * self.directions
        if kind == "bridge":
            self.map = nn.Linear(given, self.layers * sum(self.sizes))
        elif kind == "last" and (given != decoder.hidden_size or encoder.num_layers < decoder.num_layers):
            raise ValueError(
                f"init: last needs a decoder of {given} units (directions × hidden) and no more layers than the "
                f"encoder's {encoder.num_layers}; it has {decoder.hidden_size} and {decoder.num_layers}. "
                "Choose init bridge, or other sizes"
            )

    def forward(self, final: Any) -> Any:
        """The encoder's final state, (layers · directions, B, H) each → the decoder's first, (layers, B, H) each."""
        if self.kind == "zeros":
            return None
        parts = final if isinstance(final, tuple) else (final,)
        rows = parts[0].shape[1]
        if self.kind == "last":
            made = []
            for part in parts:
                by_layer = part.unflatten(0, (-1, self.directions)).transpose(1, 2).flatten(2)  # (layers, B, D · H)
                made.append(by_layer[-self.layers :].contiguous())
        else:
            top = parts[0][-self.directions :].transpose(0, 1).reshape(rows, -1)
            begun = torch.tanh(self.map(top)).unflatten(1, (self.layers, -1)).transpose(0, 1)
            made = [part.contiguous() for part in begun.split(self.sizes, 2)]
        return tuple(made) if len(made) > 1 else made[0]

    def extra_repr(self) -> str:
        return self.kind


class Decoder(nn.Module):
    """layers → attention → tanh(W [context; h]), the vector from which a token is predicted.

    With `feeding`, the vector of the step before is read along with each token, so that a step knows where the one
    before looked; steps then come one after the other. Without, all steps of the layers and of the attention are run
    at once. Without attention the vector is the layers' own output.
    """

    def __init__(self, recurrent: layers.Recurrent, attention: Attention | None, feeding: bool = False) -> None:
        super().__init__()
        self.layers = recurrent
        self.attention = attention
        self.feeding = feeding
        self.size = recurrent.output_size
        self.join = None
        if attention is not None:
            self.join = nn.Linear(attention.memory_size + self.size, self.size)

    def prepare(self, encoded: Tensor, lengths: Tensor) -> Memory | None:
        """The encoder's output (S, B, E) as a memory to look at."""
        return None if self.attention is None else self.attention.prepare(encoded, lengths)

    def look(self, y: Tensor, memory: Memory | None, real: Real | None = None) -> tuple[Tensor, Tensor | None]:
        """The layers' output (T, B, H) → vectors (T, B, H), or of the `real` steps alone (N, H); weights (T, B, S)."""
        take = (lambda x: x) if real is None else real.take
        if self.attention is None or self.join is None or memory is None:
            return take(y), None
        context, weights = self.attention.attend(y, memory, real)
        return torch.tanh(self.join(torch.cat((take(context), take(y)), -1))), weights

    def forward(self, x: Tensor, memory: Memory | None, state: Any, real: Real) -> tuple[Tensor, Tensor | None]:
        """x (T, B, E): the tokens before, as vectors → vectors of real steps (N, H), attention weights (T, B, S)."""
        if not self.feeding:
            y, _ = self.layers(x, state, lengths=real.lengths)
            return self.look(y, memory, real)
        vectors, weights = [], []
        fed = x.new_zeros(x.shape[1], self.size)
        for step in x:
            fed, seen, state = self.step(step, fed, memory, state)
            vectors.append(fed)
            weights.append(seen)
        return real.take(torch.stack(vectors)), torch.stack(weights)  # type: ignore[arg-type]

    def step(
        self, x: Tensor, fed: Tensor | None, memory: Memory | None, state: Any
    ) -> tuple[Tensor, Tensor | None, Any]:
        """One step: x (B, E) and the vector of the step before (B, H) → vector (B, H), weights (B, S), state."""
        if self.feeding:
            assert fed is not None
            x = torch.cat((x, fed), 1)
        y, state = self.layers.step(x, state)
        vectors, weights = self.look(y.unsqueeze(0), memory)
        return vectors[0], None if weights is None else weights[0], state


@dataclass(frozen=True)
class Rows:
    """The state of a search: each row is a translation in the making of one of the sources.

    Where rows that stand side by side share a source, as in a beam, they share its memory: `each` rows for every
    sequence of `memory`. Otherwise a row has a memory of its own.
    """

    inner: Any  # the state of the layers, (layers, N, H) each
    fed: Tensor | None  # (N, H): the vector of the step before
    sources: Tensor  # (N,): which source each row translates
    memory: Memory | None
    each: int = 1


class DecoderStepper:
    """A decoder before some encoded sources, as `carousel.decoding.search` sees it; one item for each source.

    `embed` maps tokens (N,) to vectors (N, E), `predict` vectors (N, H) to log-probabilities (N, V).
    """

    def __init__(self, decoder: Decoder, embed: Any, predict: Any, vocab_size: int, memory: Any, state: Any) -> None:
        self.decoder = decoder
        self.embed = embed
        self.predict = predict
        self.vocab_size = vocab_size
        self.memory: Memory | None = memory
        self.state = state
        self.device = torch.device("cpu") if memory is None else memory.values.device

    def start(self, items: int) -> Rows:
        fed = None
        if self.decoder.feeding:
            assert self.memory is not None
            fed = self.memory.values.new_zeros(items, self.decoder.size)
        return Rows(self.state, fed, torch.arange(items, device=self.device), self.memory)

    def step(self, tokens: Tensor, state: Rows) -> tuple[Tensor, Rows]:
        decoder = self.decoder
        with torch.no_grad():
            x = self.embed(tokens)
            if state.fed is not None:
                x = torch.cat((x, state.fed), 1)
            y, inner = decoder.layers.step(x, state.inner)
            # rows of one source are to its memory what steps are in training: several queries at once
            queries = y.unflatten(0, (-1, state.each)).transpose(0, 1)
            vectors = decoder.look(queries, state.memory)[0].transpose(0, 1).flatten(0, 1).contiguous()
            fed = vectors if decoder.feeding else None
            return self.predict(vectors), replace(state, inner=inner, fed=fed)

    def select(self, state: Rows, rows: Tensor) -> Rows:
        inner = select_rows(state.inner, rows, 1)
        fed, sources = select_rows((state.fed, state.sources), rows)
        if self.memory is None:
            return Rows(inner, fed, sources, None)
        kept, counts = sources.unique_consecutive(return_counts=True)
        each = int(counts[0]) if bool((counts == counts[0]).all()) else 1
        kept = kept if each > 1 else sources
        same = torch.equal(kept, state.sources[:: state.each])
        return Rows(inner, fed, sources, state.memory if same else self.memory.select(kept), each)
