"""Baseline of the bidirectional language model: n-grams in each direction, smoothed by Kneser and Ney's method."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...data.stores.examples import ExampleStore
from ...training import Data
from ..shared.baselines import sample
from ..shared.ngrams import TOKENS, KneserNey, Text, order_for
from .data import BilmAssets
from .settings import BilmSettings


def baselines(settings: BilmSettings, assets: BilmAssets, data: Data) -> dict[str, Callable[[], float]]:
    """By the perplexity of both directions together, of the same words and of the mark after the last."""
    train: Any = data.train
    dev: Any = data.dev
    size = len(assets.words.words)
    order = order_for(size)

    def measure() -> float:
        losses = []
        for step in (1, -1):
            model = KneserNey(read(train.store, step, TOKENS), size, order)
            losses.append(math.log(model.perplexity(read(dev.store, step))))
        return math.exp(sum(losses) / 2)

    total = train.store.tokens
    some = f" (on {TOKENS:,} of {total:,} words)" if total > TOKENS else ""
    return {f"Kneser–Ney {order}-grams, forward and backward{some}": measure}


def read(store: ExampleStore, step: int, most: int | None = None) -> Text:
    """The sentences of a store, their words from first to last (`step` 1) or from last to first (-1)."""
    tokens, lengths = np.asarray(store["tokens"].values, np.int64), store.lengths
    if most is not None and len(tokens) > most:
        rows = sample(range(len(store)), lambda row: int(lengths[row]), most)
        tokens, lengths = np.concatenate([store["tokens"][row] for row in rows]), lengths[rows]
    return Text.lines(tokens[::step], lengths[::step])
