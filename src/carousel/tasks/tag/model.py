"""The tagger: a tag for each word of a sentence, such as its part of speech or its place in a name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from pydantic import field_validator, model_validator
from torch import Tensor, nn

from ...data.sources.conll import Conll, check_column
from ...data.sources.memory import write_sentences
from ...data.stores.examples import NO_LABEL, ExampleBatch, ExampleBatches, ExampleStore, collate, keep_examples
from ...data.text.tags import convert, legal, type_of
from ...data.text.vocabulary import texts_of
from ...metrics import Confusion
from ...metrics.spans import SpanScore
from ...networks.crf import CRF, Best
from ...networks.encoder import SequenceDropout
from ...ops.cross_entropy import linear_cross_entropy
from ...pictures.confusion import show_confusion
from ...training import ColumnName, Data, Loss, Metric, key
from ...training.modes import in_eval_mode
from ..base import LayerInput, Option
from ..shared.combined import CombinedTask
from ..shared.context import ContextEmbedder
from ..shared.settings import CharacterSettings, WordSettings
from .check import TagCheck, check_tags
from .examples import Lexicon, SchemeName, TagCounts, TaggedSentences, complaints
from .tagged import Tagged, TaggedList

PLACES = 1 << 15  # words, padding included, that are tagged at once


class TagSettings(CharacterSettings, WordSettings):
    """Keys of the tagger."""

    task: Literal["tag"] = key("tag", "the task", "data")
    column: ColumnName | None = key(
        None, "where the tags are: upos or xpos of CoNLL-U, or a column's number; null: upos (.conllu), else the last",
        "data",
    )  # fmt: skip
    word_column: int = key(1, "the column of the words, where columns are numbered", "data", ge=1)
    scheme: SchemeName = key("auto", "how the file writes spans as tags; none: its tags are not parts of spans", "data")
    train_scheme: Literal["iob2", "bioes"] = key("bioes", "how spans are written while the model is trained", "data")
    lower: bool = key(True, "words in lower case; their characters keep theirs", "data")
    min_frequency: int = key(2, "how often a word must occur to have a vector of its own", "data", ge=1)
    max_length: int = key(1000, "longer sentences are cut into parts of so many words for training", "data", ge=1)

    output: Literal["auto", "softmax", "crf"] = key(
        "auto", "each tag by itself (softmax), or all tags of a sentence together (crf); auto: crf for spans", "model"
    )

    hidden: int = key(200, "units in a layer and direction", "model", ge=1)
    dropout: float = key(0.4, "dropout before, between and after the layers", "model", ge=0, lt=1)
    word_dropout: float = key(0.2, "share of the words read as [UNK] in training", "model", ge=0, lt=1)
    lr: float = key(0.003, "learning rate at its highest", "training", gt=0)
    schedule: Literal["constant", "linear", "cosine", "step", "plateau"] = key(
        "cosine", WordSettings.model_fields["schedule"].description or "", "training"
    )

    @field_validator("column")
    @classmethod
    def _column(cls, given: str | None) -> str | None:
        return check_column(given)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.output == "crf" and self.label_smoothing:
            raise ValueError("label_smoothing is for output softmax; a crf has no use for it")
        return self

    def source(self, path: str | Path, tagged: bool = True) -> Conll:
        return Conll(path, self.column, word_column=self.word_column, tagged=tagged)

    def store(self, source: Conll, lexicon: Lexicon, max_length: int | None = None) -> ExampleStore:
        sentences = TaggedSentences(source, lexicon, max_length, self.characters != "none")
        return keep_examples(sentences, self.cache_folder)


class Tagger(CombinedTask):
    """words and their characters → layers → a score for each tag → the best tags.

    >>> from carousel.data import Vocabulary
    >>> from carousel.tasks.tag.examples import Lexicon
    >>> words = Vocabulary.train(["ada sat"], "word"), Vocabulary.train(["Ada sat"])
    >>> lexicon = Lexicon(*words, ["O", "B-PER", "I-PER"], "iob2", "iob2", frozenset())
    >>> model = Tagger(TagSettings(train="names.conll"), lexicon).eval()
    >>> model.crf
    CRF(3 tags, 8 transitions allowed)
    >>> len(model.predict("Ada sat").tags)
    2
    """

    name = "tag"
    help = """Train a tagger on sentences in columns, one word a line: parts of speech, names, chunks.

    \b
    carousel train tag train.conllu --dev dev.conllu --column upos --out run
    carousel train tag names.conll --dev dev.conll --out run         # the last column has the tags
    carousel train tag chunks.txt --column 3 --output crf --train-scheme iob2 --out run
    carousel train tag train.conllu --characters cnn --cell gru --layers 2 --out run

    Tags such as B-PER are parts of spans: their scheme (IOB1, IOB2, BIOES) is found, and a CRF keeps to its rules.
    Then: carousel eval run dev.conllu, carousel predict run sentences.txt."""
    Settings = TagSettings
    unit = "words"
    extensions = (".conll", ".conllu", ".bio", ".iob")
    predict_extensions = (".conll", ".conllu")
    predict_options = {
        "n_best": Option(int, "Also the next best taggings.", "N", 1),
        "conll": Option(
            bool, "The file has one word on each line, as files named .conll and .conllu.", reads_file=True
        ),
    }

    def __init__(self, settings: TagSettings, lexicon: Lexicon, context: ContextEmbedder | None = None) -> None:
        super().__init__()
        self.settings = s = settings
        self.lexicon = replace(lexicon, context=None if context is None else context.wordbook)
        self.context = context
        self.embedder = s.word_embedder(lexicon.words, s.variational)
        self.shapes = s.shapes(lexicon.characters)
        self.drop_shapes = SequenceDropout(s.dropout, s.variational)
        self.layers = s.encoder(s.embedding + sum(part.size for part in (self.shapes, context) if part is not None))
        self.drop = SequenceDropout(s.dropout, s.variational)
        self.output = nn.Linear(s.encoded, len(lexicon.tags))
        spans = lexicon.scheme is not None
        self.crf: CRF | None = None
        if s.output == "crf" or (s.output == "auto" and spans):
            masks = [torch.from_numpy(mask) for mask in legal(lexicon.tags, lexicon.scheme)]
            self.crf = CRF(len(lexicon.tags), *masks)

    # ---------------------------------------------------------------- the network

    def inputs(self, batch: ExampleBatch) -> Tensor:
        """What the layers read, (T, B, features)."""
        x = self.embedder(batch.tokens)
        if self.shapes is not None:
            assert batch.characters is not None and batch.spelling is not None
            shapes = self.shapes(batch.characters, batch.spelling, batch.mask)
            x = torch.cat((x, self.drop_shapes(shapes)), 2)
        if self.context is not None:
            x = torch.cat((x, self.context(batch.context)), 2)
        return x

    def read(self, batch: ExampleBatch) -> Tensor:
        """What the output layer sees, (T, B, directions · hidden)."""
        y, _ = self.layers(self.inputs(batch), lengths=batch.lengths)
        return self.drop(y)

    def emissions(self, batch: ExampleBatch) -> Tensor:
        """A score for each tag of each word, (T, B, K); without a CRF, its log-probability."""
        scores = self.output(self.read(batch))
        return scores if self.crf is not None else scores.log_softmax(2)

    # ---------------------------------------------------------------- training

    def loss(self, batch: ExampleBatch) -> Loss:
        """Minus the log-probability of the tags, for each word."""
        assert batch.labels is not None
        words = int(batch.lengths.sum())
        x = self.read(batch)
        if self.crf is not None:
            return Loss(self.crf.loss(self.output(x), batch.labels, batch.lengths).sum() / words, words)
        smooth = self.settings.label_smoothing
        weight, bias = self.output.weight, self.output.bias
        mean = linear_cross_entropy(x, weight, batch.labels, bias, ignore_index=NO_LABEL, label_smoothing=smooth)
        return Loss(mean, words)

    @property
    def info(self) -> dict[str, Any]:
        return {"words": self.lexicon.words, "tags": self.lexicon.tags, "embedder": self.context or ""}

    def metric(self) -> TagMeter:
        return TagMeter(self)

    # ---------------------------------------------------------------- use

    def predict(self, sentences: str | Iterable[str | Sequence[str]], n_best: int = 1) -> Any:
        """The tags of a sentence, or of each of several, given as text with spaces between words, or as lists of words.

        `n_best` also gives the next best taggings of each.
        """
        if isinstance(sentences, str):
            return next(self.predictions([sentences], n_best))
        return TaggedList(self.predictions(sentences, n_best))

    @in_eval_mode
    @torch.no_grad()
    def predictions(self, sentences: Iterable[str | Sequence[str]], n_best: int = 1) -> Iterator[Tagged]:
        """As `predict`, for sentences that stream past; an empty one has no tags."""
        waiting = iter(sentences)
        while group := [s.split() if isinstance(s, str) else list(s) for s in islice(waiting, 1024)]:
            found: list[Any] = [None] * len(group)
            for part in _parts([len(words) for words in group]):
                columns = self.lexicon.encode([group[k] for k in part], self.shapes is not None)
                batch = collate(columns)
                for k, tagged in zip(part, self._decode(batch, [group[k] for k in part], n_best), strict=True):
                    found[k] = tagged
            yield from found

    def _decode(self, batch: ExampleBatch, sentences: list[list[str]], n: int) -> Iterator[Tagged]:
        if not len(batch.tokens):
            yield from (Tagged(words, [[]], [], [0.0], self.lexicon.scheme) for words in sentences)
            return
        emissions = self.emissions(batch)
        if self.crf is not None:
            emissions = emissions.double()  # log_prob is the difference of two large numbers
            best, scores = self.crf.n_best(emissions, n, batch.lengths)
            scores = scores - self.crf.log_partition(emissions, batch.lengths)
            confidence = self.crf.marginals(emissions, batch.lengths)
        else:
            best, scores = _independent(emissions, n, batch)
            confidence = emissions.exp()
        sure = confidence.gather(2, best[0].unsqueeze(2)).squeeze(2)
        for b, words in enumerate(sentences):
            numbers = best[:, : len(words), b].tolist()
            log_probs = [float(p) for p in scores[:, b] if p > -torch.inf]
            tags = [self._written(numbers[k]) for k in range(len(log_probs))]
            yield Tagged(words, tags, sure[: len(words), b].tolist(), log_probs, self.lexicon.scheme)

    def _written(self, numbers: Sequence[int]) -> list[str]:
        """Tags by their numbers, in the scheme of the training file."""
        tags = [self.lexicon.tags[k] for k in numbers]
        return tags if self.lexicon.written is None else convert(tags, self.lexicon.written)

    def predict_lines(self, lines: Iterable[str], *, n_best: int = 1) -> Iterator[dict[str, Any]]:
        return (found.as_dict() for found in self.predictions(lines, n_best))

    def predict_file(self, path: str | Path, *, n_best: int = 1, conll: bool = True) -> Iterator[dict[str, Any]]:
        """As `predict_lines`, for a file in columns, whose tags, if there are any, are not looked at."""
        words = (sentence.words for sentence in self.settings.source(path, tagged=False))
        return (found.as_dict() for found in self.predictions(words, n_best))

    def format(self, found: dict[str, Any], **options: Any) -> str:
        """CoNLL columns with tabs between: word, tag, confidence, and the tags of the next best taggings."""
        others = [other["tags"] for other in found.get("n_best", [])[1:]]
        columns = zip(found["words"], found["tags"], map(str, found["confidences"]), *others, strict=True)
        return "".join("\t".join(cells) + "\n" for cells in columns)

    @in_eval_mode
    def evaluate(self, path: str | Path) -> dict[str, Any]:
        """Accuracy, also on words unseen in training; precision, recall and F1 of each tag or type of span; confusions.

        Where tags are parts of spans, what is taken for what are the types of the spans that words are in.
        """
        meter, store = self._measure(path)
        found: dict[str, Any] = {
            **meter.result(),
            "accuracy_unseen": meter.unseen_right / max(1, meter.unseen),
            "unseen": meter.unseen,
            "words": store.tokens,
            "sentences": len(store),
        }
        if self.lexicon.scheme is None:
            found["tags"] = meter.confusion.classes()
        else:
            found |= {"illegal": store.facts["illegal"], "spans": {**meter.spans.types(), "all": meter.spans.overall()}}
        return {**found, "confusion": meter.kinds.table()}

    def batches(self, path: str | Path) -> ExampleBatches:
        return self.settings.reading_batches(self.settings.store(self.settings.source(path), self.lexicon))

    def layer_input(self, batch: ExampleBatch) -> LayerInput:
        tokens = texts_of(self.lexicon.words, batch.tokens, batch.lengths)
        return LayerInput("layers", self.layers, self.inputs(batch), batch.lengths, tokens)

    def _measure(self, path: str | Path) -> tuple[TagMeter, ExampleStore]:
        batches, meter = self.batches(path), self.metric()
        store = batches.store
        for batch in batches:
            rows = [store["unseen"][int(row)] for row in batch.rows]
            meter.add(batch, torch.from_numpy(np.concatenate(rows).astype(bool)))
        return meter, store

    def show(self, page: Any) -> None:
        if self.context is not None:
            self.context.show(page)
        if self.settings.dev is None:
            return
        meter, _ = self._measure(self.settings.dev)
        told = f"`{self.settings.dev}`: accuracy *{meter.confusion.accuracy:.2%}* of {meter.confusion.total:,} words"
        told += f", *{meter.unseen_right / max(1, meter.unseen):.2%}* of {meter.unseen:,} unseen in training."
        if self.lexicon.scheme is not None:
            page.heading("Spans").text("A span counts if its type, its first and its last word are all right.")
            rows = [
                [type, f"{row['precision']:.4f}", f"{row['recall']:.4f}", f"{row['f1']:.4f}", f"{row['count']:,}"]
                for type, row in {**meter.spans.types(), "all": meter.spans.overall()}.items()
            ]
            page.table(["type", "precision", "recall", "F1", "spans"], rows)
        show_confusion(page, meter.kinds, "What is taken for what", told)

    # ---------------------------------------------------------------- data

    @classmethod
    def prepare(cls, settings: TagSettings, network: Self | None = None) -> tuple[Self, Data]:
        s = settings
        source, dev_source = s.source(s.train), None if s.dev is None else s.source(s.dev)  # a missing file first
        learned = network is None
        if network is None:
            context = ContextEmbedder.find(s)
            lexicon, counts = cls._lexicon(s, source)
            if context is not None:
                lexicon.context = context.wordbook
        else:
            context, lexicon, counts = network.context, network.lexicon, TagCounts(source, s.scheme)
        store = s.store(source, lexicon, s.max_length)
        facts = {
            "training sentences": f"{s.train}: {counts.sentences:,} sentences, {store.tokens:,} words",
            "words": f"{len(lexicon.words):,} with a vector; {store.unknown / store.tokens:.2%} unknown",
            "tags": f"{len(lexicon.tags):,}" + (f", in {counts.scheme} in the file" if counts.scheme else ""),
        }
        notes = complaints(s.train, store.facts, lexicon.written)
        if context is not None:
            facts["embedder"] = context.describe(store)
        dev = None
        if dev_source is not None:
            held_out = s.store(dev_source, lexicon)
            dev = s.reading_batches(held_out)
            unknown = f"{held_out.unknown / held_out.tokens:.2%} unknown"
            facts["dev sentences"] = f"{s.dev}: {len(held_out):,} sentences, {held_out.tokens:,} words; {unknown}"
            notes += complaints(dev_source.path, held_out.facts, lexicon.written)
        network = network or cls(settings, lexicon, context)
        if learned:
            facts |= s.set_vectors(network.embedder, lexicon.words)
        return network, Data(s.training_batches(store), dev, facts, notes)

    @classmethod
    def _lexicon(cls, s: TagSettings, source: Conll) -> tuple[Lexicon, TagCounts]:
        counts = TagCounts(source, s.scheme)
        words = s.make_vocabulary(f"{s.read_text(word)} " * n for word, n in counts.words.items())
        return Lexicon.of(counts, words, s.train_scheme, s.lower), counts

    @classmethod
    def write_data(cls, data: Any, stem: Path, settings: Mapping[str, Any]) -> Path:
        """Sentences, each a list of (word, tag); or columns of lists of words and of tags."""
        return write_sentences(data, stem)

    @classmethod
    def check(cls, settings: TagSettings) -> TagCheck:
        """What is in the files that `settings` name, before training on them."""
        s = settings
        source = s.source(s.train)
        lexicon, counts = cls._lexicon(s, source)
        return check_tags(source, None if s.dev is None else s.source(s.dev), lexicon, counts, s.max_length)

    def save(self, folder: Path) -> None:
        self.lexicon.save(folder)
        if self.context is not None:
            self.context.keep(folder)

    @classmethod
    def load_assets(cls, settings: TagSettings, folder: Path) -> Self:
        return cls(settings, Lexicon.load(folder), ContextEmbedder.restore(settings, folder))


class TagMeter(Metric):
    """The share of words with the right tag, F1 of the spans if there are any, and the mean loss of a word."""

    def __init__(self, model: Tagger) -> None:
        self.model = model
        self.best = "accuracy" if model.lexicon.scheme is None else "span_f1"
        self.confusion = Confusion(model.lexicon.tags)
        self.spans = SpanScore()
        self.total = 0.0
        self.unseen = self.unseen_right = 0

    @torch.no_grad()
    def add(self, batch: ExampleBatch, unseen: Tensor | None = None) -> None:
        """Count a batch; `unseen` says of each word, sentence by sentence, whether it was not in training."""
        model = self.model
        assert batch.labels is not None
        emissions = model.emissions(batch)
        mask = batch.mask
        if model.crf is not None:
            tags = model.crf.best(emissions, batch.lengths).tags
            self.total += float(model.crf.loss(emissions, batch.labels, batch.lengths).sum())
        else:
            tags = emissions.argmax(2)
            gold = batch.labels.clamp(min=0).unsqueeze(2)
            self.total -= float(emissions.gather(2, gold).squeeze(2)[mask].sum())
        by_row = mask.T
        gold, said = batch.labels.T[by_row], tags.T[by_row]
        self.confusion.add(gold, said)
        if unseen is not None:
            self.unseen += int(unseen.sum())
            self.unseen_right += int((gold == said)[unseen].sum())
        if model.lexicon.scheme is not None:
            names = np.array(model.lexicon.tags, object)
            ends = batch.lengths.cumsum(0)[:-1].tolist()
            pairs = zip(np.split(names[gold.numpy()], ends), np.split(names[said.numpy()], ends), strict=True)
            for right, guess in pairs:
                self.spans.add(right.tolist(), guess.tolist())

    @property
    def kinds(self) -> Confusion:
        """What is taken for what, by tag; if tags are parts of spans, by type: which part it is does not count."""
        if self.model.lexicon.scheme is None:
            return self.confusion
        return self.confusion.merged([type_of(tag) for tag in self.confusion.labels])

    def merge(self, other: TagMeter) -> None:
        self.confusion.merge(other.confusion)
        self.spans.merge(other.spans)
        self.total += other.total
        self.unseen += other.unseen
        self.unseen_right += other.unseen_right

    def result(self) -> dict[str, float]:
        found = {"accuracy": self.confusion.accuracy, "loss": self.total / max(1, self.confusion.total)}
        return found if self.model.lexicon.scheme is None else {"span_f1": self.spans.f1, **found}


def _independent(emissions: Tensor, n: int, batch: ExampleBatch) -> Best:
    """The n best taggings where tags do not depend on each other: emissions (T, B, K) are log-probabilities."""
    if n == 1:
        found = emissions.max(2)
        return Best(found.indices[None], (found.values * batch.mask).sum(0)[None])
    crf = CRF(emissions.shape[2])  # one whose transitions all cost the same
    nn.init.zeros_(crf.transitions)
    return crf.n_best(emissions, n, batch.lengths)


def _parts(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Sentences of these lengths in groups, similar ones together, each of at most PLACES words, padding included."""
    part: list[int] = []
    for k in sorted(range(len(lengths)), key=lambda k: -lengths[k]):
        if part and (len(part) + 1) * lengths[part[0]] > PLACES:
            yield part
            part = []
        part.append(k)
    if part:
        yield part
