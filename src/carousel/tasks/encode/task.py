"""The task `encode`: a vector for a text, learnt from pairs of texts with a class or a score."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base import Task
from .settings import EncodeSettings

if TYPE_CHECKING:
    from ...report import Page
    from ...training import Data
    from ..classify.check import TableCheck
    from .data import EncodeAssets
    from .network import EncoderNetwork
    from .predictor import SentenceEncoder


class Encode(Task):
    name = "encode"
    help = """Train a sentence encoder on pairs of texts with a class or a score: TSV, CSV or JSONL.

    \b
    carousel train encode pairs.tsv --dev dev.tsv --label-column relatedness_score --out run
    carousel train encode snli.tsv --target class --hidden 300 --out run    # entailment: a class
    carousel train encode pairs.tsv --pooling attention --cell gru --out run

    Then: carousel embed run texts.txt --out vectors.npy, carousel similar run texts.txt --to "a dog runs"."""
    Settings = EncodeSettings
    commands = ("embed", "similar")
    predict_extensions = (".tsv", ".csv", ".jsonl", ".ndjson", ".tab")

    @classmethod
    def prepare(cls, settings: EncodeSettings, assets: EncodeAssets | None = None) -> tuple[EncodeAssets, Data]:
        from .data import prepare

        return prepare(settings, assets)

    @classmethod
    def load_assets(cls, settings: EncodeSettings, folder: Path) -> EncodeAssets:
        from .data import EncodeAssets

        return EncodeAssets.load(settings, folder)

    @classmethod
    def make_network(cls, settings: EncodeSettings, assets: EncodeAssets) -> EncoderNetwork:
        from .network import EncoderNetwork

        return EncoderNetwork(settings, assets)

    @classmethod
    def make_model(cls, network: EncoderNetwork, assets: EncodeAssets) -> SentenceEncoder:
        from .predictor import SentenceEncoder

        return SentenceEncoder(network, assets)

    @classmethod
    def report(cls, model: SentenceEncoder, page: Page) -> None:
        from .report import report

        report(model, page)

    @classmethod
    def write_data(cls, data: Any, stem: Path, settings: Mapping[str, Any]) -> Path:
        """(first text, second text, label or score), or columns."""
        from ...data.sources.memory import write_table

        return write_table(data, stem, ("first", "second", "label"))

    @classmethod
    def check(cls, settings: EncodeSettings) -> TableCheck:
        """What is in the files that `settings` name, before training on them; a pair counts as one text."""
        from .data import check

        return check(settings)
