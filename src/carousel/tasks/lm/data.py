"""The language model's data: lines or running text to batches, the vocabulary that a run keeps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from ...data import UNK, Source, TokenStore, Vocabulary
from ...data.text.form import TextForm
from ...data.text.formed import FormedText
from ...data.text.usual import Tally
from ...errors import SettingsError
from ...training import Data
from ...wording import setting
from ..shared.checks import unknown_remedies
from ..shared.reading import TextAssets, load_reading
from .check import TextCheck, check_text
from .settings import LanguageSettings

WINDOW = 1 << 20  # tokens that are counted at once: the text may be larger than memory


@dataclass
class LanguageAssets(TextAssets):
    """What a run keeps: the vocabulary; and, not kept, what only training asks for."""

    vocabulary: Vocabulary
    singletons: np.ndarray | None = None  # (V,) bool: tokens that occur once in the training text

    def save(self, folder: Path) -> None:
        super().save(folder)
        self.vocabulary.save(folder / "tokenizer.json")

    @classmethod
    def load(cls, settings: LanguageSettings, folder: Path) -> Self:
        return cls(Vocabulary.load(folder / "tokenizer.json"), **load_reading(folder))

    def formed(self, source: Source, training: bool = False) -> Source:
        """A source in the form of the model; `training`: it is what the form was learned from."""
        return source if self.form is None else FormedText(source, self.form, training)

    def tally(self, texts: Iterable[str]) -> Tally:
        """What some texts in the form of the model are like."""
        return Tally().add_sample(lambda some: self.vocabulary.encode_many(some)[0], texts)


def learn_assets(settings: LanguageSettings, train: Source, dev: Source | None) -> LanguageAssets:
    """The form and the vocabulary of the text to train on."""
    form = TextForm.learn(train, settings.tokens, settings.tokenize)
    text = train if form is None else FormedText(train, form, training=True)
    assets = LanguageAssets(settings.make_vocabulary(text), form=form)
    sample = text if dev is None else assets.formed(dev)
    assets.usual = assets.tally(sample)
    return assets


def prepare(settings: LanguageSettings, assets: LanguageAssets | None = None) -> tuple[LanguageAssets, Data]:
    """The assets of a new run, or those given, and the batches of its data."""
    s = settings
    sources = s.sources()  # before the vocabulary: files are checked first
    assets = assets or learn_assets(s, sources.train, sources.dev)
    vocabulary = assets.vocabulary
    store = s.store(assets.formed(sources.train, training=True), vocabulary)
    if s.unknown_singletons and vocabulary.kind != "bpe":
        assets.singletons = singletons(store, len(vocabulary))
    train = s.training_batches(store)
    info = {
        "training text": f"{s.train}: {len(store):,} lines, {train.tokens:,} tokens to predict",
        "vocabulary": f"{len(vocabulary):,} {s.tokens} tokens; {store.unknown / len(store.tokens):.2%} unknown",
    }
    if s.output == "adaptive":
        info["output layer"] = adaptive_parts(s, len(vocabulary))
    if s.vocabulary is None and (sample := s.sample(sources.train)).share < 1:
        info["vocabulary"] += f"; learned from {sample.share:.1%} of the text, evenly spaced"
    dev = None
    if sources.dev is not None:
        held_out = s.store(assets.formed(sources.dev), vocabulary)
        dev = s.reading_batches(held_out)
        rate = held_out.unknown / len(held_out.tokens)
        info["dev text"] = f"{sources.name}: {len(held_out):,} lines, {dev.tokens:,} tokens; {rate:.2%} unknown"
    return assets, sources.describe(Data(train, dev, info))


def singletons(store: TokenStore, size: int) -> np.ndarray:
    """Which tokens of a vocabulary of `size` occur once in `store`, (size,) bool; special tokens never do."""
    counts = np.zeros(size, np.int64)
    for first in range(0, len(store.tokens), WINDOW):
        counts += np.bincount(store.tokens[first : first + WINDOW], minlength=size)
    counts[: UNK + 1] = 0
    return counts == 1


def adaptive_parts(settings: LanguageSettings, size: int) -> str:
    """The parts of the adaptive softmax for a vocabulary of `size` tokens, in words."""
    from ...networks.adaptive import FEWEST, default_cutoffs, describe

    if size < FEWEST:
        few = f"it is for {FEWEST} tokens and more, this vocabulary has {size}"
        raise SettingsError(f"{setting('output', 'adaptive')}: {few}; leave it out")
    return describe(settings.hidden, size, default_cutoffs(size))


def check(settings: LanguageSettings) -> TextCheck:
    """What is in the files that `settings` name."""
    s = settings
    dev = None if s.dev is None else s.source(s.dev)
    source = s.source(s.train)
    assets = learn_assets(s, source, dev)
    formed = None if dev is None else assets.formed(dev)
    return check_text(assets.formed(source, training=True), formed, assets.vocabulary, unknown_remedies(s))
