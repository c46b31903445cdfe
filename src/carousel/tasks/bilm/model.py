"""The two-way language model: what comes next, and what came before, of every word of a sentence; vectors of words in
their context, for other tasks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import torch
from pydantic import model_validator
from torch import Tensor, nn

from ... import cells
from ...data import END, PAD, START, Vocabulary
from ...data.sources.memory import write_lines
from ...data.stores.examples import ExampleBatch, ExampleBatches, ExampleStore, collate, keep_examples
from ...data.text.vocabulary import texts_of
from ...data.text.words import Wordbook
from ...masks import length_mask
from ...networks.encoder import SequenceDropout
from ...ops.cross_entropy import linear_cross_entropy
from ...training import Data, Loss, Metric, key
from ...training.modes import in_eval_mode
from ...wording import counted
from ..base import CombinedTask, LayerInput
from ..lm.check import TextCheck, check_text
from ..shared.characters import CharacterName, CharacterSettings
from .sentences import ReadSentences, Sentences


class BilmSettings(CharacterSettings):
    """Keys of the two-way language model."""

    task: Literal["bilm"] = key("bilm", "the task", "data")
    train: Path = key(..., "text to train on: a sentence a line, or a word a line (.conllu, .conll)", "data")
    dev: Path | None = key(None, "text to choose the best epoch by", "data")
    word_column: int = key(1, "the column of the words, where columns are numbered", "data", ge=1)
    min_frequency: int = key(2, "how often a word must occur to be known", "data", ge=1)
    max_length: int = key(1000, "longer sentences are cut into parts of so many words for training", "data", ge=1)

    embedding: int = key(256, "numbers in a word's vector, and in what a layer and direction says of it", "model", ge=1)
    hidden: int = key(256, "units in a layer and direction; if more than embedding, projected to it", "model", ge=1)
    layers: int = key(2, "recurrent layers in each direction", "model", ge=1)
    tied: bool = key(True, "output and word vectors share one matrix", "model")
    characters: CharacterName = key("cnn", "what reads a word's characters", "model")
    dropout: float = key(0.3, "dropout before, between and after the layers", "model", ge=0, lt=1)

    @model_validator(mode="after")
    def _widths(self) -> Self:
        if self.hidden < self.embedding:
            raise ValueError(f"hidden: {self.hidden} units are fewer than embedding ({self.embedding}); give as many")
        if self.hidden > self.embedding and not cells.registry()[self.cell].projects:
            raise ValueError(f"hidden: the cell {self.cell} does not project; set it to embedding ({self.embedding})")
        return self

    def source(self, path: str | Path) -> Sentences:
        return Sentences(path, word_column=self.word_column, lower=self.lower)

    def wordbook(self, source: Sentences) -> Wordbook:
        """The words of the training text, and their characters."""
        words = self.make_vocabulary(source)
        if self.characters == "none":
            return Wordbook(words, None, self.lower)
        spelled = ("".join(sentence.words) for sentence in source.sentences())
        return Wordbook(words, Vocabulary.train(spelled, "character"), self.lower)

    def store(self, source: Sentences, book: Wordbook, max_length: int | None = None) -> ExampleStore:
        return keep_examples(ReadSentences(source, book, max_length), self.cache_folder)


class Stack(nn.Module):
    """Recurrent layers in one direction, with dropout between them; what each of them says is seen."""

    def __init__(self, settings: BilmSettings) -> None:
        super().__init__()
        s = settings
        proj_size = s.embedding if s.hidden > s.embedding else 0
        options = {"proj_size": proj_size} if proj_size else {}
        self.layers = nn.ModuleList(s.recurrent(s.embedding, **options) for _ in range(s.layers))
        self.drop = SequenceDropout(s.dropout, s.variational)

    def forward(self, x: Tensor, lengths: Tensor) -> list[Tensor]:
        """x (T, B, E) → (T, B, E) of each layer, the lowest first; 0 past the end of a sequence."""
        found: list[Tensor] = []
        for layer in self.layers:
            found.append(layer(self.drop(found[-1]) if found else x, lengths=lengths)[0])
        return found


class Read(NamedTuple):
    """What the network makes of sentences of T words or fewer, B of them. Sentences stand between [START] and [END]."""

    marked: Tensor  # (T + 2, B) int64: [START], the words, [END]
    tokens: Tensor  # (T + 2, B, E): a vector for each of them
    forward: list[Tensor]  # of each layer (T + 1, B, E): from [START] to the last word
    backward: list[Tensor]  # of each layer (T + 1, B, E): from [END] to the first word, in this order


class BiLanguageModel(CombinedTask):
    """words and their characters → layers from left to right, layers from right to left → the next word of each.

    The directions share the vectors of words and the output layer; what is learnt is the sum of both log-likelihoods.

    >>> book = Wordbook(Vocabulary.train(["the cat sat"], "word"), Vocabulary.train(["thecatsat"]))
    >>> model = BiLanguageModel(BilmSettings(train="text.txt", embedding=16, hidden=16), book)
    >>> model.embed("the cat sat down").shape  # the words' own vectors, and those of two layers in both directions
    (3, 4, 32)
    """

    name = "bilm"
    help = """Train a two-way language model on text, for vectors of words in their context.

    \b
    carousel train bilm text.txt --dev dev.txt --out bilm        # a sentence a line, spaces between words
    carousel train bilm train.conllu --dev dev.conllu --out bilm   # a word a line; its tags are not read
    carousel train bilm text.txt --characters none --cell gru --out bilm

    Then: carousel eval bilm dev.txt, carousel train tag names.conll --embedder bilm --out run."""
    Settings = BilmSettings
    commands = ("embed",)
    unit = "words"

    def __init__(self, settings: BilmSettings, wordbook: Wordbook) -> None:
        super().__init__()
        self.settings = s = settings
        self.wordbook = wordbook
        size = len(wordbook.words)
        self.embedder = s.word_embedder(wordbook.words)
        self.embedder.drop.rate = 0.0  # it comes after the characters are added
        self.shapes = s.shapes(wordbook.characters)
        self.spelled = None if self.shapes is None else nn.Linear(self.shapes.size, s.embedding, bias=False)
        self.drop = SequenceDropout(s.dropout, s.variational)
        self.forward_layers = Stack(s)
        self.backward_layers = Stack(s)
        self.bias = nn.Parameter(torch.zeros(size))
        if not s.tied:
            self.output = nn.Parameter(torch.empty(size, s.embedding).uniform_(-0.1, 0.1))

    # ---------------------------------------------------------------- the network

    @property
    def output_weight(self) -> Tensor:
        """(V, E)."""
        return self.embedder.embedder.weight if self.settings.tied else self.output

    def words(self, batch: ExampleBatch) -> tuple[Tensor, Tensor]:
        """The words between their marks, (T + 2, B), and a vector for each, (T + 2, B, E)."""
        marked = mark(batch.tokens, batch.lengths)
        x = self.embedder(marked)
        if self.shapes is not None and self.spelled is not None and len(batch.tokens):
            assert batch.characters is not None and batch.spelling is not None
            mask = torch.zeros_like(marked, dtype=torch.bool)
            mask[1:-1] = batch.mask
            x = x + self.spelled(self.shapes(batch.characters, batch.spelling, mask))
        return marked, x

    def batches(self, path: str | Path) -> ExampleBatches:
        return self.settings.reading_batches(self.settings.store(self.settings.source(path), self.wordbook))

    def layer_input(self, batch: ExampleBatch) -> LayerInput:
        """Of the lowest layer from left to right."""
        marked, x = self.words(batch)
        steps = batch.lengths + 1
        tokens = texts_of(self.wordbook.words, marked[:-1], steps)
        return LayerInput("forward_layers.layers.0", self.forward_layers.layers[0], self.drop(x)[:-1], steps, tokens)

    def read(self, batch: ExampleBatch) -> Read:
        marked, x = self.words(batch)
        dropped = self.drop(x)
        steps = batch.lengths + 1  # either of the marks is read, the other only predicted
        ahead = self.forward_layers(dropped[:-1], steps)
        back = self.backward_layers(turned(dropped, batch.lengths + 2)[:-1], steps)
        return Read(marked, x, ahead, back)

    def contexts(self, batch: ExampleBatch) -> list[Tensor]:
        """Vectors for the words (T, B) of a batch, (T, B, 2·E) each: their own (twice), then what each layer says of
        them, forwards and backwards beside each other; 0 past the end of a sentence."""
        read = self.read(batch)
        own = read.tokens[1:-1] * batch.mask.unsqueeze(2)
        pairs = zip(read.forward, read.backward, strict=True)
        # The last backward step is the first word, so leaving out the first step leaves out the mark in both.
        return [
            torch.cat((own, own), 2),
            *(torch.cat((ahead[1:], turned(back[1:], batch.lengths)), 2) for ahead, back in pairs),
        ]

    def losses(self, batch: ExampleBatch, reduction: str = "none", label_smoothing: float = 0.0) -> Tensor:
        """Minus the log-probability of each word and mark: (2, T + 1, B), forwards, and backwards from the end."""
        read = self.read(batch)
        hidden = self.drop(torch.cat((read.forward[-1], read.backward[-1]), 1))
        targets = torch.cat((read.marked[1:], turned(read.marked, batch.lengths + 2)[1:]), 1)
        found = linear_cross_entropy(
            hidden, self.output_weight, targets, self.bias, ignore_index=PAD, reduction=reduction,
            label_smoothing=label_smoothing,
        )  # fmt: skip
        return torch.stack(found.chunk(2, 1)) if reduction == "none" else found

    # ---------------------------------------------------------------- training

    def loss(self, batch: ExampleBatch) -> Loss:
        """The mean over both directions, which the sum of their log-likelihoods is proportional to."""
        mean = self.losses(batch, "mean", self.settings.label_smoothing)
        return Loss(mean, int(batch.lengths.sum()) + len(batch.lengths))

    @property
    def info(self) -> dict[str, Any]:
        return {"words": self.wordbook.words}

    def metric(self) -> BothPerplexities:
        return BothPerplexities(self)

    def describe_loss(self) -> Any:
        return lambda loss: f"loss {loss:.3f}  perplexity {math.exp(min(loss, 50)):,.1f}"

    # ---------------------------------------------------------------- use

    def embed(self, sentences: str | Iterable[str | Sequence[str]]) -> Any:
        """The vectors of a sentence's words, (layers + 1, words, 2·embedding), or of each of several, in a list.

        A sentence is text with spaces between words, or a list of words. The first layer has the words' own vectors
        (twice); in the others the forward half has read up to the word, the backward half from the end down to it.
        """
        if isinstance(sentences, str):
            return next(self.vectors([sentences]))
        return list(self.vectors(sentences))

    @in_eval_mode
    @torch.no_grad()
    def vectors(self, sentences: Iterable[str | Sequence[str]], batch: int = 64) -> Iterator[np.ndarray]:
        """As `embed`, for sentences that stream past, `batch` at a time."""
        waiting = iter(sentences)
        while group := [s.split() if isinstance(s, str) else list(s) for s in islice(waiting, batch)]:
            found = torch.stack(self.contexts(collate(self.wordbook.encode(group))))
            yield from (found[:, : len(words), b].numpy() for b, words in enumerate(group))

    def table(self, texts: Sequence[str]) -> tuple[dict[str, Any], np.ndarray, list[int]]:
        """A row for each word: its line and itself, and beside them the vectors, all layers end to end; none is cut."""
        words = [(line, word) for line, text in enumerate(texts, 1) for word in text.split()]
        size = (self.settings.layers + 1) * 2 * self.settings.embedding
        rows = [found.transpose(1, 0, 2).reshape(-1, size) for found in self.vectors(texts)]
        beside = {"line": [line for line, _ in words], "word": [word for _, word in words]}
        return beside, np.concatenate([np.zeros((0, size), np.float32), *rows]), []

    @in_eval_mode
    def evaluate(self, path: str | Path) -> dict[str, float]:
        """The perplexity of both directions together and of each; how much was read, and how much of it unknown."""
        batches, meter = self.batches(path), self.metric()
        for batch in batches:
            meter.add(batch)
        store = batches.store
        return {**meter.result(), "sentences": len(store), "words": store.tokens, "unknown": store.unknown}

    def show(self, page: Any) -> None:
        if self.settings.dev is None:
            return
        found = self.evaluate(self.settings.dev)
        names = {"forward": "perplexity_forward", "backward": "perplexity_backward", "both": "perplexity"}
        page.heading("Directions").text(f"`{self.settings.dev}`, words and the mark at the end of each sentence.")
        page.table(["", "perplexity"], [[told, f"{found[name]:.2f}"] for told, name in names.items()])

    # ---------------------------------------------------------------- data

    @classmethod
    def prepare(cls, settings: BilmSettings, network: Self | None = None) -> tuple[Self, Data]:
        s = settings
        source, dev_source = s.source(s.train), None if s.dev is None else s.source(s.dev)  # a missing file first
        book = s.wordbook(source) if network is None else network.wordbook
        store = s.store(source, book, s.max_length)
        facts = {
            "training text": f"{s.train}: {len(store):,} sentences, {store.tokens:,} words",
            "vocabulary": f"{len(book.words):,} words; {store.unknown / store.tokens:.2%} unknown",
        }
        dev = None
        if dev_source is not None:
            held_out = s.store(dev_source, book)
            dev = s.reading_batches(held_out)
            rate = held_out.unknown / held_out.tokens
            facts["dev text"] = f"{s.dev}: {len(held_out):,} sentences, {held_out.tokens:,} words; {rate:.2%} unknown"
        if network is None:
            network = cls(settings, book)
            facts |= s.set_vectors(network.embedder, book.words)
        cut = store.facts["cut"]
        many = counted(cut, "sentence is", "sentences are")
        notes = [f"{s.train}: {many} cut into parts of {s.max_length:,} words (max_length)"] if cut else []
        return network, Data(s.training_batches(store), dev, facts, notes)

    @classmethod
    def write_data(cls, data: Any, stem: Path, settings: Mapping[str, Any]) -> Path:
        """Sentences, as text with spaces between words or as lists of words."""
        return write_lines(data, stem.with_suffix(".txt"), lambda one: one if isinstance(one, str) else " ".join(one))

    @classmethod
    def check(cls, settings: BilmSettings) -> TextCheck:
        """What is in the files that `settings` name, before training on them."""
        s = settings
        source = s.source(s.train)
        return check_text(source, None if s.dev is None else s.source(s.dev), s.make_vocabulary(source))

    def save(self, folder: Path) -> None:
        self.wordbook.save(folder)

    @classmethod
    def load_assets(cls, settings: BilmSettings, folder: Path) -> Self:
        return cls(settings, Wordbook.load(folder, settings.characters != "none", settings.lower))


class BothPerplexities(Metric):
    """exp of the mean negative log-probability of words and of the mark after the last: of each direction, and of both
    together, which is their geometric mean."""

    best = "perplexity"
    lower_is_better = True

    def __init__(self, model: BiLanguageModel) -> None:
        self.model = model
        self.totals = [0.0, 0.0]
        self.count = 0

    @torch.no_grad()
    def add(self, batch: ExampleBatch) -> None:
        found = self.model.losses(batch).sum((1, 2), dtype=torch.float64)
        self.totals = [total + more for total, more in zip(self.totals, found.tolist(), strict=True)]
        self.count += int(batch.lengths.sum()) + len(batch.lengths)

    def merge(self, other: BothPerplexities) -> None:
        self.totals = [own + more for own, more in zip(self.totals, other.totals, strict=True)]
        self.count += other.count

    def result(self) -> dict[str, float]:
        forward, backward = (total / max(1, self.count) for total in self.totals)
        means = {"perplexity": (forward + backward) / 2, "perplexity_forward": forward, "perplexity_backward": backward}
        return {name: math.exp(mean) if mean < 700 else math.inf for name, mean in means.items()}


def mark(tokens: Tensor, lengths: Tensor) -> Tensor:
    """Sentences (T, B) of these lengths between [START] and [END], (T + 2, B).

    >>> mark(torch.tensor([[7, 8], [9, 0]]), torch.tensor([2, 1])).T.tolist()
    [[1, 7, 9, 2], [1, 8, 2, 0]]
    """
    marked = tokens.new_full((len(tokens) + 2, tokens.shape[1]), PAD)
    marked[0] = START
    marked[1:-1] = tokens
    marked[lengths + 1, torch.arange(tokens.shape[1], device=tokens.device)] = END
    return marked


def turned(x: Tensor, lengths: Tensor) -> Tensor:
    """Each sequence of x (T, B, …) from its end to its beginning; what is past its end stays where it is.

    >>> turned(torch.tensor([[7, 8], [9, 0]]), torch.tensor([2, 1])).T.tolist()
    [[9, 7], [8, 0]]
    """
    step = torch.arange(len(x), device=x.device).unsqueeze(1)
    source = torch.where(length_mask(lengths, len(x)), lengths - 1 - step, step)
    return x[source, torch.arange(x.shape[1], device=x.device)]
