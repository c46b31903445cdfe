"""The task `translate`: a text and its translation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base import Option, Task
from .settings import TranslateSettings

if TYPE_CHECKING:
    from ...report import Page
    from ...training import Data
    from .check import PairCheck
    from .data import TranslateAssets
    from .network import TranslatorNetwork
    from .predictor import Translator


class Translate(Task):
    name = "translate"
    help = """Train a translator on a text and its translation: two files of as many lines, or a TSV of pairs.

    \b
    carousel train translate train.en train.de --dev dev.en dev.de --out run
    carousel train translate pairs.tsv --dev dev.tsv --shared --vocabulary-size 10000 --out run
    carousel train translate pairs.tsv --source-column 2 --target-column 1 --out run  # the other way
    carousel train translate train.en train.de --attention dot --cell gru --input-feeding --out run

    Then: carousel translate run texts.txt, carousel eval run dev.en dev.de."""
    Settings = TranslateSettings
    num_files = 2
    commands = ("translate",)
    evaluate_options = {
        "num_beams": Option(int, "Beam size; default: 5.", "N", 1),
        "worst": Option(int, "How many of the worst sentences to show; default: 5.", "N", 0),
    }

    @classmethod
    def prepare(
        cls, settings: TranslateSettings, assets: TranslateAssets | None = None
    ) -> tuple[TranslateAssets, Data]:
        from .data import prepare

        return prepare(settings, assets)

    @classmethod
    def load_assets(cls, settings: TranslateSettings, folder: Path) -> TranslateAssets:
        from .data import TranslateAssets

        return TranslateAssets.load(settings, folder)

    @classmethod
    def make_network(cls, settings: TranslateSettings, assets: TranslateAssets) -> TranslatorNetwork:
        from .network import TranslatorNetwork

        return TranslatorNetwork(settings, assets)

    @classmethod
    def make_model(cls, network: TranslatorNetwork, assets: TranslateAssets) -> Translator:
        from .predictor import Translator

        return Translator(network, assets)

    @classmethod
    def report(cls, model: Translator, page: Page) -> None:
        from .report import report

        report(model, page)

    @classmethod
    def write_data(cls, data: Any, stem: Path, settings: Mapping[str, Any]) -> Path | tuple[Path, ...]:
        """(source, target) pairs, or two columns."""
        from ...data.sources.memory import write_pairs

        return write_pairs(data, stem, (".source", ".target"))

    @classmethod
    def check(cls, settings: TranslateSettings) -> PairCheck:
        """What is in the files that `settings` name, before training on them."""
        from .data import check

        return check(settings)
