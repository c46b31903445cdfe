"""Generation against the loop a PyTorch user writes: a part of `carousel bench lm`.

Both sides have the same weights and draw from the ten best tokens, poem after poem of 48 characters and an end. Nothing
is trained, and the end token is made impossible, so that all poems have one length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..decoding import Sample, TopK, search
from ..layers import LSTM
from ..layers.generate import RecurrentStepper
from .layers import race

START, END = 1, 2
LEAST = {1: 3.0, 64: 1.5}  # by batch: the ratio that must be reached


class Poet(nn.Module):
    """Embedding, one LSTM layer, output layer, with torch's parts and ours on the same parameters."""

    def __init__(self, vocabulary: int, embedding: int, hidden: int):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, embedding)
        self.lstm = nn.LSTM(embedding, hidden)
        self.output = nn.Linear(hidden, vocabulary)
        self.ours = LSTM(embedding, hidden)
        self.ours.load_state_dict(self.lstm.state_dict())
        with torch.no_grad():
            self.output.bias[END] = -1e9

    @torch.no_grad()
    def loop(self, batch: int, length: int, k: int) -> list[list[int]]:
        """`batch` sequences by a plain loop."""
        tokens, state = torch.full((batch,), START), None
        chosen: list[Tensor] = []
        for _ in range(length):
            y, state = self.lstm(self.embed(tokens).unsqueeze(0), state)
            values, places = self.output(y[0]).topk(k)
            drawn = torch.multinomial(values.softmax(-1), 1)
            tokens = places.gather(1, drawn).squeeze(1)
            chosen.append(tokens)
        return torch.stack(chosen, 1).tolist()

    def search(self, batch: int, length: int, k: int, seed: int = 0) -> list[list[int]]:
        """`batch` sequences by `carousel.decoding.search`."""
        stepper = RecurrentStepper(self.embed.weight, self.ours, self.output.weight, self.output.bias)
        hypotheses = search(stepper, batch, Sample(TopK(k)), start=START, end=END, max_length=length, seed=seed)
        return [list(h.tokens) for (h,) in hypotheses]


def compare_generation(
    batches: Sequence[int] = (1, 64),
    *,
    seconds: float = 10.0,
    poems: int = 1000,
    length: int = 49,
    vocabulary: int = 2844,
    embedding: int = 256,
    hidden: int = 128,
    k: int = 10,
) -> list[dict[str, Any]]:
    """One row a batch size: seconds that `poems` take on either side, taking turns, best of several; and their ratio.

    A turn is one batch, so that a busy machine leaves some turns alone; the time of `poems` follows from it.
    """
    torch.manual_seed(0)
    poet = Poet(vocabulary, embedding, hidden).eval()
    rows = []
    for batch in batches:
        seconds_of = race({
            "torch": lambda: poet.loop(batch, length, k),  # noqa: B023
            "carousel": lambda: poet.search(batch, length, k),  # noqa: B023
        }, seconds)  # fmt: skip
        scale = poems / batch
        rows.append({
            "batch": batch,
            "poems": poems,
            "threads": torch.get_num_threads(),
            "torch": seconds_of["torch"] * scale,
            "carousel": seconds_of["carousel"] * scale,
            "ratio": seconds_of["torch"] / seconds_of["carousel"],
            "least": LEAST.get(batch, 1.0),
        })  # fmt: skip
    return rows
