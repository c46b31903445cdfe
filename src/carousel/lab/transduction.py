"""A small language pair with every kind of alignment, and a small translator for it.

A sentence is a few units, each of one kind; each has its source tokens, its target tokens, and for each target token
the source tokens of the unit that it is aligned with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..layers import LSTM
from ..networks.attention import Unpadded, make_attention
from ..networks.decoder import Bridge, Decoder, DecoderName, DecoderRollout

# kind: source tokens and target tokens of a unit. Lower case: source; upper case: target; k: one of VARIANTS.
KINDS = {
    "one-to-one": (("a",), ("A",)),
    "many-to-one": (("b", "c"), ("B",)),
    "one-to-many": (("d",), ("D", "E")),
    "many-to-many": (("f", "g"), ("G", "F")),  # crossed: the first target token is the second source token's
    "spurious": (("h",), ()),
}
VARIANTS = 4
PAD, START, END = 0, 1, 2
SOURCE = {letter: 3 + VARIANTS * k for k, letter in enumerate("abcdfgh")}
TARGET = {letter: 3 + VARIANTS * k for k, letter in enumerate("ABDEFG")}
SOURCE_SIZE, TARGET_SIZE = (3 + VARIANTS * len(letters) for letters in (SOURCE, TARGET))


@dataclass(frozen=True)
class Sentences:
    """A batch. Where a target token is aligned with nothing (the end), `aligned` is empty."""

    source: Tensor  # (S, B)
    source_lengths: Tensor  # (B,)
    inputs: Tensor  # (T, B): [START] and the target
    targets: Tensor  # (T, B): the target and [END]
    lengths: Tensor  # (B,)
    aligned: list[list[tuple[str, set[int]]]]  # of each sentence, for each target token: its kind, its source places


def spell(tokens: Sequence[int], letters: Mapping[str, int]) -> list[str]:
    """Tokens as letters, each with the number of its variant, by the first token of every letter.

    >>> spell([SOURCE["b"] + 1, SOURCE["c"], END], SOURCE)
    ['b2', 'c1', '[END]']
    """
    names = {first + k: f"{letter}{k + 1}" for letter, first in letters.items() for k in range(VARIANTS)}
    return [{PAD: "[PAD]", START: "[START]", END: "[END]", **names}[token] for token in tokens]


def draw(rows: int, units: int, kinds: Sequence[str] = tuple(KINDS)) -> Sentences:
    """Random sentences of `units` units of these kinds; torch's random numbers."""
    sources, targets, alignments = [], [], []
    for _ in range(rows):
        source: list[int] = []
        target: list[int] = []
        aligned: list[tuple[str, set[int]]] = []
        for choice in torch.randint(len(kinds), (units,)).tolist():
            kind, (variant, other) = kinds[choice], torch.randint(VARIANTS, (2,)).tolist()
            of, to = KINDS[kind]
            crossed = kind == "many-to-many"  # each of the two has a variant of its own
            places = range(len(source), len(source) + len(of))
            source += [SOURCE[letter] + (other if crossed and k else variant) for k, letter in enumerate(of)]
            for k, letter in enumerate(to):
                target.append(TARGET[letter] + (other if crossed and not k else variant))
                aligned.append((kind, {places[1 - k]} if crossed else set(places)))
        sources.append([*source, END])
        targets.append(target)
        alignments.append(aligned)
    lengths = torch.tensor([len(t) + 1 for t in targets])
    return Sentences(
        _padded(sources), torch.tensor([len(s) for s in sources]), _padded([[START, *t] for t in targets]),
        _padded([[*t, END] for t in targets]), lengths, alignments,
    )  # fmt: skip


def _padded(rows: Sequence[Sequence[int]]) -> Tensor:
    return nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows])


class Translator(nn.Module):
    """A bidirectional LSTM, and an LSTM with one of the three decoders and any attention, or none."""

    def __init__(self, attention: str, kind: DecoderName, size: int = 16) -> None:
        super().__init__()
        self.source = nn.Embedding(SOURCE_SIZE, size)
        self.target = nn.Embedding(TARGET_SIZE, size)
        self.encoder = LSTM(size, size, bidirectional=True)
        options = {"places": 40} if attention == "location" else {}
        found = None if attention == "none" else make_attention(attention, 2 * size, 2 * size, **options)  # type: ignore[arg-type]
        layer = LSTM(Decoder.input_size(kind, size, 2 * size, 2 * size), 2 * size)
        self.decoder = Decoder(layer, found, kind)
        self.bridge = Bridge("bridge", self.encoder, layer)
        self.output = nn.Linear(2 * size, TARGET_SIZE)

    def rollout(self, batch: Sentences) -> DecoderRollout:
        """The decoder over a batch, before its first step."""
        encoded, final = self.encoder(self.source(batch.source), lengths=batch.source_lengths)
        memory = self.decoder.prepare(encoded, batch.source_lengths, nn.Identity())
        return DecoderRollout(self.decoder, memory, self.bridge(final), Unpadded(batch.lengths, len(batch.inputs)))

    def forward(self, batch: Sentences) -> tuple[Tensor, Tensor | None]:
        """Teacher-forced: scores of the real steps (N, V), sentence by sentence, and attention weights (T, B, S)."""
        encoded, final = self.encoder(self.source(batch.source), lengths=batch.source_lengths)
        memory = self.decoder.prepare(encoded, batch.source_lengths, nn.Identity())
        real = Unpadded(batch.lengths, len(batch.inputs))
        vectors, weights = self.decoder(self.target(batch.inputs), memory, self.bridge(final), real)
        return self.output(vectors), weights

    def free(self, batch: Sentences, share: float) -> Tensor:
        """As `forward`, but a step reads the true token with probability `share` only, else the most probable one."""
        rollout = self.rollout(batch)
        true = batch.inputs.index_select(1, rollout.order)
        for t, n in enumerate(rollout.batch_sizes):
            tokens = true[t, :n]
            if t:
                own = self.output(rollout.last[:n]).argmax(1)
                tokens = torch.where(torch.rand(n) < share, tokens, own)
            rollout.step(self.target(tokens))
        return self.output(rollout.vectors)

    def loss(self, batch: Sentences, share: float = 1.0) -> Tensor:
        scores = self(batch)[0] if share == 1 else self.free(batch, share)
        return nn.functional.cross_entropy(scores, real_targets(batch))

    @torch.no_grad()
    def accuracy(self, batch: Sentences) -> float:
        """The share of sentences that are right to the last token, where each step reads the model's own."""
        right = self.free(batch, 0.0).argmax(1) == real_targets(batch)
        return sum(bool(part.all()) for part in right.split(batch.lengths.tolist())) / len(batch.lengths)

    @torch.no_grad()
    def alignments(self, batch: Sentences) -> dict[str, list[bool]]:
        """For each kind, whether the source place with the most attention is one that the target token is aligned
        with."""
        weights = self(batch)[1]
        found: dict[str, list[bool]] = {}
        if weights is None:
            return found
        for b, sentence in enumerate(batch.aligned):
            for t, (kind, places) in enumerate(sentence):
                found.setdefault(kind, []).append(int(weights[t, b].argmax()) in places)
        return found


def real_targets(batch: Sentences) -> Tensor:
    """The targets without padding, sentence by sentence, (N,)."""
    return torch.cat([row[:length] for row, length in zip(batch.targets.T, batch.lengths.tolist(), strict=True)])
