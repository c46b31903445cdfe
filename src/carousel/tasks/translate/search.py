"""The search for translations: what `carousel.decoding.search` is called with for some sources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from ...data import END, START, Vocabulary
from ...data.stores.examples import Column
from ...decoding import BeamTree, Ensemble, GenerationConfig, Hypothesis, Pattern, Stepper, search
from ..shared.generation import constraints_of
from .pairs import PairBatch, collate_pairs


def search_batch(
    steppers: Sequence[Stepper],
    vocabulary: Vocabulary,
    sources: Sequence[np.ndarray],
    config: GenerationConfig,
    prefixes: Sequence[Sequence[int]] = (),
    items: Sequence[int] | None = None,
    record: BeamTree | None = None,
) -> list[list[Hypothesis]]:
    """The hypotheses for each of some encoded sources, best first; several steppers are an ensemble.

    `vocabulary` is the target's, `items` are the numbers that seeds depend on; `record` receives the search tree.
    """
    arguments = search_arguments(vocabulary, sources, config, prefixes)
    return search(combine(steppers), len(sources), items=items, record=record, **arguments)


def combine(steppers: Sequence[Stepper]) -> Stepper:
    return steppers[0] if len(steppers) == 1 else Ensemble(list(steppers))


def search_arguments(
    vocabulary: Vocabulary,
    sources: Sequence[np.ndarray],
    config: GenerationConfig,
    prefixes: Sequence[Sequence[int]] = (),
) -> dict[str, Any]:
    """What `search` and `stream` are called with besides the stepper."""
    given = prefixes or [()] * len(sources)
    limits = [_limit(config, len(ids), len(prefix)) for ids, prefix in zip(sources, given, strict=True)]
    return {
        "strategy": config.strategy(len(vocabulary)),
        "constraints": constraints_of(config, vocabulary, prefixes, limits),
        "start": START,
        "end": END,
        "max_length": max(limits) + 1,
        "seed": config.seed or 0,
        "tokens": vocabulary.tokens if config.constraints else None,
    }


def source_batch(sources: Sequence[np.ndarray]) -> PairBatch:
    """Encoded sources as a batch without targets."""
    column = Column(np.concatenate(sources), np.array([len(ids) for ids in sources]))
    return collate_pairs(column, Column(np.zeros(0, np.int64), np.zeros(len(sources), np.int64)))


def pad_sources(sources: Sequence[np.ndarray]) -> tuple[Tensor, Tensor]:
    """Encoded sources as (S, B), and their lengths (B,)."""
    batch = source_batch(sources)
    return batch.source, batch.source_lengths


def _limit(config: GenerationConfig, source: int, prefix: int) -> int:
    """The most tokens before `[END]` in the translation of `source` tokens: max_length, or twice the source and 20."""
    if config.max_length is not None:
        return config.max_length - 1
    form = 0 if config.form is None else len(Pattern.named(config.form))
    return max(2 * source + 20, config.min_length, prefix, form)
