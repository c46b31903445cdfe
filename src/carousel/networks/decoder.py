"""The decoder of an encoder–decoder network: recurrent layers with attention to the encoder's output.

`Decoder.step` is the one step of training and search. What runs the layers and the attention inside it differs:
all steps at once (`Decoder.forward`), one step with gradients (`DecoderRollout`), or one step with packed weights and
without gradients (`SearchDecoder`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from .. import layers
from ..decoding import select_rows
from ..errors import ArgumentError
from ..layers import BeamState, Clamp, PackedStepper, StepwiseLayer, Trace
from ..masks import length_mask
from ..ops.attention import AdditiveAttentionStep
from ..ops.prediction import Predictor
from .attention import Additive, Attention, Memory, Unpadded

DecoderName = Literal["luong", "input-feeding", "bahdanau"]
InitName = Literal["bridge", "last", "zeros"]
S = TypeVar("S")


class Bridge(nn.Module):
    """How the decoder begins, given the encoder's final state.

    bridge: tanh(W h + b) of the top layer's h, for each of the decoder's layers and states; last: that state itself,
    directions side by side, from the top layers down; zeros: nothing.
    """

    def __init__(self, kind: InitName, encoder: layers.Recurrent, decoder: layers.Recurrent) -> None:
        super().__init__()
        self.kind = kind
        self.directions = encoder.num_directions
        self.layers = decoder.num_layers
        self.shapes = [_real_shape(decoder, name) for name in decoder.cell.states]
        self.sizes = [math.prod(shape) for shape in self.shapes]
        self.complex = [spec.dtype == "complex" for spec in decoder.cell.states.values()]
        given = encoder.hidden_size * self.directions
        if kind == "bridge":
            self.map = nn.Linear(given, self.layers * sum(self.sizes))
        elif kind == "last" and self.directions > 1 and any(len(shape) > 1 for shape in self.shapes):
            raise ArgumentError("init: last needs states that are vectors; choose init bridge")
        elif kind == "last" and (given != decoder.hidden_size or encoder.num_layers < decoder.num_layers):
            raise ArgumentError(
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
            states = []
            for part in parts:
                by_layer = part.unflatten(0, (-1, self.directions)).transpose(1, 2)  # (layers, B, D, H)
                states.append(by_layer[-self.layers :].flatten(2, 3).contiguous())
        else:
            top = parts[0][-self.directions :].transpose(0, 1).reshape(rows, -1)
            begun = torch.tanh(self.map(top)).unflatten(1, (self.layers, -1)).transpose(0, 1)
            views = [part.unflatten(2, s) for part, s in zip(begun.split(self.sizes, 2), self.shapes, strict=True)]
            states = [torch.view_as_complex(p.contiguous()) if c else p.contiguous()
                    for p, c in zip(views, self.complex, strict=True)]  # fmt: skip
        return tuple(states) if len(states) > 1 else states[0]

    def extra_repr(self) -> str:
        return self.kind


def _real_shape(layer: layers.Recurrent, name: str) -> tuple[int, ...]:
    """The shape of a state without layers and batch, a complex number as two real ones."""
    shape = layer.state_shape(name)
    return (*shape, 2) if layer.cell.states[name].dtype == "complex" else shape


class AttentionMemory(NamedTuple):
    """The encoder's output, prepared for the attention of a decoder.

    tanh(W [context; s] + b) is a sum of two products, one for each half of W, and the context is a weighted mean over
    the source's positions. So where nothing but this vector needs the context, the first half is applied to the
    positions, once for all steps.
    """

    memory: Memory  # its values are the positions times W's first half; of a Bahdanau decoder the positions themselves
    of_state: Tensor  # (H, H): W's second half

    def select(self, rows: Tensor) -> AttentionMemory:
        """The memory whose sequence j is sequence `rows[j]` of this one."""
        return self._replace(memory=self.memory.select(rows))


class Decoder(nn.Module):
    """Recurrent layers with attention to a source, and the vector from which a token is predicted.

    With x_t the embedding of the previous token, s_t the output of the layers and c_t the context, which is the mean of
    the encoder's outputs m weighted by the attention of a query:

    luong           s_t = f(s_{t−1}, x_t)              c_t = attend(s_t, m)
    input-feeding   s_t = f(s_{t−1}, [x_t; v_{t−1}])   c_t = attend(s_t, m)       v_0 = 0
    bahdanau        s_t = f(s_{t−1}, [x_t; c_t])       c_t = attend(s_{t−1}, m)

    and in all three v_t = tanh(W [c_t; s_t] + b) is the vector that predicts. f is the stack of layers, of which the
    top one is compared with the source. Only the steps of luong can run all at once: the layers, then the attention.
    Without attention the vector is s_t itself.
    """

    def __init__(self, recurrent: layers.Recurrent, attention: Attention | None, kind: DecoderName = "luong") -> None:
        super().__init__()
        self.layers = recurrent
        self.attention = attention
        self.kind = kind
        self.size = recurrent.output_size
        self.join = None
        if attention is not None:
            if attention.batch_first:
                raise ValueError("a Decoder is time-major; its attention must not be batch_first")
            self.join = nn.Linear(attention.memory_size + self.size, self.size)
        elif kind != "luong":
            raise ValueError(f"a decoder of kind {kind} reads what attention found, so it needs an attention")

    @staticmethod
    def input_size(kind: DecoderName, embedding: int, size: int, encoded: int) -> int:
        """How many numbers the layers read at a step: the embedding, and the vector (`size`) or context (`encoded`)."""
        return embedding + {"luong": 0, "input-feeding": size, "bahdanau": encoded}[kind]

    @property
    def sequential(self) -> bool:
        """Whether a step reads something of the previous one besides the layers' state, so that they run in turn."""
        return self.kind != "luong"

    def prepare(self, encoded: Tensor, lengths: Tensor, drop: Callable[[Tensor], Tensor]) -> AttentionMemory | None:
        """The encoder's output (S, B, E) with lengths (B,) as a memory; `drop` is as in `Attention.prepare`."""
        if self.attention is None or self.join is None:
            return None
        of_context, of_state = self.join.weight.split([self.attention.memory_size, self.size], 1)
        value = None if self.kind == "bahdanau" else partial(nn.functional.linear, weight=of_context)
        return AttentionMemory(self.attention.prepare(encoded, lengths, value, drop), of_state)

    def begin(self, state: Any, rows: int) -> Tensor | None:
        """What the first step reads in place of the previous one's `carried`, (rows, H), given the layers' state,
        (layers, rows, H) each: a vector of zeros, or of a Bahdanau decoder s_0."""
        if not self.sequential:
            return None
        start = 0.0
        if self.kind == "bahdanau":
            if state is not None:
                h: Tensor = state[0] if isinstance(state, tuple) else state
                return h[-1]
            start = self.layers.cell.states[self.layers.cell.output].initial
        return next(self.parameters()).new_full((rows, self.size), start)

    def attend(self, y: Tensor, memory: AttentionMemory | None, num_queries: Tensor) -> tuple[Tensor, Tensor | None]:
        """The layers' output (N, H), sequence by sequence, `num_queries` (B,) of each → vectors (N, H), attention
        weights (N, S); for decoders that attend after the layers."""
        if self.attention is None or self.join is None or memory is None:
            return y, None
        base = nn.functional.linear(y, memory.of_state, self.join.bias)
        return self.attention.attend(y, memory.memory, num_queries, base)

    def step(
        self,
        x: Tensor,
        carried: Tensor | None,
        memory: AttentionMemory | None,
        num_queries: Tensor,
        run_layers: Callable[[Tensor], tuple[Tensor, S]],
        attend: Callable[[Tensor, AttentionMemory | None, Tensor], tuple[Tensor, Tensor | None]] | None = None,
    ) -> tuple[Tensor, Tensor | None, Tensor | None, S]:
        """Vectors (N, H), attention weights (N, S), what the next step is to be given as `carried`, and the layers' new
        state, given the previous tokens.

        `x` (N, E) has their embeddings, `carried` (N, H) the previous vectors or, of a Bahdanau decoder, the layers'
        previous output. `run_layers` maps what the layers read to their output (N, H) and their state; `attend` stands
        in for `Decoder.attend`. In a luong decoder `carried` is None and `x` is whatever `run_layers` takes.
        """
        if self.kind == "bahdanau":
            assert self.attention is not None and self.join is not None and memory is not None and carried is not None
            context, weights = self.attention.attend(carried, memory.memory, num_queries)
            y, state = run_layers(torch.cat((x, context), 1))
            return torch.tanh(self.join(torch.cat((context, y), 1))), weights, y, state
        y, state = run_layers(x if carried is None else torch.cat((x, carried), 1))
        vectors, seen = (attend or self.attend)(y, memory, num_queries)
        return vectors, seen, vectors if self.sequential else None, state

    def rollout(self, x: Tensor, memory: AttentionMemory | None, state: Any, real: Unpadded) -> DecoderRollout:
        """x (T, B, E): the embeddings of the previous tokens → all steps, run one after the other."""
        rollout = DecoderRollout(self, memory, state, real)
        for given in x.flatten(0, 1).index_select(0, rollout.rows).split(rollout.batch_sizes):
            rollout.step(given)
        return rollout

    def forward(
        self, x: Tensor, memory: AttentionMemory | None, state: Any, real: Unpadded
    ) -> tuple[Tensor, Tensor | None]:
        """x (T, B, E): the embeddings of the previous tokens → vectors of real steps (N, H), attention (T, B, S)."""
        if self.sequential:
            rollout = self.rollout(x, memory, state, real)
            return rollout.vectors, rollout.weights

        def run_layers(x: Tensor) -> tuple[Tensor, Any]:
            y, final = self.layers(x, state, lengths=real.lengths)
            return real.take(y), final

        vectors, weights, _, _ = self.step(x, None, memory, real.lengths, run_layers)
        return vectors, None if weights is None else real.put(weights)

    def intervene(
        self, x: Tensor, memory: AttentionMemory | None, state: Any, real: Unpadded, clamps: Sequence[Clamp] = ()
    ) -> Trace:
        """The trace of the layers for x (T, B, E) as in `forward`, with some of their gates or states held.

        In a sequential decoder what a step reads depends on the steps before it, and so on what is held in them: the
        layers run once for each step, on all that is known by then.
        """
        run = partial(self.layers.intervene, hx=state, lengths=real.lengths)
        if not self.sequential:
            return run(x, *clamps)
        inputs = x.new_zeros(*x.shape[:2], self.layers.input_size)
        carried = self.begin(state, x.shape[1])
        for t, given in enumerate(x):

            def run_layers(read: Tensor, t: int = t) -> tuple[Tensor, None]:
                inputs[t] = read
                return run(inputs, *clamps).output[t], None

            carried = self.step(given, carried, memory, torch.ones_like(real.lengths), run_layers)[2]
        return run(inputs, *clamps)


class DecoderRollout:
    """A decoder over a batch in training, step by step, with gradients; sequences that have ended cost nothing.

    Sequences are in the order of their lengths, longest first: step t runs `order[:n]` with `n = batch_sizes[t]`.
    """

    def __init__(self, decoder: Decoder, memory: AttentionMemory | None, state: Any, real: Unpadded) -> None:
        self.decoder, self.memory, self.real = decoder, memory, real
        lengths = real.lengths
        self.order = lengths.argsort(descending=True, stable=True)
        self.batch_sizes = [n for n in length_mask(lengths, real.steps).sum(1).tolist() if n]
        state = select_rows(state, self.order, 1)
        self.walker = StepwiseLayer(decoder.layers, self.batch_sizes, state)
        steps = (t * len(lengths) + self.order[:n] for t, n in enumerate(self.batch_sizes))
        self.rows = torch.cat([self.order[:0], *steps])  # (N,): where each is in (T, B)
        like = next(decoder.parameters())
        self.last = like.new_zeros(len(lengths), decoder.size)  # the previous step's vectors, (n, H); zeros at first
        self.carried = decoder.begin(state, len(lengths))
        self._vectors = [self.last[:0]]
        self._weights = [] if memory is None else [like.new_zeros(0, memory.memory.most)]

    def step(self, x: Tensor) -> None:
        """x (n, E): the embeddings of the previous tokens. The vectors are in `last` then, (n, H)."""
        n = len(x)
        rows = self.order[:n]
        carried = None if self.carried is None else self.carried[:n]
        memory = None if self.memory is None else self.memory.select(rows)
        self.last, weights, self.carried, _ = self.decoder.step(
            x, carried, memory, torch.ones_like(rows), self._run_layers
        )
        self._vectors.append(self.last)
        if weights is not None:
            self._weights.append(weights)

    def _run_layers(self, x: Tensor) -> tuple[Tensor, None]:
        return self.walker.step(x), None  # the walker keeps the state

    @property
    def vectors(self) -> Tensor:
        """Those of all steps, (N, H), in the order of `Unpadded`."""
        return self._in_order(torch.cat(self._vectors))

    @property
    def weights(self) -> Tensor | None:
        """Attention weights (T, B, S)."""
        return self.real.put(self._in_order(torch.cat(self._weights))) if self._weights else None

    def _in_order(self, x: Tensor) -> Tensor:
        place = torch.empty(self.real.steps * len(self.order), dtype=torch.int64, device=x.device)
        place[self.rows] = torch.arange(len(self.rows), device=x.device)
        return x.index_select(0, place[self.real.rows])


@dataclass(frozen=True)
class DecodeState:
    """The state of a search: each row is a hypothesis for one of the sources. Adjacent rows with one source, as in a
    beam, share its memory."""

    inner: BeamState  # the state of the layers
    carried: Tensor | None  # (N, H): what the next step reads of the previous one, as `Decoder.step` gave it
    sources: Tensor  # (N,): the source of each row
    memory: AttentionMemory | None  # of B sources
    num_queries: Tensor  # (B,): how many rows each source has


class SearchDecoder:
    """A decoder for searches, with its parameters as they are now, packed once for any number of sources.

    `words` (V, E) are the tokens' embeddings, `project` maps the decoder's vectors (N, H) to the input of `predict`.
    """

    def __init__(self, decoder: Decoder, words: Tensor, project: nn.Module | None, predict: Predictor) -> None:
        self.decoder = decoder
        self.words = words
        self.project = project
        self.predict = predict
        self.layers = PackedStepper(decoder.layers, remembers=True)
        self.native_attend: AdditiveAttentionStep | None = None
        if isinstance(decoder.attention, Additive) and decoder.join is not None and decoder.kind != "bahdanau":
            of_state = decoder.join.weight[:, decoder.attention.memory_size :]
            native = AdditiveAttentionStep(
                decoder.attention.query.weight, decoder.attention.v, of_state, decoder.join.bias
            )
            self.native_attend = native if native.native else None

    @torch.no_grad()
    def advance(self, tokens: Tensor, state: DecodeState) -> tuple[Tensor, DecodeState]:
        """Read tokens (N,): the input of the output layer, (N, ·), and the new state."""
        x, inputs = self.words, None
        if state.carried is None:  # the layers look tokens up themselves, and keep W x of those they have read
            inputs = tokens
        else:
            x = nn.functional.embedding(tokens, self.words)

        def run_layers(x: Tensor) -> tuple[Tensor, BeamState]:
            return self.layers.step(x, state.inner, inputs)

        vectors, _, carried, inner = self.decoder.step(
            x, state.carried, state.memory, state.num_queries, run_layers, self.attend
        )
        state = replace(state, inner=inner, carried=carried)
        return vectors if self.project is None else self.project(vectors), state

    def attend(self, y: Tensor, memory: AttentionMemory | None, num_queries: Tensor) -> tuple[Tensor, Tensor | None]:
        """As `Decoder.attend`; in one native call, which returns no weights, where there is one."""
        if self.native_attend is None or memory is None or memory.memory.keys is None:
            return self.decoder.attend(y, memory, num_queries)
        keys, values = memory.memory.keys, memory.memory.values
        return self.native_attend(y, keys, values, memory.memory.sequences(num_queries)), None


class DecoderStepper:
    """A decoder with some encoded sources, as `carousel.decoding.search` sees it; one item for each source."""

    def __init__(self, decoder: SearchDecoder, memory: AttentionMemory | None, state: Any) -> None:
        self.decoder = decoder
        self.memory = memory
        self.state = state
        self.vocab_size = decoder.predict.vocab
        self.device = decoder.words.device

    def start(self, items: int) -> DecodeState:
        carried = self.decoder.decoder.begin(self.state, items)
        sources = torch.arange(items, device=self.device)
        return DecodeState(BeamState(self.state), carried, sources, self.memory, torch.ones_like(sources))

    def step(self, tokens: Tensor, state: DecodeState) -> tuple[Tensor, DecodeState]:
        vectors, state = self.decoder.advance(tokens, state)
        return self.decoder.predict(vectors), state

    def step_best(
        self, tokens: Tensor, state: DecodeState, k: int, never: Sequence[int]
    ) -> tuple[Tensor, Tensor, DecodeState] | None:
        if not self.decoder.predict.native:
            return None
        vectors, state = self.decoder.advance(tokens, state)
        return *self.decoder.predict.best(vectors, k, never), state

    def select(self, state: DecodeState, rows: Tensor) -> DecodeState:
        inner = state.inner.select(rows)
        carried, sources = select_rows((state.carried, state.sources), rows)
        if self.memory is None or torch.equal(sources, state.sources):
            return replace(state, inner=inner, carried=carried, sources=sources)
        kept, num_queries = sources.unique_consecutive(return_counts=True)
        return DecodeState(inner, carried, sources, self.memory.select(kept), num_queries)
