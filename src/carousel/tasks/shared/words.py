"""Sentences of words: the keys that tasks on them share, and words to vectors."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, Self

import torch
from pydantic import model_validator
from torch import Tensor, nn

from ...data import PAD, UNK, Vocabulary
from ...data.stores.examples import ExampleBatches, ExampleStore
from ...data.text.encoder import Reading
from ...data.text.vectors import Vectors, read_vectors
from ...data.text.words import Wordbook
from ...errors import DataError
from ...layers import Recurrent
from ...networks.embedder import Embedder
from ...networks.encoder import CellName, SequenceDropout, encoder
from ...training import Settings, key
from ...wording import counted
from .text import default_cache


class VectorSettings(Settings):
    """Keys of the tasks that read labelled examples of words: which words, and a vector for each."""

    train: Path = key(..., "labelled examples to train on", "data")
    dev: Path | None = key(None, "labelled examples to choose the best epoch by", "data")
    lower: bool = key(False, "read all text in lower case", "data")
    min_frequency: int = key(1, "how often a token must occur to be known", "data", ge=1)
    vocabulary_size: int | None = key(None, "the most tokens the vocabulary may have", "data", ge=5)
    vocabulary: Path | None = key(None, "a file with the vocabulary: one token a line, or tokenizer.json", "data")
    vectors: Path | None = key(None, "word vectors to begin with, in the text form of word2vec or GloVe", "data")
    batch_size: int = key(32, "examples in a batch", "data", ge=1)
    cache: Path | None = key(None, "where tokens are kept between runs; null: in the user's cache directory", "data")

    embedding: int = key(128, "size of a word's vector; with vectors, as theirs", "model", ge=1)
    freeze_vectors: bool = key(False, "leave the given word vectors as they are", "model", {"vectors": ...})
    dropout: float = key(0.5, "dropout before, between and after the layers", "model", ge=0, lt=1)
    word_dropout: float = key(0.05, "share of the words read as [UNK] in training, so that it is learnt", "model",
                              ge=0, lt=1)  # fmt: skip
    label_smoothing: float = key(0.0, "share of the probability given to all labels alike", "model", ge=0, lt=1)

    @property
    def cache_folder(self) -> Path:
        return self.cache or default_cache()

    def read_text(self, text: str) -> str:
        """`text` as the model sees it."""
        return text.lower() if self.lower else text

    def make_vocabulary(self, texts: Iterable[str], kind: Literal["character", "word", "bpe"] = "word") -> Vocabulary:
        """The vocabulary of the training `texts`, or the one that was given."""
        if self.vocabulary is None:
            try:
                return Vocabulary.train(texts, kind, size=self.vocabulary_size, min_frequency=self.min_frequency)
            except DataError as error:  # texts that stream past have no name
                raise DataError(error.file or self.train, error.line, error.problem, error.remedy) from error
        if self.vocabulary.suffix == ".json":
            return Vocabulary.load(self.vocabulary)
        return Vocabulary.from_file(self.vocabulary, kind)

    def set_vectors(self, embedder: WordEmbedder, vocabulary: Vocabulary) -> dict[str, str]:
        """Let the words of the vocabulary begin with the vectors that were given; facts of them for the report."""
        if self.vectors is None:
            return {}
        found = read_vectors(self.vectors, vocabulary)
        width = found.values.shape[1]
        if width != self.embedding:
            problem = f"its vectors have {width} numbers, but embedding is {self.embedding}"
            raise DataError(self.vectors, None, problem, f"set embedding to {width}")
        embedder.set_vectors(found)
        return {"word vectors": f"{self.vectors}: {int(found.known.sum()):,} of {len(vocabulary):,} tokens have one"}

    def word_embedder(self, vocabulary: Vocabulary, variational: bool = False) -> WordEmbedder:
        return WordEmbedder(
            len(vocabulary), self.embedding, word_dropout=self.word_dropout, dropout=self.dropout,
            variational=variational, frozen=self.freeze_vectors and self.vectors is not None,
        )  # fmt: skip


class LayerSettings(VectorSettings):
    """Keys of the tasks that read sentences with recurrent layers."""

    max_length: int = key(1000, "longer examples are cut off after so many tokens", "data", ge=1)
    batch_tokens: int | None = key(None, "the most tokens in a batch", "data", ge=1)

    cell: CellName = key("lstm", "the recurrent cell", "model")
    hidden: int = key(128, "units in a layer and direction", "model", ge=1)
    layers: int = key(1, "recurrent layers", "model", ge=1)
    variational: bool = key(True, "one dropout mask for a whole sentence", "model")
    recurrent_dropout: float = key(0.0, "units of h hidden from the gates, one mask a sentence", "model", ge=0, lt=1)
    weight_drop: float = key(0.0, "share of the recurrent weights dropped", "model", ge=0, lt=1)
    zoneout: float = key(0.0, "share of units that keep their state at a step", "model", ge=0, lt=1)
    forget_bias: float | None = key(None, "the forget gate's bias at the start; null: the cell's own (1)", "model")

    def training_batches(self, store: ExampleStore) -> ExampleBatches:
        return ExampleBatches(store, tokens=self.batch_tokens, sequences=self.batch_size, seed=self.seed)

    def reading_batches(self, store: ExampleStore) -> ExampleBatches:
        """All examples once, in an order that does not change."""
        return ExampleBatches(store, tokens=16_384, sequences=256, shuffle=False)

    def recurrent(self, input_size: int, **options: Any) -> Recurrent:
        """Layers of these settings' cell, units and noise; `options` are the layer's own."""
        return encoder(
            self.cell,
            input_size,
            self.hidden,
            recurrent_dropout=self.recurrent_dropout,
            weight_drop=self.weight_drop,
            zoneout=self.zoneout,
            forget_bias=self.forget_bias,
            **options,
        )


class WordSettings(LayerSettings):
    """Keys of the tasks that read labelled sentences."""

    bidirectional: bool = key(True, "read in both directions", "model")
    embedder: Path | None = key(
        None, "a bilm run, whose vectors of words in context are read beside the task's own", "model"
    )
    embedder_tuned: bool = key(False, "train the embedder's weights too; else they stay as they are", "model")
    embedder_dropout: float | None = key(
        None, "dropout of the embedder's vectors; null: as dropout", "model", ge=0, lt=1
    )

    @model_validator(mode="after")
    def _embedder_fits(self) -> Self:
        for name in ("embedder_tuned", "embedder_dropout"):
            if self.embedder is None and getattr(self, name) not in (False, None):
                raise ValueError(f"{name}: there is no embedder; give one, or leave {name} away")
        if self.embedder is not None and (tokens := getattr(self, "tokens", "word")) != "word":
            raise ValueError(f"embedder: it reads words, and tokens is {tokens}; set tokens to word, or leave it away")
        return self

    def reading(self, vocabulary: Vocabulary, context: Wordbook | None = None) -> Reading:
        """How texts are read; `context` is an embedder's."""
        return Reading(vocabulary, self.max_length, lower=self.lower, context=context)

    def cut_notes(self, store: ExampleStore) -> list[str]:
        """What is said before training if some texts were too long."""
        many = counted(store.facts["cut"], "text is", "texts are")
        said = f"{self.train}: {many} cut off after {counted(self.max_length, 'token')} (max_length)"
        return [said] if store.facts["cut"] else []

    def encoder(self, input_size: int) -> Recurrent:
        """(T, B, input_size) → (T, B, directions · hidden)."""
        return self.recurrent(
            input_size,
            num_layers=self.layers,
            bidirectional=self.bidirectional,
            dropout=self.dropout,
            variational=self.variational,
        )

    @property
    def encoded(self) -> int:
        """How many numbers the encoder gives for a step."""
        return self.hidden * (2 if self.bidirectional else 1)


class WordEmbedder(nn.Module):
    """A vector for each word. In training, a share `word_dropout` of the words is read as `[UNK]`, then dropout.

    >>> WordEmbedder(10, 4)(torch.tensor([[1, 2, 0]])).shape
    torch.Size([1, 3, 4])
    """

    def __init__(
        self,
        words: int,
        size: int,
        *,
        word_dropout: float = 0.0,
        dropout: float = 0.0,
        variational: bool = True,
        frozen: bool = False,
    ) -> None:
        super().__init__()
        self.embedder = Embedder(words, size)
        self.embedder.weight.requires_grad_(not frozen)
        self.word_dropout = word_dropout
        self.drop = SequenceDropout(dropout, variational)

    @torch.no_grad()
    def set_vectors(self, vectors: Vectors) -> None:
        """Begin with these vectors, (V, size); words that have none keep their own, scaled to be as long."""
        given, known = torch.from_numpy(vectors.values), torch.from_numpy(vectors.known)
        weight = self.embedder.weight
        weight.mul_(given[known].std().nan_to_num(1) / weight[UNK:].std())
        weight[known] = given[known]

    def forward(self, words: Tensor) -> Tensor:
        """words (T, B) → (T, B, size); of blank texts alone, (0, B), a step of `[PAD]`, since layers want one."""
        if not len(words):
            words = words.new_full((1, words.shape[1]), PAD)
        if self.training and self.word_dropout:
            hidden = (torch.rand(words.shape, device=words.device) < self.word_dropout) & (words >= UNK)
            words = words.masked_fill(hidden, UNK)
        return self.drop(self.embedder(words))

    def extra_repr(self) -> str:
        return f"word_dropout={self.word_dropout}"
