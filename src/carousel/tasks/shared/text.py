"""What tasks that read plain text share: where it is, how it is cut into tokens, and how into batches."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ...errors import DataError
from ...progress import stage
from ...training.settings import MOST_TOKENS, key
from .held_out import HeldOutSettings, Sources, open_sources

if TYPE_CHECKING:
    from ...data import TokenStore, Vocabulary
    from ...data.batches.base import Batches
    from ...data.sources.lines import Lines, RunningText, Source
    from ...data.text.sample import Sample


Tokenize = Literal["auto", "words", "none"]
TOKENIZE = "raw text: auto (brought to the form of the training text), words (split from punctuation), none (as it is)"


class TextSettings(HeldOutSettings):
    """Keys of the tasks that read plain text."""

    train: Path = key(..., "training text", "data")
    dev: Path | None = key(None, "validation text, which selects the best epoch", "data")
    layout: Literal["lines", "running", "sentences"] = key(
        "lines",
        "lines: each on its own; running: one stream, newline is a token; sentences: one stream, [END] after each line",
        "data",
    )
    tokens: Literal["character", "word", "bpe"] = key("character", "tokenization", "data")
    tokenize: Tokenize = key("auto", TOKENIZE, "data")
    min_frequency: int | None = key(
        None, "minimum frequency of a token in the vocabulary; null: 2 for words, so that [UNK] is learned, else 1",
        "data", ge=1,
    )  # fmt: skip
    vocabulary_size: int | None = key(None, "maximum vocabulary size", "data", ge=5, le=MOST_TOKENS)
    vocabulary: Path | None = key(None, "vocabulary file: one token per line, or tokenizer.json", "data")
    vocabulary_sample: int | None = key(
        None, "megabytes of text, evenly spaced, that the vocabulary is learned from; null: 16 for bpe, 512 for others",
        "data", ge=1,
    )  # fmt: skip
    batch_size: int = key(64, "lines, or parallel streams, in a batch", "data", ge=1)
    batch_tokens: int | None = key(
        None, "maximum number of tokens in a batch of lines", "data", {"layout": ("lines",)}, ge=1
    )
    max_length: int = key(
        1000, "longer lines are split into parts of this many tokens", "data", {"layout": ("lines",)}, ge=1
    )
    bptt: int = key(
        35,
        "length of backpropagation through time: steps of running text per batch",
        "data",
        {"layout": ("running", "sentences")},
        ge=1,
    )
    vary_bptt: bool = key(
        False, "vary the length of each batch randomly around bptt", "data", {"layout": ("running", "sentences")}
    )
    cache: Path | None = key(None, "token cache; null: in the user's cache directory", "data", metavar="DIR")

    def source(self, path: str | Path | Lines | RunningText) -> Lines | RunningText:
        """The file `path` in this layout."""
        from ...data import Lines, RunningText

        if not isinstance(path, str | Path):
            return path
        if self.layout == "lines":
            return Lines(path)
        return RunningText(path, end_lines=self.layout == "sentences")

    def sources(self) -> Sources[Lines | RunningText]:
        """The text to train on and that for validation: lines are chosen one by one, of running text the end."""
        return open_sources(self, self.source, "lines", running=self.layout != "lines")

    def make_vocabulary(self, source: Source) -> Vocabulary:
        """The vocabulary of the training text, or the one that was given."""
        from ...data import Vocabulary

        if self.vocabulary is None:
            with stage("learning the vocabulary"):
                return self._learn_vocabulary(self.sample(source))
        if self.vocabulary.suffix == ".json":
            return Vocabulary.load(self.vocabulary)
        return Vocabulary.from_file(self.vocabulary, self.tokens)

    def _learn_vocabulary(self, texts: Sample) -> Vocabulary:
        """By default a word must occur twice: what occurs once is about as frequent as what is new in other text.

        If no word occurs twice, all are kept.
        """
        from ...data import Vocabulary

        if self.min_frequency is None and self.tokens == "word":
            try:
                return Vocabulary.train(texts, "word", size=self.vocabulary_size, min_frequency=2)
            except DataError:  # no word does; what else can be wrong is found again below
                pass
        return Vocabulary.train(texts, self.tokens, size=self.vocabulary_size, min_frequency=self.min_frequency or 1)

    def sample(self, source: Source) -> Sample:
        """The text that a vocabulary is learned from."""
        from ...data.text.sample import Sample

        return Sample(source, self.vocabulary_sample or (16 if self.tokens == "bpe" else 512))

    def store(self, source: Source | Path, vocabulary: Vocabulary) -> TokenStore:
        from ...data import tokenize

        return tokenize(
            self.source(source) if isinstance(source, Path) else source, vocabulary, self.cache or default_cache()
        )

    @property
    def first_token(self) -> int:
        """What a text is begun with: a sentence follows the end of another."""
        from ...data import END, START

        return END if self.layout == "sentences" else START

    def training_batches(self, store: TokenStore) -> Batches:
        from ...data import LineBatches, StreamBatches

        if self.layout == "lines":
            return LineBatches(
                store, tokens=self.batch_tokens, sequences=self.batch_size, max_length=self.max_length, seed=self.seed
            )
        streams = min(self.batch_size, max(1, len(store.tokens) // 2))  # a short text has fewer streams
        vary, first = self.vary_bptt, self.first_token
        return StreamBatches(store, streams=streams, bptt=self.bptt, vary=vary, seed=self.seed, first=first)

    def reading_batches(self, store: TokenStore) -> Batches:
        """All of the text once, in an order that does not change: running text as one stream."""
        from ...data import LineBatches, StreamBatches

        if self.layout == "lines":
            return LineBatches(store, tokens=16_384, sequences=256, shuffle=False)
        return StreamBatches(store, streams=1, bptt=1024, first=self.first_token)


def default_cache() -> Path:
    """`carousel/tokens` in the user's cache directory."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "carousel" / "tokens"
