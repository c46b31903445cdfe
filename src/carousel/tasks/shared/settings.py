"""Settings that several tasks share. Whatever needs torch is imported where it is used: help does not wait for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BeforeValidator, model_validator

from ...errors import DataError
from ...training.settings import MOST_TOKENS, Choices, EnsembleSettings, key
from ...wording import counted, setting
from .cell import CellSettings, DirectionSettings
from .held_out import HeldOutSettings
from .text import TOKENIZE, Tokenize, default_cache

if TYPE_CHECKING:
    from ...data import Vocabulary
    from ...data.stores.examples import ExampleBatches, ExampleStore
    from ...data.text.encoder import TextEncoder
    from ...data.text.form import TextForm
    from ...data.text.vectors import Vectors
    from ...data.text.words import WordVocabulary
    from ...layers import Recurrent
    from ...networks.characters import CharacterFeatures
    from ...networks.embedder import WordEmbedder

CharacterName = Literal["none", "rnn", "cnn"]
PoolingName = Literal["last", "mean", "max", "attention"]


def _path_or_name(given: Any) -> Any:
    """Word vectors as settings keep them: a name, or the absolute path of a file, which is right everywhere."""
    if not isinstance(given, str | Path):
        return given
    bare = len(Path(given).parts) == 1 and not Path(given).suffix and not Path(given).exists()
    return str(given) if bare else os.path.abspath(given)


VectorsName = Annotated[str, BeforeValidator(_path_or_name), Choices(lambda: ["glove"], "FILE")]


class VectorSettings(HeldOutSettings):
    """Keys of the tasks that read labelled examples of words: which words, and a vector for each."""

    train: Path = key(..., "labelled training examples", "data")
    dev: Path | None = key(None, "validation examples, which select the best epoch", "data")
    lower: bool = key(False, "lower-case all text", "data")
    min_frequency: int = key(1, "minimum frequency of a token in the vocabulary", "data", ge=1)
    vocabulary_size: int | None = key(None, "maximum vocabulary size", "data", ge=5, le=MOST_TOKENS)
    vocabulary: Path | None = key(None, "vocabulary file: one token per line, or tokenizer.json", "data")
    vectors: VectorsName | None = key(
        None, "pre-trained word vectors: a name (glove: see carousel data list) or a file: word2vec text or .bin, "
        "GloVe, fastText .vec, safetensors", "data", metavar="NAME|FILE",
    )  # fmt: skip
    embed_vectors: Literal["none", "used", "all"] = key(
        "none", "word vectors kept in the run: none (the run needs the file), those of the vocabulary alone (used; "
        "other words are unknown), or all", "data", {"vectors": ...},
    )  # fmt: skip
    batch_size: int = key(32, "examples in a batch", "data", ge=1)
    cache: Path | None = key(None, "token cache; null: in the user's cache directory", "data", metavar="DIR")

    embedding: int = key(128, "embedding size; with vectors, their size", "model", ge=1)
    freeze_vectors: bool = key(False, "do not train the given word vectors", "model", {"vectors": ...})
    dropout: float = key(0.5, "dropout before, between and after the layers", "model", ge=0, lt=1)
    word_dropout: float = key(0.05, "fraction of words replaced by [UNK] in training", "model",
                              ge=0, lt=1)  # fmt: skip
    label_smoothing: float = key(0.0, "label smoothing", "model", ge=0, lt=1)

    @property
    def cache_folder(self) -> Path:
        return self.cache or default_cache()

    def read_text(self, text: str) -> str:
        """`text` as the model sees it."""
        return text.lower() if self.lower else text

    def reader(self, form: TextForm | None) -> Callable[[str], str]:
        """What is done to a training text."""
        return self.read_text if form is None else lambda text: self.read_text(form.of_training(text))

    def make_vocabulary(self, texts: Iterable[str], kind: Literal["character", "word", "bpe"] = "word") -> Vocabulary:
        """The vocabulary of the training `texts`, or the one that was given."""
        from ...data import Vocabulary

        if self.vocabulary is None:
            try:
                return Vocabulary.train(texts, kind, size=self.vocabulary_size, min_frequency=self.min_frequency)
            except DataError as error:  # texts that stream past have no name
                raise DataError(error.file or self.train, error.line, error.problem, error.remedy) from error
        if self.vocabulary.suffix == ".json":
            return Vocabulary.load(self.vocabulary)
        return Vocabulary.from_file(self.vocabulary, kind)

    @model_validator(mode="before")
    @classmethod
    def _size_of_vectors(cls, given: Any) -> Any:
        """The embedding size follows the vectors unless it is given."""
        if not isinstance(given, dict) or given.get("vectors") is None or given.get("embedding") is not None:
            return given
        from ...data.text.vectors import find_vectors, width_of

        width = width_of(find_vectors(given["vectors"]))
        return given if width is None else {**given, "embedding": width}

    def read_vectors(self, vocabulary: Vocabulary, beyond: bool = True) -> Vectors | None:
        """The vectors that were given for the words of the vocabulary.

        With `beyond`, the vocabulary then knows all other words that have a vector, too.
        """
        from ...data.text.vectors import find_vectors, open_vectors

        if self.vectors is None:
            return None
        word_vectors = open_vectors(find_vectors(self.vectors), self.cache_folder)
        if word_vectors.size != self.embedding:
            size, name = word_vectors.size, setting("embedding")
            problem = f"its vectors have {counted(size, 'number')}, but {name} is {self.embedding}"
            raise DataError(self.vectors, None, problem, f"give {setting('embedding', size)}, or leave it out")
        if vocabulary.kind != "word":
            problem = f"vectors are of words, tokens are of kind {vocabulary.kind}"
            raise DataError(self.vectors, None, problem, f"give {setting('tokens', 'word')}")
        vectors = word_vectors.of(vocabulary.tokens)
        if beyond and self.embed_vectors != "used":
            vocabulary.beyond = word_vectors
            word_vectors.embedded = self.embed_vectors == "all"
        return vectors

    def describe_vectors(self, vocabulary: Vocabulary, vectors: Vectors | None) -> dict[str, str]:
        """A line for the report on the vectors that a new run was given."""
        if vectors is None:
            return {}
        known = f"{int(vectors.known.sum()):,} of {len(vocabulary):,} tokens have one"
        beyond = vocabulary.beyond
        more = "" if beyond is None else f"; other words are looked up in its {len(beyond):,}"
        return {"word vectors": f"{self.vectors}: {known}{more}"}

    def word_embedder(self, vocabulary: Vocabulary, variational: bool = False) -> WordEmbedder:
        from ...networks.embedder import WordEmbedder

        return WordEmbedder(
            len(vocabulary), self.embedding, word_dropout=self.word_dropout, dropout=self.dropout,
            variational=variational, frozen=self.freeze_vectors and self.vectors is not None, beyond=vocabulary.beyond,
        )  # fmt: skip


class LayerSettings(CellSettings, VectorSettings):
    """Keys of the tasks that read sentences with recurrent layers."""

    tokenize: Tokenize = key("auto", TOKENIZE, "data")
    max_length: int = key(1000, "longer examples are truncated to this many tokens", "data", ge=1)
    batch_tokens: int | None = key(None, "maximum number of tokens in a batch", "data", ge=1)

    hidden: int = key(128, "hidden units per layer and direction", "model", ge=1)
    variational: bool = key(True, "variational dropout: one mask for all steps", "model")
    recurrent_dropout: float = key(
        0.0, "dropout of h in the recurrent products, one mask per sentence", "model", ge=0, lt=1
    )
    weight_drop: float = key(0.0, "fraction of recurrent weights dropped (DropConnect)", "model", ge=0, lt=1)
    zoneout: float = key(0.0, "fraction of units that keep their previous state", "model", ge=0, lt=1)
    forget_bias: float | None = key(None, "initial bias of the forget gate; null: the cell's default (1)", "model")

    def learn_form(self, texts: Iterable[str], *, tokenized: bool | None = None) -> TextForm | None:
        """The form of the training texts; `tokenized`: they are known to be."""
        from ...data.text.form import TextForm

        tokens = getattr(self, "tokens", "word")
        return TextForm.learn(texts, tokens, self.tokenize, lower=self.lower, tokenized=tokenized)

    def training_batches(self, store: ExampleStore) -> ExampleBatches:
        from ...data.stores.examples import ExampleBatches

        return ExampleBatches(store, tokens=self.batch_tokens, sequences=self.batch_size, seed=self.seed)

    def reading_batches(self, store: ExampleStore) -> ExampleBatches:
        """All examples once, in an order that does not change."""
        from ...data.stores.examples import ExampleBatches

        return ExampleBatches(store, tokens=16_384, sequences=256, shuffle=False)

    def recurrent(self, input_size: int, hidden_size: int | None = None, **options: Any) -> Recurrent:
        """As in `CellSettings`, with the dropout of these settings inside the layers."""
        noise = {"recurrent_dropout": self.recurrent_dropout, "weight_drop": self.weight_drop, "zoneout": self.zoneout}
        return super().recurrent(input_size, hidden_size, forget_bias=self.forget_bias, **noise, **options)


class WordSettings(DirectionSettings, LayerSettings, EnsembleSettings):
    """Keys of the tasks that read labelled sentences."""

    embedder: Path | None = key(
        None,
        "a bilm run, whose contextual word vectors are concatenated to the task's own",
        "model",
        metavar="RUN",
    )
    embedder_tuned: bool = key(False, "fine-tune the embedder's weights", "model")
    embedder_dropout: float | None = key(
        None, "dropout of the embedder's vectors; null: the same as dropout", "model", ge=0, lt=1
    )

    @model_validator(mode="after")
    def _embedder_fits(self) -> Self:
        for name in ("embedder_tuned", "embedder_dropout"):
            if self.embedder is None and getattr(self, name) not in (False, None):
                raise ValueError(f"{setting(name)}: there is no embedder; give {setting('embedder')}, or leave it out")
        if self.embedder is not None and (tokens := getattr(self, "tokens", "word")) != "word":
            remedy = f"give {setting('tokens', 'word')}, or leave it out"
            raise ValueError(f"{setting('embedder')}: it reads words, and {setting('tokens')} is {tokens}; {remedy}")
        return self

    def text_encoder(
        self, vocabulary: Vocabulary, form: TextForm | None, context: WordVocabulary | None = None,
        training: bool = False,
    ) -> TextEncoder:  # fmt: skip
        """How texts are read; `context` is an embedder's, `training` says that they are those to train on."""
        from ...data.text.encoder import TextEncoder

        return TextEncoder(vocabulary, self.max_length, lower=self.lower, context=context, form=form, training=training)

    def cut_notes(self, store: ExampleStore) -> list[str]:
        """A note to print before training if some texts were truncated."""
        many = counted(store.info["cut"], "text is", "texts are")
        note = f"{self.train}: {many} cut off after {counted(self.max_length, 'token')} (max_length)"
        return [note] if store.info["cut"] else []

    def encoder(self, input_size: int) -> Recurrent:
        """(T, B, input_size) → (T, B, directions · hidden)."""
        return self.recurrent(
            input_size,
            num_layers=self.layers,
            bidirectional=self.bidirectional,
            dropout=self.dropout,
            variational=self.variational,
        )


class CharacterSettings(LayerSettings):
    """Keys of the tasks that read the characters of words."""

    characters: CharacterName = key("rnn", "character encoder", "model")
    character_embedding: int = key(50, "size of character embeddings", "model", {"characters": ...}, ge=1)
    character_hidden: int = key(
        100, "hidden units per direction, or number of filters, over characters", "model", {"characters": ...}, ge=1
    )
    character_width: int = key(3, "width of the character filters", "model", {"characters": ("cnn",)}, ge=1)

    def character_features(self, known: Vocabulary | None) -> CharacterFeatures | None:
        """What reads the characters of words, of which these are `known`."""
        from ...networks.characters import CharacterCNN, CharacterFeatures, CharacterRNN

        if self.characters == "none" or known is None:
            return None
        size, width = len(known), self.character_embedding
        if self.characters == "rnn":
            return CharacterFeatures(CharacterRNN(size, width, self.character_hidden, self.cell, self.nonlinearity))
        return CharacterFeatures(CharacterCNN(size, width, self.character_hidden, self.character_width))
