"""The sentence encoder's data: tables of pairs to examples, the vocabulary and the target that a run keeps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from ...data import Vocabulary
from ...data.sources.tables import PairTable
from ...data.stores.examples import ExampleStore, build_store
from ...data.text.encoder import TextEncoder
from ...data.text.form import TextForm
from ...files import write_json
from ...training import Data
from ...training.run import read_json
from ..classify.check import TableCheck, check_tables
from ..shared.checks import unknown_remedies
from ..shared.context import ContextAssets, LabelledAssets
from ..shared.held_out import Sources, open_sources
from ..shared.reading import load_reading, usual_of
from ..shared.vectors import load_vocabulary, save_vocabulary
from .examples import JoinedPairs, LabelledPairs, PairBatches, Target
from .settings import EncodeSettings


@dataclass
class EncodeAssets(LabelledAssets):
    """What a run keeps: the vocabulary, the classes or the range of scores, the words of an embedder."""

    vocabulary: Vocabulary
    target: Target

    def save(self, folder: Path) -> None:
        super().save(folder)
        save_vocabulary(folder, self.vocabulary)
        write_json(folder / "labels.json", asdict(self.target))

    @classmethod
    def load(cls, settings: EncodeSettings, folder: Path) -> Self:
        target = read_json(folder / "labels.json", Target)
        context = ContextAssets.load(settings, folder)
        return cls(load_vocabulary(settings, folder), target, context=context, **load_reading(folder))

    def encoder(self, settings: EncodeSettings, training: bool = False) -> TextEncoder:
        """Texts to integers; `training` texts are those that the form was learned from."""
        return settings.text_encoder(self.vocabulary, self.form, self.context_words, training)


def open_table(settings: EncodeSettings, path: str | Path | PairTable, labelled: bool = True) -> PairTable:
    if isinstance(path, PairTable):
        return path
    s = settings
    return PairTable(path, s.first_column, s.second_column, s.label_column, labelled=labelled)


def open_data(settings: EncodeSettings) -> Sources[PairTable]:
    """The pairs to train on and for validation."""
    return open_sources(settings, lambda path: open_table(settings, path), "pairs")


def learn_vocabulary(settings: EncodeSettings, table: PairTable) -> tuple[Vocabulary, TextForm | None]:
    """The tokens of the texts to train on, and their form."""
    form = settings.learn_form(texts_of_pairs(table))
    return settings.make_vocabulary(map(settings.reader(form), texts_of_pairs(table)), settings.tokens), form


def learn_assets(settings: EncodeSettings, sources: Sources[PairTable]) -> EncodeAssets:
    """The target, and the vocabulary and the form of the texts to train on."""
    target = Target.learn(sources.whole, settings.target)
    vocabulary, form = learn_vocabulary(settings, sources.train)
    vectors = settings.read_vectors(vocabulary)
    assets = EncodeAssets(vocabulary, target, form=form, context=ContextAssets.find(settings), vectors=vectors)
    assets.usual = usual_of(assets.encoder(settings), texts_of_pairs(sources.dev or sources.train))
    return assets


def texts_of_pairs(table: PairTable) -> Iterator[str]:
    return (text for row in table for text in (row.first, row.second))


def store_pairs(
    settings: EncodeSettings, assets: EncodeAssets, table: PairTable, training: bool = False
) -> ExampleStore:
    """The pairs of a table as integers."""
    pairs = LabelledPairs(table, assets.encoder(settings, training), assets.target)
    return build_store(pairs, settings.cache_folder)


def reading_batches(store: ExampleStore) -> PairBatches:
    """All pairs once, in an order that does not change."""
    return PairBatches(store, tokens=16_384, sequences=256, shuffle=False)


def prepare(settings: EncodeSettings, assets: EncodeAssets | None = None) -> tuple[EncodeAssets, Data]:
    """The assets of a new run, or those given, and the batches of its data."""
    s = settings
    sources = open_data(s)  # files are checked first
    assets = assets or learn_assets(s, sources)
    store = store_pairs(s, assets, sources.train, training=True)
    info = {
        "training pairs": f"{s.train}: {len(store):,}",
        "target": str(assets.target),
        "vocabulary": f"{len(assets.vocabulary):,} {s.tokens} tokens",
        **assets.describe_context(store),
        **s.describe_vectors(assets.vocabulary, assets.vectors),
    }
    dev = None
    if sources.dev is not None:
        held_out = store_pairs(s, assets, sources.dev)
        dev = reading_batches(held_out)
        rate = held_out.unknown / held_out.tokens
        info["dev pairs"] = f"{sources.name}: {len(held_out):,}; {rate:.2%} of the words unknown"
    train = PairBatches(store, tokens=s.batch_tokens, sequences=s.batch_size, seed=s.seed)
    layout = sources.whole.layout()
    info["columns"] = layout.reading
    return assets, sources.describe(Data(train, dev, info, [*layout.doubts, *s.cut_notes(store)]))


def check(settings: EncodeSettings) -> TableCheck:
    """What is in the files that `settings` name; a pair counts as one text."""
    s = settings
    table, dev_table = open_table(s, s.train), None if s.dev is None else open_table(s, s.dev)
    target = Target.learn(table, s.target)
    dev = None if dev_table is None else JoinedPairs(dev_table, target)
    vocabulary, form = learn_vocabulary(s, table)
    return check_tables(
        JoinedPairs(table, target), dev, vocabulary, 2 * s.max_length, s.reader(form), weighted=False, unit="pair",
        label="score about" if target.is_score else "label", remedies=tuple(unknown_remedies(s)),
    )  # fmt: skip
