"""The translator's data: pairs to examples, the vocabularies that a run keeps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np

from ...data import Vocabulary
from ...data.stores.examples import ExampleStore, build_store
from ...training import Data
from ..shared.held_out import Sources, open_sources
from .check import PairCheck, check_pairs
from .pairs import Pair, PairBatch, PairBatches, Pairs, PairSource
from .settings import TranslateSettings


@dataclass
class TranslateAssets:
    """What a run keeps: the vocabularies of source and target; one object if they are shared."""

    source: Vocabulary
    target: Vocabulary

    @property
    def shared(self) -> bool:
        return self.source is self.target

    def save(self, folder: Path) -> None:
        if self.shared:
            self.source.save(folder / "tokenizer.json")
            return
        self.source.save(folder / "source.json")
        self.target.save(folder / "target.json")

    @classmethod
    def load(cls, settings: TranslateSettings, folder: Path) -> Self:
        if settings.shared:
            both = Vocabulary.load(folder / "tokenizer.json")
            return cls(both, both)
        return cls(Vocabulary.load(folder / "source.json"), Vocabulary.load(folder / "target.json"))


class DevBatches(PairBatches):
    """All pairs of a store once, in an order that does not change, with the text of their references."""

    def __init__(self, store: ExampleStore, pairs: Sequence[Pair]) -> None:
        super().__init__(store, tokens=16_384, sequences=128, shuffle=False)
        self.texts = [pair.target for pair in pairs]

    def _of(self, chosen: np.ndarray) -> PairBatch:
        return replace(super()._of(chosen), references=tuple(self.texts[k] for k in chosen))


def open_pairs(settings: TranslateSettings, files: Sequence[str | Path] | Pairs) -> Pairs:
    if isinstance(files, Pairs):
        return files
    return Pairs(files, (settings.source_column, settings.target_column))


def open_data(settings: TranslateSettings) -> Sources[Pairs]:
    """The pairs to train on and for validation."""
    return open_sources(settings, lambda files: open_pairs(settings, files), "pairs")


def learn_vocabularies(settings: TranslateSettings, pairs: Pairs) -> TranslateAssets:
    """The vocabularies of the training pairs."""
    s = settings

    def learn(texts: Iterable[str]) -> Vocabulary:
        read = map(s.read_text, texts)
        return Vocabulary.train(read, s.tokens, size=s.vocabulary_size, min_frequency=s.min_frequency)

    if s.shared:
        both = learn(text for pair in pairs for text in (pair.source, pair.target))
        return TranslateAssets(both, both)
    return TranslateAssets(learn(pair.source for pair in pairs), learn(pair.target for pair in pairs))


def store_pairs(
    settings: TranslateSettings, assets: TranslateAssets, pairs: Pairs, max_length: int | None = None
) -> ExampleStore:
    """The pairs as integers; longer ones than `max_length` are left out."""
    changed = "lower" if settings.lower else ""
    source = PairSource(pairs, assets.source, assets.target, max_length, settings.read_text, changed)
    return build_store(source, settings.cache_folder)


def dev_batches(settings: TranslateSettings, assets: TranslateAssets, pairs: Pairs) -> DevBatches:
    return DevBatches(store_pairs(settings, assets, pairs), list(pairs))


def prepare(settings: TranslateSettings, assets: TranslateAssets | None = None) -> tuple[TranslateAssets, Data]:
    """The assets of a new run, or those given, and the batches of its data."""
    s = settings
    sources = open_data(s)  # files are checked first
    pairs, dev_pairs = sources.train, sources.dev
    held_out = [] if dev_pairs is None else list(dev_pairs)
    assets = assets or learn_vocabularies(s, pairs)
    store = store_pairs(s, assets, pairs, s.max_length)
    train = PairBatches(store, tokens=s.batch_tokens, sequences=s.batch_size, seed=s.seed)
    info = {
        "training pairs": f"{pairs}: {len(store):,} pairs, {store.tokens:,} tokens to {train.tokens:,}",
        "vocabulary": _describe(s, assets),
    }
    dev = None
    if dev_pairs is not None:
        dev_store = store_pairs(s, assets, dev_pairs)
        dev = DevBatches(dev_store, held_out)
        rate = dev_store.unknown / dev_store.tokens
        info["dev pairs"] = f"{sources.name}: {len(dev_store):,} pairs; {rate:.2%} of the source tokens are unknown"
    notes = []
    if long := store.info["long"]:
        line, *counts = store.info["first_long"]
        notes.append(
            f"{pairs.paths[0]}:{line}: {max(counts):,} tokens are more than max_length; such pairs are left out "
            f"of training ({long:,} of {long + len(store):,})"
        )
    return assets, sources.describe(Data(train, dev, info, notes))


def check(settings: TranslateSettings) -> PairCheck:
    """What is in the files that `settings` name."""
    s = settings
    pairs, dev = open_pairs(s, s.train), None if s.dev is None else open_pairs(s, s.dev)
    learned = learn_vocabularies(s, pairs)
    return check_pairs(pairs, dev, learned.source, learned.target, s.max_length, s.read_text)


def _describe(s: TranslateSettings, assets: TranslateAssets) -> str:
    if s.shared:
        return f"{len(assets.source):,} {s.tokens} tokens for both languages"
    return f"{len(assets.source):,} and {len(assets.target):,} {s.tokens} tokens"
