"""The task `bilm`: a language model in both directions, for vectors of words in their context."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base import Task
from .settings import BilmSettings

if TYPE_CHECKING:
    from ...report import Page
    from ...training import Data
    from ..lm.check import TextCheck
    from .data import BilmAssets
    from .network import BilmNetwork
    from .predictor import BiLanguageModel


class Bilm(Task):
    name = "bilm"
    help = """Train a two-way language model on text, for vectors of words in their context.

    \b
    carousel train bilm text.txt --dev dev.txt --out bilm        # a sentence a line, spaces between words
    carousel train bilm train.conllu --dev dev.conllu --out bilm   # a word a line; its tags are not read
    carousel train bilm text.txt --characters none --cell gru --out bilm

    Then: carousel eval bilm dev.txt, carousel train tag names.conll --embedder bilm --out run."""
    Settings = BilmSettings
    commands = ("embed",)

    @classmethod
    def prepare(cls, settings: BilmSettings, assets: BilmAssets | None = None) -> tuple[BilmAssets, Data]:
        from .data import prepare

        return prepare(settings, assets)

    @classmethod
    def load_assets(cls, settings: BilmSettings, folder: Path) -> BilmAssets:
        from .data import BilmAssets

        return BilmAssets.load(settings, folder)

    @classmethod
    def make_network(cls, settings: BilmSettings, assets: BilmAssets) -> BilmNetwork:
        from .network import BilmNetwork

        return BilmNetwork(settings, assets)

    @classmethod
    def make_model(cls, network: BilmNetwork, assets: BilmAssets) -> BiLanguageModel:
        from .predictor import BiLanguageModel

        return BiLanguageModel(network, assets)

    @classmethod
    def report(cls, model: BiLanguageModel, page: Page) -> None:
        from .report import report

        report(model, page)

    @classmethod
    def write_data(cls, data: Any, stem: Path, settings: Mapping[str, Any]) -> Path:
        """Sentences, as text with spaces between words or as lists of words."""
        from ...data.sources.memory import write_lines

        return write_lines(data, stem.with_suffix(".txt"), lambda one: one if isinstance(one, str) else " ".join(one))

    @classmethod
    def check(cls, settings: BilmSettings) -> TextCheck:
        """What is in the files that `settings` name, before training on them."""
        from .data import check

        return check(settings)
