"""The tagger's data: files in columns to examples, the words and tags that a run keeps."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from ...data.sources.conll import Conll
from ...data.stores.examples import ExampleStore, build_store
from ...data.text.form import TextForm
from ...data.text.usual import Tally
from ...data.text.vectors import Vectors
from ...data.text.words import WordVocabulary
from ...training import Data
from ..shared.context import ContextAssets
from ..shared.held_out import Sources, open_sources
from ..shared.reading import load_reading, save_reading
from ..shared.vectors import load_vectors, save_vectors
from .check import TagCheck, check_tags
from .examples import TagCounts, TaggedSentences, TagVocabulary, warnings
from .settings import TagSettings


@dataclass
class TagAssets:
    """What a run keeps: words, characters and tags, and the words of an embedder."""

    vocabulary: TagVocabulary
    form: TextForm | None = None
    usual: Tally = field(default_factory=Tally)  # what validation sentences are like
    context: ContextAssets | None = None
    vectors: Vectors | None = None  # that the words of a new network begin with

    def save(self, folder: Path) -> None:
        self.vocabulary.save(folder)
        save_vectors(folder, self.vocabulary.words)
        save_reading(folder, self.form, self.usual)
        if self.context is not None:
            self.context.save(folder)

    @classmethod
    def load(cls, settings: TagSettings, folder: Path) -> Self:
        context = ContextAssets.load(settings, folder)
        vocabulary = TagVocabulary.load(folder, None if context is None else context.words)
        load_vectors(settings, folder, vocabulary.words)
        return cls(vocabulary, *load_reading(folder), context)


def open_source(settings: TagSettings, path: str | Path | Conll, tagged: bool = True) -> Conll:
    if isinstance(path, Conll):
        return path
    return Conll(path, settings.column, word_column=settings.word_column, tagged=tagged)


def open_data(settings: TagSettings) -> Sources[Conll]:
    """The sentences to train on and for validation."""
    return open_sources(settings, lambda path: open_source(settings, path), "sentences")


def learn_vocabulary(settings: TagSettings, counts: TagCounts, context: WordVocabulary | None = None) -> TagVocabulary:
    """The words, characters and tags of the training file; `context` has the words of an embedder.

    If no word occurs `min_frequency` times and that is the default, all words are kept.
    """
    s = settings
    if "min_frequency" not in s.model_fields_set and max(counts.words.values()) < s.min_frequency:
        s = s.model_copy(update={"min_frequency": 1})
    words = s.make_vocabulary(f"{s.read_text(word)} " * n for word, n in counts.words.items())
    return TagVocabulary.learn(counts, words, s.train_scheme, s.lower, context)


def store_sentences(
    settings: TagSettings, assets: TagAssets, source: Conll, max_length: int | None = None
) -> ExampleStore:
    """The sentences of a file as integers."""
    sentences = TaggedSentences(source, assets.vocabulary, max_length, settings.reads_characters)
    return build_store(sentences, settings.cache_folder)


def prepare(settings: TagSettings, assets: TagAssets | None = None) -> tuple[TagAssets, Data]:
    """The assets of a new run, or those given, and the batches of its data."""
    s = settings
    sources = open_data(s)  # files are checked first
    source, dev_source = sources.train, sources.dev
    more: dict[str, str] = {}
    if assets is None:
        context = ContextAssets.find(s)
        vocabulary = learn_vocabulary(
            s, TagCounts(source, s.scheme, sources.whole), None if context is None else context.words
        )
        vectors, more = s.read_vectors(vocabulary.words)
        form = s.learn_form((" ".join(sentence.words) for sentence in source), tokenized=True)
        sample = (sentence.words for sentence in dev_source or source)
        assets = TagAssets(vocabulary, form, vocabulary.usual(sample), context, vectors)
    vocabulary = assets.vocabulary
    store = store_sentences(s, assets, source, s.max_length)
    info = {
        "training sentences": f"{s.train}: {store.info['sentences']:,} sentences, {store.tokens:,} words",
        "words": f"vocabulary of {len(vocabulary.words):,}; {store.unknown / store.tokens:.2%} unknown",
        "tags": f"{len(vocabulary.tags):,}" + (f", in {vocabulary.written} in the file" if vocabulary.written else ""),
        **({} if assets.context is None else {"embedder": assets.context.describe(store)}),
        **more,
    }
    notes = warnings(s.train, store.info, vocabulary.written)
    dev = None
    if dev_source is not None:
        held_out = store_sentences(s, assets, dev_source)
        dev = s.reading_batches(held_out)
        unknown = f"{held_out.unknown / held_out.tokens:.2%} unknown"
        info["dev sentences"] = f"{sources.name}: {len(held_out):,} sentences, {held_out.tokens:,} words; {unknown}"
        notes += warnings(dev_source.path, held_out.info, vocabulary.written)
    return assets, sources.describe(Data(s.training_batches(store), dev, info, notes))


def check(settings: TagSettings) -> TagCheck:
    """What is in the files that `settings` name."""
    s = settings
    source, dev = open_source(s, s.train), None if s.dev is None else open_source(s, s.dev)
    counts = TagCounts(source, s.scheme)
    return check_tags(source, dev, learn_vocabulary(s, counts), counts, s.max_length)
