"""The decoder of an encoder–decoder network: recurrent layers that look at the encoder's output, and its search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from .. import layers
from ..attention import Additive, Attention, Memory, Real
from ..decoding import select_rows
from ..kernels.attention import AdditiveLook
from ..kernels.generation import Predictor
from ..layers import Branches, Steps

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

    def prepare(self, encoded: Tensor, lengths: Tensor, **given: Any) -> Memory | None:
        """The encoder's output (S, B, E) as a memory to look at; the rest is as in `Attention.prepare`."""
        return None if self.attention is None else self.attention.prepare(encoded, lengths, **given)

    def look(self, y: Tensor, memory: Memory | None, real: Real | None = None) -> tuple[Tensor, Tensor | None]:
        """The layers' output (T, B, H) → vectors (T, B, H), or of the `real` steps alone (N, H); weights (T, B, S)."""
        y = y if real is None else real.take(y)
        if self.attention is None or self.join is None or memory is None:
            return y, None
        context, weights = self.attention.attend(y, memory, real)
        return torch.tanh(self.join(torch.cat((context, y), -1))), weights

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

    inner: Branches  # the state of the layers
    fed: Tensor | None  # (N, H): the vector of the step before
    sources: Tensor  # (N,): which source each row translates
    memory: Memory | None
    each: int = 1


class Writer:
    """A decoder ready to write, with its parameters as they are now, packed once for any number of sources.

    `words` (V, E) are the tokens' vectors, `project` maps the decoder's vectors (N, H) to what `predict` takes.

    tanh(W [context; h] + b) is W's two halves times the one and the other, and the context is a mean of what stands at
    the source's places; so the first half can be taken there, once for all steps.
    """

    def __init__(self, decoder: Decoder, words: Tensor, project: nn.Module | None, predict: Predictor) -> None:
        self.decoder = decoder
        self.words = words
        self.project = project
        self.predict = predict
        self.layers = Steps(decoder.layers, remembers=True)
        self.native_look: AdditiveLook | None = None
        if decoder.attention is not None and decoder.join is not None:
            sizes = [decoder.attention.memory_size, decoder.size]
            self.of_context, self.of_state = decoder.join.weight.detach().split(sizes, 1)
            if isinstance(decoder.attention, Additive):
                look = AdditiveLook(
                    decoder.attention.query.weight, decoder.attention.v, self.of_state, decoder.join.bias
                )
                self.native_look = look if look.native else None

    def value(self, places: Tensor) -> Tensor:
        """What a context is the mean of: (..., E) → (..., H)."""
        return nn.functional.linear(places, self.of_context)

    @torch.no_grad()
    def advance(self, tokens: Tensor, state: Rows) -> tuple[Tensor, Rows]:
        """Tokens (N,) are read: what the output layer sees, (N, ·), and the new state."""
        if state.fed is None:
            y, inner = self.layers.step(self.words, state.inner, tokens)
        else:
            x = torch.cat((nn.functional.embedding(tokens, self.words), state.fed), 1)
            y, inner = self.layers.step(x, state.inner)
        vectors = self.look(y, state.memory, state.each)
        fed = None if state.fed is None else vectors
        return vectors if self.project is None else self.project(vectors), replace(state, inner=inner, fed=fed)

    def look(self, y: Tensor, memory: Memory | None, each: int) -> Tensor:
        """The layers' output (N, H) → vectors (N, H), as `Decoder.look`, for a memory of `value`."""
        attention, join = self.decoder.attention, self.decoder.join
        if attention is None or join is None or memory is None:
            return y
        if self.native_look is not None:
            return self.native_look(y, memory.keys, memory.values, memory.lengths, each)
        # rows of one source are to its memory what steps are in training: several queries at once
        context, _ = attention.attend(y.unflatten(0, (-1, each)).transpose(0, 1), memory)
        seen = context.transpose(0, 1).flatten(0, 1)
        return torch.addmm(seen, y, self.of_state.T).add_(join.bias).tanh_()


class DecoderStepper:
    """A decoder before some encoded sources, as `carousel.decoding.search` sees it; one item for each source.

    `memory` has been prepared with the writer's `value`.
    """

    def __init__(self, writer: Writer, memory: Memory | None, state: Any) -> None:
        self.writer = writer
        self.memory = memory
        self.state = state
        self.vocab_size = writer.predict.vocab
        self.device = writer.words.device

    def start(self, items: int) -> Rows:
        decoder = self.writer.decoder
        fed = self.writer.words.new_zeros(items, decoder.size) if decoder.feeding else None
        return Rows(Branches(self.state), fed, torch.arange(items, device=self.device), self.memory)

    def step(self, tokens: Tensor, state: Rows) -> tuple[Tensor, Rows]:
        vectors, state = self.writer.advance(tokens, state)
        return self.writer.predict(vectors), state

    def step_best(
        self, tokens: Tensor, state: Rows, k: int, never: Sequence[int]
    ) -> tuple[Tensor, Tensor, Rows] | None:
        if not self.writer.predict.native:
            return None
        vectors, state = self.writer.advance(tokens, state)
        return *self.writer.predict.best(vectors, k, never), state

    def select(self, state: Rows, rows: Tensor) -> Rows:
        inner = state.inner.select(rows)
        fed, sources = select_rows((state.fed, state.sources), rows)
        if self.memory is None or torch.equal(sources, state.sources):
            return replace(state, inner=inner, fed=fed, sources=sources)
        kept, counts = sources.unique_consecutive(return_counts=True)
        each = int(counts[0]) if bool((counts == counts[0]).all()) else 1
        kept = kept if each > 1 else sources
        same = torch.equal(kept, state.sources[:: state.each])
        return Rows(inner, fed, sources, state.memory if same else self.memory.select(kept), each)
