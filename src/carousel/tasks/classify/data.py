"""The classifier's data: tables to examples, the vocabulary and the labels that a run keeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Self

from ...data import Vocabulary
from ...data.sources.tables import Table
from ...data.stores.examples import ExampleStore, build_store
from ...data.text.form import TextForm
from ...errors import RunError, SettingsError
from ...files import write_json
from ...parsing import parse_number
from ...training import Data
from ...training.run import read_json
from ...wording import counted, setting
from ..shared.checks import unknown_remedies
from ..shared.context import ContextAssets, LabelledAssets
from ..shared.held_out import Sources, open_sources
from ..shared.reading import load_reading, usual_of
from ..shared.vectors import load_vocabulary, save_vocabulary
from .check import TableCheck, check_tables, header_doubt
from .encoder import ClassifyEncoder
from .examples import LabelledTexts
from .settings import ClassifySettings
from .targets import Target

if TYPE_CHECKING:  # data is read without torch
    from torch import Tensor

    from ...networks.ngrams import NGramClassifier

LINEAR = "ngrams.safetensors"  # in the run directory
SCALE = "scale.json"  # the mean and the standard deviation of numbers
MOST_TEXTS = 200_000  # that the linear model is fitted to


@dataclass
class ClassifyAssets(LabelledAssets):
    """What a run keeps: the vocabulary, the labels in their order, the words of an embedder."""

    vocabulary: Vocabulary
    target: Target
    weights: Tensor | None = None  # of the classes in the loss, (classes,); while training
    linear: NGramClassifier | None = None  # trained apart, and mixed in

    def save(self, folder: Path) -> None:
        super().save(folder)
        save_vocabulary(folder, self.vocabulary)
        write_json(folder / "labels.json", self.labels, indent=0)
        if self.target.kind == "number":
            write_json(folder / SCALE, [self.target.mean, self.target.deviation])
        if self.linear is not None:
            self.linear.save(folder / LINEAR)

    @classmethod
    def load(cls, settings: ClassifySettings, folder: Path) -> Self:
        from ...networks.ngrams import NGramClassifier

        target = Target(settings.target, read_json(folder / "labels.json", list[str]), settings.label_separator)
        if target.kind == "number":
            target.mean, target.deviation = read_json(folder / SCALE, list[float])
        context = ContextAssets.load(settings, folder)
        vocabulary = load_vocabulary(settings, folder)
        linear = NGramClassifier.load(folder / LINEAR, vocabulary.beyond) if settings.mixes else None
        return cls(vocabulary, target, linear=linear, context=context, **load_reading(folder))

    @property
    def labels(self) -> list[str]:
        return self.target.labels

    def encoder(self, settings: ClassifySettings, training: bool = False) -> ClassifyEncoder:
        """Texts to integers; `training` texts are those that the form and the linear model were learned from."""
        encoder = ClassifyEncoder(
            self.vocabulary, settings.max_length, lower=settings.lower, context=self.context_words, form=self.form,
            training=training,
        )  # fmt: skip
        encoder.linear = None if training else self.linear
        return encoder


def open_table(settings: ClassifySettings, path: str | Path | Table, labelled: bool = True) -> Table:
    if isinstance(path, Table):
        return path
    separator = settings.label_separator if settings.target == "labels" else None
    return Table(path, settings.text_column, settings.label_column, labelled=labelled, separator=separator)


def open_data(settings: ClassifySettings) -> Sources[Table]:
    """The tables to train on and for validation."""
    return open_sources(settings, lambda path: open_table(settings, path), "texts")


def training_tables(settings: ClassifySettings, train: Table) -> list[Table]:
    """The table to train on, and `extra` examples, without those texts that are held out."""
    if settings.extra is None:
        return [train]
    extra = open_table(settings, settings.extra)
    return [train, extra if train.part is None else extra.take(train.part)]


def store_examples(
    settings: ClassifySettings, assets: ClassifyAssets, tables: Sequence[Table], training: bool = False
) -> ExampleStore:
    """The examples of some tables as integers."""
    examples = LabelledTexts(tables, assets.encoder(settings, training), assets.target)
    return build_store(examples, settings.cache_folder)


def learn_vocabulary(settings: ClassifySettings, tables: Sequence[Table]) -> tuple[Vocabulary, TextForm | None]:
    """The vocabulary and the form of the texts to train on."""
    s = settings
    form = s.learn_form(row.text for row in tables[0])
    texts = (row.text if form is None else form.of_training(row.text) for table in tables for row in table)
    return s.make_vocabulary(map(s.read_text, texts), s.tokens), form


def fit_linear(settings: ClassifySettings, assets: ClassifyAssets, tables: Sequence[Table]) -> NGramClassifier:
    """The linear model of the texts to train on; of more than `MOST_TEXTS`, of as many at equal distances."""
    import torch

    from ...networks.ngrams import NGramClassifier

    total = sum(1 for table in tables for _ in table)
    step = max(1, -(-total // MOST_TEXTS))
    rows = [(row.text, row.label) for row in islice(chain.from_iterable(tables), 0, None, step)]
    numbers = {label: k for k, label in enumerate(assets.labels)}
    encoder = assets.encoder(settings, training=True)
    texts = encoder.shorten(encoder.prepare([text for text, _ in rows]))
    labels = torch.tensor([numbers[label] for _, label in rows])
    return NGramClassifier.fit(texts, labels, len(assets.labels), assets.weights, assets.vocabulary.beyond)


def prepare(settings: ClassifySettings, assets: ClassifyAssets | None = None) -> tuple[ClassifyAssets, Data]:
    """The assets of a new run, or those given, and the batches of its data."""
    s = settings
    sources = open_data(s)
    tables, dev_table = training_tables(s, sources.train), sources.dev  # files are checked first
    target, count = Target.learn(s, sources.whole)
    texts = sum(1 for _ in sources.whole) if target.kind == "labels" else count.total()
    weights = class_weights(s.class_weights, count, texts if target.kind == "labels" else None)
    if assets is None:
        vocabulary, form = learn_vocabulary(s, tables)
        vectors = s.read_vectors(vocabulary)
        assets = ClassifyAssets(vocabulary, target, form=form, context=ContextAssets.find(s), vectors=vectors)
        assets.usual = usual_of(assets.encoder(s), (row.text for row in dev_table or tables[0]))
    elif target != assets.target:
        raise RunError(
            f"{s.train}: its labels are not those of the run; restore it, or start over with {setting('force', True)}"
        )
    assets.weights = weights
    store = store_examples(s, assets, tables, training=True)
    if s.mixes and assets.linear is None:
        assets.linear = fit_linear(s, assets, tables)
    unknown = f"{store.unknown / store.tokens:.2%} unknown"
    info = {
        "training texts": _describe(s, s.train, store),
        **_describe_target(target, count, texts),
        "vocabulary": f"{len(assets.vocabulary):,} {s.tokens} tokens; {unknown}",
        **({} if assets.linear is None else {"linear model": f"{len(assets.linear.names):,} n-grams"}),
        **assets.describe_context(store),
        **s.describe_vectors(assets.vocabulary, assets.vectors),
    }
    dev = None
    if dev_table is not None:
        held_out = store_examples(s, assets, [dev_table])
        dev = s.reading_batches(held_out)
        info["dev texts"] = f"{_describe(s, sources.name, held_out)}; {held_out.unknown / held_out.tokens:.2%} unknown"
    layout = sources.whole.layout()
    doubt = header_doubt(sources.whole, count) if target.kind == "class" else None
    notes = [*layout.doubts, *([] if doubt is None else [doubt]), *s.cut_notes(store)]
    return assets, sources.describe(Data(s.training_batches(store), dev, {**info, "columns": layout.reading}, notes))


def class_weights(given: str, count: Counter[str], texts: int | None = None) -> Tensor | None:
    """What an example of each class counts, (classes,); None if all count the same. Of labels of which a text may have
    several, what a text that has the label counts beside one that has it not; then there are so many `texts`."""
    import torch

    labels = sorted(count)
    if given == "none":
        return None
    if given == "balanced" and texts is not None:
        return torch.tensor([(texts - count[label]) / count[label] for label in labels])
    if given == "balanced":  # 1 on average over the examples
        return torch.tensor([count.total() / (len(labels) * count[label]) for label in labels])
    weights: dict[str, float] = {}
    for pair in given.split(","):
        label, _, weight = pair.rpartition("=")
        number = parse_number(weight)
        weights[label.strip()] = -1 if number is None else number
    if set(weights) != set(labels) or not all(0 <= weight < float("inf") for weight in weights.values()):
        example = ",".join(f"{label}=1" for label in labels[:3]) + (",…" if len(labels) > 3 else "")
        raise SettingsError(f"{setting('class_weights')}: write none, balanced or {example}; got {given!r}")
    return torch.tensor([weights[label] for label in labels])


def check(settings: ClassifySettings) -> TableCheck:
    """What is in the files that `settings` name."""
    s = settings
    tables = training_tables(s, open_table(s, s.train))
    dev = None if s.dev is None else open_table(s, s.dev)
    vocabulary, form = learn_vocabulary(s, tables)
    extra = tables[1] if len(tables) > 1 else None
    target, _ = Target.learn(s, tables[0]) if s.target != "class" else (Target(), None)
    return check_tables(
        tables[0], dev, vocabulary, s.max_length, s.reader(form), extra=extra, target=target, chunk=s.chunk,
        remedies=tuple(unknown_remedies(s)),
    )  # fmt: skip


def _describe_target(target: Target, count: Counter[str], texts: int) -> dict[str, str]:
    """What is learned, for the report."""
    if target.kind == "number":
        return {"numbers": f"mean {target.mean:.4g}, standard deviation {target.deviation:.4g}"}
    name = "classes" if target.kind == "class" else "labels"
    return {name: ", ".join(f"{label} ({count[label] / texts:.1%})" for label in target.labels[:50])}


def _describe(settings: ClassifySettings, path: Path | str, store: ExampleStore) -> str:
    cut, long = store.info["cut"], int((store.lengths > settings.chunk).sum())
    note = f"; {cut:,} cut off after {settings.max_length:,} ({setting('max_length')})" if cut else ""
    if long:
        note += f"; {counted(long, 'long one is', 'long ones are')} read in chunks of at most {settings.chunk:,}"
    return f"{path}: {counted(len(store), 'text')}, {counted(store.tokens, 'token')}{note}"
