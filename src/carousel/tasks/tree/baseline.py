"""Baselines of the task on trees: the most frequent class of all and by length, and n-grams of the whole sentence."""

from __future__ import annotations

from collections.abc import Callable

from ...data.sources.brackets import Trees
from ...data.stores.examples import NO_LABEL
from ...training import Data
from ..shared.baselines import by_group, text_baselines
from .data import TreeAssets, open_data
from .settings import TreeSettings


def baselines(settings: TreeSettings, assets: TreeAssets, data: Data) -> dict[str, Callable[[], float]]:
    """By accuracy at the roots; roots without a class count neither in training nor on the dev set."""
    sources = open_data(settings)
    assert sources.dev is not None

    def read(source: Trees) -> list[tuple[list[str], int]]:
        trees = ((list(tree.leaves), assets.classes.number(tree.labels[-1])) for tree in source)
        return [(words, label) for words, label in trees if label != NO_LABEL]

    train, dev = read(sources.train), read(sources.dev)
    if not train:
        return {}
    lengths = by_group(*([(len(words), label) for words, label in trees] for trees in (train, dev)))
    texts = ([(settings.read_text(" ".join(words)), label) for words, label in trees] for trees in (train, dev))
    most_frequent, linear = text_baselines(*texts).items()
    return dict([most_frequent, ("most frequent class by length", lengths), linear])
