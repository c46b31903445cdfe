"""The decoder of an encoder–decoder network: recurrent layers that look at the encoder's output, and its search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from .. import layers
from ..decoding import select_rows
from ..errors import ArgumentError
from ..layers import Branches, Steps, Walker
from ..masks import length_mask
from ..ops.attention import AdditiveAttentionStep
from ..ops.prediction import Predictor
from .attention import Additive, Attention, Memory, Real

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
        self.sizes = [decoder.state_shape(name)[0] for name in decoder.cell.states]
        self.layers = decoder.num_layers
        given = encoder.hidden_size * self.directions
        if kind == "bridge":
            self.map = nn.Linear(given, self.layers * sum(self.sizes))
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


class Sight(NamedTuple):
    """What a decoder sees of its sources.

    tanh(W [context; h] + b) is W's two halves times the one and the other, and the context is a mean of what stands at
    a source's places; so the first half is taken there, once for all steps.
    """

    memory: Memory  # its values are those of W's first half
    of_state: Tensor  # (H, H): the other half

    def select(self, rows: Tensor) -> Sight:
        return self._replace(memory=self.memory.select(rows))


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

    def prepare(self, encoded: Tensor, lengths: Tensor, drop: Callable[[Tensor], Tensor]) -> Sight | None:
        """The encoder's output (S, B, E) as something to look at; `drop` is as in `Attention.prepare`."""
        if self.attention is None or self.join is None:
            return None
        of_context, of_state = self.join.weight.split([self.attention.memory_size, self.size], 1)
        value = partial(nn.functional.linear, weight=of_context)
        return Sight(self.attention.prepare(encoded, lengths, value, drop), of_state)

    def look(self, y: Tensor, sight: Sight | None, asked: Tensor) -> tuple[Tensor, Tensor | None]:
        """The layers' output (N, H), sequence by sequence, `asked` (B,) of each → vectors (N, H), weights (N, S)."""
        if self.attention is None or self.join is None or sight is None:
            return y, None
        base = nn.functional.linear(y, sight.of_state, self.join.bias)
        return self.attention.attend(y, sight.memory, asked, base)

    def forward(self, x: Tensor, sight: Sight | None, state: Any, real: Real) -> tuple[Tensor, Tensor | None]:
        """x (T, B, E): the tokens before, as vectors → vectors of real steps (N, H), attention weights (T, B, S)."""
        if not self.feeding:
            y, _ = self.layers(x, state, lengths=real.lengths)
            found, seen = self.look(real.take(y), sight, real.lengths)
            return found, None if seen is None else real.put(seen)
        course = Course(self, sight, state, real)
        for given in x.flatten(0, 1).index_select(0, course.rows).split(course.going):
            course.step(given)
        return course.vectors, course.weights


class Course:
    """A decoder's way through a batch in training, a step at a time; what has ended costs nothing.

    At each step the sequences that have it come in the order of their lengths, the longest first: `order[:n]`, with
    `n = going[t]`.
    """

    def __init__(self, decoder: Decoder, sight: Sight | None, state: Any, real: Real) -> None:
        self.decoder, self.sight, self.real = decoder, sight, real
        lengths = real.lengths
        self.order = lengths.argsort(descending=True, stable=True)
        self.going = [n for n in length_mask(lengths, real.steps).sum(1).tolist() if n]
        self.walker = Walker(decoder.layers, self.going, select_rows(state, self.order, 1))
        steps = (t * len(lengths) + self.order[:n] for t, n in enumerate(self.going))
        self.rows = torch.cat([self.order[:0], *steps])  # (N,): where each is in (T, B)
        like = next(decoder.parameters())
        nothing = like.new_zeros(len(lengths), decoder.size)  # what is fed to the first step
        self.found, self.seen = [nothing], [] if sight is None else [nothing.new_zeros(0, sight.memory.most)]

    def step(self, x: Tensor) -> None:
        """x (n, E): the tokens before, as vectors. The vectors (n, H) are then the last of `found`."""
        n = len(x)
        if self.decoder.feeding:
            x = torch.cat((x, self.found[-1][:n]), 1)
        asking = self.order[:n]
        sight = None if self.sight is None else self.sight.select(asking)
        vectors, weights = self.decoder.look(self.walker.step(x), sight, torch.ones_like(asking))
        self.found.append(vectors)
        if weights is not None:
            self.seen.append(weights)

    @property
    def vectors(self) -> Tensor:
        """Those of all steps, (N, H), as `Real` has them."""
        return self._in_order(torch.cat([self.found[0][:0], *self.found[1:]]))

    @property
    def weights(self) -> Tensor | None:
        """Attention weights (T, B, S)."""
        return self.real.put(self._in_order(torch.cat(self.seen))) if self.seen else None

    def _in_order(self, x: Tensor) -> Tensor:
        place = torch.empty(self.real.steps * len(self.order), dtype=torch.int64, device=x.device)
        place[self.rows] = torch.arange(len(self.rows), device=x.device)
        return x.index_select(0, place[self.real.rows])


@dataclass(frozen=True)
class Rows:
    """The state of a search: each row is a translation in the making of one of the sources. Rows that stand side by
    side and share a source, as in a beam, look at it together."""

    inner: Branches  # the state of the layers
    fed: Tensor | None  # (N, H): the vector of the step before
    sources: Tensor  # (N,): which source each row translates
    sight: Sight | None  # of B sources
    asked: Tensor  # (B,): how many rows look at each


class Writer:
    """A decoder ready to write, with its parameters as they are now, packed once for any number of sources.

    `words` (V, E) are the tokens' vectors, `project` maps the decoder's vectors (N, H) to what `predict` takes.
    """

    def __init__(self, decoder: Decoder, words: Tensor, project: nn.Module | None, predict: Predictor) -> None:
        self.decoder = decoder
        self.words = words
        self.project = project
        self.predict = predict
        self.layers = Steps(decoder.layers, remembers=True)
        self.native_look: AdditiveAttentionStep | None = None
        if isinstance(decoder.attention, Additive) and decoder.join is not None:
            of_state = decoder.join.weight[:, decoder.attention.memory_size :]
            look = AdditiveAttentionStep(
                decoder.attention.query.weight, decoder.attention.v, of_state, decoder.join.bias
            )
            self.native_look = look if look.native else None

    @torch.no_grad()
    def advance(self, tokens: Tensor, state: Rows) -> tuple[Tensor, Rows]:
        """Tokens (N,) are read: what the output layer sees, (N, ·), and the new state."""
        if state.fed is None:
            y, inner = self.layers.step(self.words, state.inner, tokens)
        else:
            x = torch.cat((nn.functional.embedding(tokens, self.words), state.fed), 1)
            y, inner = self.layers.step(x, state.inner)
        memory = None if state.sight is None else state.sight.memory
        if self.native_look is None or memory is None or memory.keys is None:
            vectors, _ = self.decoder.look(y, state.sight, state.asked)
        else:
            vectors = self.native_look(y, memory.keys, memory.values, memory.sequences(state.asked))
        fed = None if state.fed is None else vectors
        return vectors if self.project is None else self.project(vectors), replace(state, inner=inner, fed=fed)


class DecoderStepper:
    """A decoder before some encoded sources, as `carousel.decoding.search` sees it; one item for each source."""

    def __init__(self, writer: Writer, sight: Sight | None, state: Any) -> None:
        self.writer = writer
        self.sight = sight
        self.state = state
        self.vocab_size = writer.predict.vocab
        self.device = writer.words.device

    def start(self, items: int) -> Rows:
        decoder = self.writer.decoder
        fed = self.writer.words.new_zeros(items, decoder.size) if decoder.feeding else None
        sources = torch.arange(items, device=self.device)
        return Rows(Branches(self.state), fed, sources, self.sight, torch.ones_like(sources))

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
        if self.sight is None or torch.equal(sources, state.sources):
            return replace(state, inner=inner, fed=fed, sources=sources)
        kept, asked = sources.unique_consecutive(return_counts=True)
        return Rows(inner, fed, sources, self.sight.select(kept), asked)
