"""The bidirectional language model's data: sentences to examples, the words that a run keeps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from ...data import Vocabulary
from ...data.stores.examples import ExampleStore, build_store
from ...data.text.form import TextForm
from ...data.text.vectors import Vectors
from ...data.text.words import WordVocabulary
from ...training import Data
from ...wording import counted, setting
from ..lm.check import TextCheck, check_text
from ..shared.checks import unknown_remedies
from ..shared.held_out import Sources, open_sources
from ..shared.reading import TextAssets, load_reading
from .sentences import ReadSentences, Sentences
from .settings import BilmSettings


@dataclass
class BilmAssets(TextAssets):
    """What a run keeps: its words and their characters."""

    words: WordVocabulary
    vectors: Vectors | None = None  # that the words of a new network begin with

    def save(self, folder: Path) -> None:
        super().save(folder)
        self.words.save(folder)

    @classmethod
    def load(cls, settings: BilmSettings, folder: Path) -> Self:
        words = WordVocabulary.load(folder, settings.characters != "none", settings.lower)
        return cls(words, **load_reading(folder))


def open_source(settings: BilmSettings, path: str | Path | Sentences) -> Sentences:
    if isinstance(path, Sentences):
        return path
    return Sentences(path, word_column=settings.word_column, lower=settings.lower)


def open_data(settings: BilmSettings) -> Sources[Sentences]:
    """The sentences to train on and for validation."""
    return open_sources(settings, lambda path: open_source(settings, path), "sentences")


def learn_form(settings: BilmSettings, source: Sentences) -> TextForm | None:
    """The form of the training text, which is tokenized if it is in columns."""
    texts = (" ".join(sentence.words) for sentence in source.sentences())
    return settings.learn_form(texts, tokenized=source.in_columns or None)


def learn_words(settings: BilmSettings, source: Sentences) -> WordVocabulary:
    """The words of the training text, and their characters."""
    words = settings.make_vocabulary(source)
    if settings.characters == "none":
        return WordVocabulary(words, None, settings.lower)
    spelled = ("".join(sentence.words) for sentence in source.sentences())
    return WordVocabulary(words, Vocabulary.train(spelled, "character"), settings.lower)


def store_sentences(
    settings: BilmSettings, assets: BilmAssets, source: Sentences, max_length: int | None = None
) -> ExampleStore:
    return build_store(ReadSentences(source, assets.words, max_length), settings.cache_folder)


def learn_assets(settings: BilmSettings, sources: Sources[Sentences]) -> BilmAssets:
    """The form and the words of the sentences to train on."""
    form = learn_form(settings, sources.train)
    source = sources.train.prepared(form, training=True)
    words = learn_words(settings, source)
    vectors = settings.read_vectors(words.words, beyond=False)
    sample = source if sources.dev is None else sources.dev.prepared(form)
    return BilmAssets(words, vectors, form=form, usual=words.usual(one.words for one in sample.sentences()))


def prepare(settings: BilmSettings, assets: BilmAssets | None = None) -> tuple[BilmAssets, Data]:
    """The assets of a new run, or those given, and the batches of its data."""
    s = settings
    sources = open_data(s)  # files are checked first
    assets = assets or learn_assets(s, sources)
    store = store_sentences(s, assets, sources.train.prepared(assets.form, training=True), s.max_length)
    info = {
        "training text": f"{s.train}: {len(store):,} sentences, {store.tokens:,} words",
        "vocabulary": f"{len(assets.words.words):,} words; {store.unknown / store.tokens:.2%} unknown",
    }
    dev = None
    if sources.dev is not None:
        held_out = store_sentences(s, assets, sources.dev.prepared(assets.form))
        dev = s.reading_batches(held_out)
        rate = held_out.unknown / held_out.tokens
        info["dev text"] = f"{sources.name}: {len(held_out):,} sentences, {held_out.tokens:,} words; {rate:.2%} unknown"
    info |= s.describe_vectors(assets.words.words, assets.vectors)
    cut = store.info["cut"]
    many = counted(cut, "sentence is", "sentences are")
    notes = [f"{s.train}: {many} cut into parts of {s.max_length:,} words ({setting('max_length')})"] if cut else []
    return assets, sources.describe(Data(s.training_batches(store), dev, info, notes))


def check(settings: BilmSettings) -> TextCheck:
    """What is in the files that `settings` name."""
    source = open_source(settings, settings.train)
    form = learn_form(settings, source)
    source = source.prepared(form, training=True)
    dev = None if settings.dev is None else open_source(settings, settings.dev).prepared(form)
    return check_text(source, dev, settings.make_vocabulary(source), unknown_remedies(settings))
