"""The language model's data: lines or running text to batches, the vocabulary that a run keeps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from ...data import Vocabulary
from ...training import Data
from .check import TextCheck, check_text
from .settings import LanguageSettings


@dataclass
class LanguageAssets:
    """What a run keeps: the vocabulary."""

    vocabulary: Vocabulary

    def save(self, folder: Path) -> None:
        self.vocabulary.save(folder / "tokenizer.json")

    @classmethod
    def load(cls, settings: LanguageSettings, folder: Path) -> Self:
        return cls(Vocabulary.load(folder / "tokenizer.json"))


def prepare(settings: LanguageSettings, assets: LanguageAssets | None = None) -> tuple[LanguageAssets, Data]:
    """The assets of a new run, or those given, and the batches of its data."""
    s = settings
    sources = s.sources()  # before the vocabulary: files are checked first
    assets = assets or LanguageAssets(s.make_vocabulary(sources.train))
    vocabulary = assets.vocabulary
    store = s.store(sources.train, vocabulary)
    train = s.training_batches(store)
    info = {
        "training text": f"{s.train}: {len(store):,} lines, {train.tokens:,} tokens to predict",
        "vocabulary": f"{len(vocabulary):,} {s.tokens} tokens; {store.unknown / len(store.tokens):.2%} unknown",
    }
    dev = None
    if sources.dev is not None:
        held_out = s.store(sources.dev, vocabulary)
        dev = s.reading_batches(held_out)
        rate = held_out.unknown / len(held_out.tokens)
        info["dev text"] = f"{sources.name}: {len(held_out):,} lines, {dev.tokens:,} tokens; {rate:.2%} unknown"
    return assets, sources.describe(Data(train, dev, info))


def check(settings: LanguageSettings) -> TextCheck:
    """What is in the files that `settings` name."""
    s = settings
    dev = None if s.dev is None else s.source(s.dev)
    source = s.source(s.train)
    return check_text(source, dev, s.make_vocabulary(source))
