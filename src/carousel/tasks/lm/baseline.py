"""Baseline of the language model: n-grams over the same tokens, smoothed by Kneser and Ney's method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...data import TokenStore
from ...training import Data
from ..shared.baselines import sample
from ..shared.ngrams import TOKENS, KneserNey, Text, order_for
from .data import LanguageAssets
from .settings import LanguageSettings


def baselines(settings: LanguageSettings, assets: LanguageAssets, data: Data) -> dict[str, Callable[[], float]]:
    """By perplexity, of the same tokens: [END] of a line and [UNK] are predicted like any other."""
    train: Any = data.train
    dev: Any = data.dev
    size = len(assets.vocabulary)
    order = order_for(size)

    def read(store: TokenStore, most: int | None = None) -> Text:
        tokens, lengths = np.asarray(store.tokens, np.int64), np.diff(store.offsets)
        if settings.layout != "lines":
            return Text.running(tokens[-(most or len(tokens)) :])
        if most is not None and len(tokens) > most:
            rows = sample(range(len(store)), lambda row: int(lengths[row]), most)
            tokens, lengths = np.concatenate([store[row] for row in rows]), lengths[rows]
        return Text.lines(tokens, lengths)

    def measure() -> float:
        return KneserNey(read(train.store, TOKENS), size, order).perplexity(read(dev.store))

    total = len(train.store.tokens)
    some = f" (on {TOKENS:,} of {total:,} tokens)" if total > TOKENS else ""
    return {f"Kneser–Ney {order}-grams{some}": measure}
