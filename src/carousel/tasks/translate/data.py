"""The translator's data: pairs to examples, the vocabularies that a run keeps."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Self

import numpy as np

from ...data import Vocabulary
from ...data.stores.examples import ExampleStore, build_store
from ...data.text.form import Prepared, TextForm
from ...data.text.usual import TEXTS, Tally
from ...training import Data
from ...wording import setting
from ..shared.held_out import Sources, open_sources
from ..shared.reading import load_usual
from .check import PairCheck, check_pairs
from .pairs import PairBatch, PairBatches, Pairs, PairSource
from .settings import TranslateSettings

FORMS = ("source_form.json", "target_form.json")  # in a run directory


@dataclass
class TranslateAssets:
    """What a run keeps: the vocabularies of source and target; one object if they are shared."""

    source: Vocabulary
    target: Vocabulary
    forms: tuple[TextForm | None, TextForm | None] = (None, None)  # of source and target texts
    usual: Tally = field(default_factory=Tally)  # what validation sources are like

    @property
    def shared(self) -> bool:
        return self.source is self.target

    @property
    def target_form(self) -> TextForm | None:
        return self.forms[1]

    def read(self, side: int, texts: Sequence[str], tokenized: bool | None = None, training: bool = False) -> Prepared:
        """Texts of a side (0: source) in its form; `training`: they are those that the form was learned from."""
        form = self.forms[side]
        if form is None:
            return Prepared(list(texts), True)
        return form.read(texts, form.tokenized if training else tokenized)

    def comparable(self, texts: Sequence[str]) -> list[str]:
        """References as translations are compared with them: in the model's form if that came tokenized."""
        form = self.target_form
        return list(texts) if form is None or not form.tokenized else form.read(texts).texts

    def save(self, folder: Path) -> None:
        self.usual.save(folder)
        for form, name in zip(self.forms, FORMS, strict=True):
            if form is not None:
                form.save(folder, name)
        if self.shared:
            self.source.save(folder / "tokenizer.json")
            return
        self.source.save(folder / "source.json")
        self.target.save(folder / "target.json")

    @classmethod
    def load(cls, settings: TranslateSettings, folder: Path) -> Self:
        first, second = (TextForm.load(folder, name) for name in FORMS)
        names = ("tokenizer", "tokenizer") if settings.shared else ("source", "target")
        source = Vocabulary.load(folder / f"{names[0]}.json")
        target = source if settings.shared else Vocabulary.load(folder / f"{names[1]}.json")
        return cls(source, target, (first, second), load_usual(folder))


class DevBatches(PairBatches):
    """All pairs of a store once, in an order that does not change, with the text of their references."""

    def __init__(self, store: ExampleStore, references: Sequence[str]) -> None:
        super().__init__(store, tokens=16_384, sequences=128, shuffle=False)
        self.texts = references

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
    first, second = (
        TextForm.learn((pair.sides[k] for pair in pairs), s.tokens, s.tokenize, lower=s.lower) for k in (0, 1)
    )
    readers = s.readers((first, second))

    def learn(*sides: int) -> Vocabulary:
        texts = (readers[k](pair.sides[k]) for pair in pairs for k in sides)
        return Vocabulary.train(texts, s.tokens, size=s.vocabulary_size, min_frequency=s.min_frequency)

    if s.shared:
        both = learn(0, 1)
        return TranslateAssets(both, both, (first, second))
    return TranslateAssets(learn(0), learn(1), (first, second))


def store_pairs(
    settings: TranslateSettings, assets: TranslateAssets, pairs: Pairs, max_length: int | None = None,
    training: bool = False,
) -> ExampleStore:  # fmt: skip
    """The pairs as integers; longer ones than `max_length` are left out. `training`: they are those to train on."""

    def change(side: int, texts: Sequence[str]) -> list[str]:
        return [settings.read_text(text) for text in assets.read(side, texts, training=training).texts]

    marks = ["lower" if settings.lower else "", *(form.fingerprint for form in assets.forms if form)]
    changed = " ".join([*marks, "training"] if training and len(marks) > 1 else marks)
    source = PairSource(pairs, assets.source, assets.target, max_length, change, changed)
    return build_store(source, settings.cache_folder)


def dev_batches(settings: TranslateSettings, assets: TranslateAssets, pairs: Pairs) -> DevBatches:
    references = assets.comparable([pair.target for pair in pairs])
    return DevBatches(store_pairs(settings, assets, pairs), references)


def prepare(settings: TranslateSettings, assets: TranslateAssets | None = None) -> tuple[TranslateAssets, Data]:
    """The assets of a new run, or those given, and the batches of its data."""
    s = settings
    sources = open_data(s)  # files are checked first
    pairs, dev_pairs = sources.train, sources.dev
    if dev_pairs is not None:
        deque(dev_pairs, maxlen=0)  # its errors come before the work
    if assets is None:
        assets = learn_vocabularies(s, pairs)
        assets.usual = _usual(s, assets, dev_pairs or pairs)
    store = store_pairs(s, assets, pairs, s.max_length, training=True)
    train = PairBatches(store, tokens=s.batch_tokens, sequences=s.batch_size, seed=s.seed)
    info = {
        "training pairs": f"{pairs}: {len(store):,} pairs, {store.tokens:,} tokens to {train.tokens:,}",
        "vocabulary": _describe(s, assets),
    }
    dev = None
    if dev_pairs is not None:
        dev = dev_batches(s, assets, dev_pairs)
        dev_store = dev.store
        rate = dev_store.unknown / dev_store.tokens
        info["dev pairs"] = f"{sources.name}: {len(dev_store):,} pairs; {rate:.2%} of the source tokens are unknown"
    notes = []
    if long := store.info["long"]:
        line, *counts = store.info["first_long"]
        notes.append(
            f"{pairs.paths[0]}:{line}: {max(counts):,} tokens are more than {setting('max_length')}; such pairs "
            f"are left out of training ({long:,} of {long + len(store):,})"
        )
    return assets, sources.describe(Data(train, dev, info, notes))


def check(settings: TranslateSettings) -> PairCheck:
    """What is in the files that `settings` name."""
    s = settings
    pairs, dev = open_pairs(s, s.train), None if s.dev is None else open_pairs(s, s.dev)
    learned = learn_vocabularies(s, pairs)
    return check_pairs(pairs, dev, learned.source, learned.target, s.max_length, s.readers(learned.forms))


def _usual(s: TranslateSettings, assets: TranslateAssets, pairs: Pairs) -> Tally:
    sample = assets.read(0, [pair.source for pair in islice(pairs, TEXTS)]).texts
    return Tally().add_sample(lambda texts: assets.source.encode_many(list(map(s.read_text, texts)))[0], sample)


def _describe(s: TranslateSettings, assets: TranslateAssets) -> str:
    if s.shared:
        return f"{len(assets.source):,} {s.tokens} tokens for both languages"
    return f"{len(assets.source):,} and {len(assets.target):,} {s.tokens} tokens"
