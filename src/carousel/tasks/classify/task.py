"""The task `classify`: one label for a text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base import Task
from .settings import ClassifySettings

if TYPE_CHECKING:
    from ...report import Page
    from ...training import Data
    from .check import TableCheck
    from .data import ClassifyAssets
    from .network import ClassifierNetwork
    from .predictor import Classifier


class Classify(Task):
    name = "classify"
    help = """Train a classifier on a table of texts and labels: TSV, CSV or JSONL.

    \b
    carousel train classify reviews.tsv --dev dev.tsv --out run     # two columns: text, label
    carousel train classify tweets.csv --text-column tweet --label-column topic --out run
    carousel train classify log.tsv --text-column 3 --label-column 1 --class-weights balanced --out run
    carousel train classify reviews.tsv --vectors glove.txt --embedding 300 --lower --out run
    carousel train classify names.tsv --tokens character --cell gru --pooling last --out run

    Then: carousel eval run dev.tsv, carousel predict run texts.txt."""
    Settings = ClassifySettings
    extensions = predict_extensions = (".tsv", ".csv", ".jsonl", ".ndjson", ".tab")

    @classmethod
    def prepare(cls, settings: ClassifySettings, assets: ClassifyAssets | None = None) -> tuple[ClassifyAssets, Data]:
        from .data import prepare

        return prepare(settings, assets)

    @classmethod
    def load_assets(cls, settings: ClassifySettings, folder: Path) -> ClassifyAssets:
        from .data import ClassifyAssets

        return ClassifyAssets.load(settings, folder)

    @classmethod
    def make_network(cls, settings: ClassifySettings, assets: ClassifyAssets) -> ClassifierNetwork:
        from .network import ClassifierNetwork

        return ClassifierNetwork(settings, assets)

    @classmethod
    def make_model(cls, network: ClassifierNetwork, assets: ClassifyAssets) -> Classifier:
        from .predictor import Classifier

        return Classifier(network, assets)

    @classmethod
    def report(cls, model: Classifier, page: Page) -> None:
        from .report import report

        report(model, page)

    @classmethod
    def write_data(cls, data: Any, stem: Path, settings: Mapping[str, Any]) -> Path:
        """(text, label) pairs, or columns."""
        from ...data.sources.memory import write_table

        return write_table(data, stem, ("text", "label"))

    @classmethod
    def check(cls, settings: ClassifySettings) -> TableCheck:
        """What is in the files that `settings` name, before training on them."""
        from .data import check

        return check(settings)
