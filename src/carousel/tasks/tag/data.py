"""The tagger's data: files in columns to examples, the words and tags that a run keeps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from ...data.sources.conll import Conll
from ...data.stores.examples import ExampleStore, build_store
from ...data.text.words import WordVocabulary
from ...training import Data
from ..shared.context import ContextAssets, LabelledAssets
from ..shared.held_out import Sources, open_sources
from ..shared.reading import load_reading
from ..shared.vectors import load_vectors, save_vectors
from .check import TagCheck, check_tags
from .examples import TagCounts, TaggedSentences, TagVocabulary, warnings
from .settings import TagSettings


@dataclass
class TagAssets(LabelledAssets):
    """What a run keeps: words, characters and tags, and the words of an embedder."""

    vocabulary: TagVocabulary

    def save(self, folder: Path) -> None:
        super().save(folder)
        self.vocabulary.save(folder)
        save_vectors(folder, self.vocabulary.words)

    @classmethod
    def load(cls, settings: TagSettings, folder: Path) -> Self:
        context = ContextAssets.load(settings, folder)
        vocabulary = TagVocabulary.load(folder, None if context is None else context.words)
        load_vectors(settings, folder, vocabulary.words)
        return cls(vocabulary, context=context, **load_reading(folder))


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


def learn_assets(settings: TagSettings, sources: Sources[Conll]) -> TagAssets:
    """The vocabulary of the sentences to train on, and their form."""
    s, source, context = settings, sources.train, ContextAssets.find(settings)
    counts = TagCounts(source, s.scheme, sources.whole)
    vocabulary = learn_vocabulary(s, counts, None if context is None else context.words)
    vectors = s.read_vectors(vocabulary.words)
    form = s.learn_form((" ".join(sentence.words) for sentence in source), tokenized=True)
    usual = vocabulary.usual(sentence.words for sentence in sources.dev or source)
    return TagAssets(vocabulary, form=form, usual=usual, context=context, vectors=vectors)


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
    assets = assets or learn_assets(s, sources)
    vocabulary = assets.vocabulary
    store = store_sentences(s, assets, sources.train, s.max_length)
    info = {
        "training sentences": f"{s.train}: {store.info['sentences']:,} sentences, {store.tokens:,} words",
        "words": f"vocabulary of {len(vocabulary.words):,}; {store.unknown / store.tokens:.2%} unknown",
        "tags": f"{len(vocabulary.tags):,}" + (f", in {vocabulary.written} in the file" if vocabulary.written else ""),
        **assets.describe_context(store),
        **s.describe_vectors(vocabulary.words, assets.vectors),
    }
    notes = warnings(s.train, store.info, vocabulary.written)
    dev = None
    if sources.dev is not None:
        held_out = store_sentences(s, assets, sources.dev)
        dev = s.reading_batches(held_out)
        unknown = f"{held_out.unknown / held_out.tokens:.2%} unknown"
        info["dev sentences"] = f"{sources.name}: {len(held_out):,} sentences, {held_out.tokens:,} words; {unknown}"
        notes += warnings(sources.dev.path, held_out.info, vocabulary.written)
    return assets, sources.describe(Data(s.training_batches(store), dev, info, notes))


def check(settings: TagSettings) -> TagCheck:
    """What is in the files that `settings` name."""
    s = settings
    source, dev = open_source(s, s.train), None if s.dev is None else open_source(s, s.dev)
    counts = TagCounts(source, s.scheme)
    return check_tags(source, dev, learn_vocabulary(s, counts), counts, s.max_length)
