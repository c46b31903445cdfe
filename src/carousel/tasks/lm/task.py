"""The task `lm`: what comes next, for characters, words or BPE; line by line, or in running text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base import Task
from .settings import LanguageSettings

if TYPE_CHECKING:
    from ...report import Page
    from ...training import Data
    from .check import TextCheck
    from .data import LanguageAssets
    from .network import LanguageNetwork
    from .predictor import LanguageModel


class LanguageTask(Task):
    name = "lm"
    help = """Train a language model on a text file; afterwards it can be evaluated and can write.

    \b
    carousel train lm poems.txt --dev dev.txt --out run    # each line is one item
    carousel train lm play.txt --layout running --out run  # one stream of characters
    carousel train lm ptb.txt --layout sentences --tokens word --layers 2 --out run
    carousel train lm --out run --resume                   # resume an interrupted run
    carousel train lm --config run/config.yaml --seed 1 --out again

    Then: carousel eval run dev.txt, carousel generate run."""
    Settings = LanguageSettings
    commands = ("generate", "score")
    extensions = (".txt",)

    @classmethod
    def prepare(cls, settings: LanguageSettings, assets: LanguageAssets | None = None) -> tuple[LanguageAssets, Data]:
        from .data import prepare

        return prepare(settings, assets)

    @classmethod
    def load_assets(cls, settings: LanguageSettings, folder: Path) -> LanguageAssets:
        from .data import LanguageAssets

        return LanguageAssets.load(settings, folder)

    @classmethod
    def make_network(cls, settings: LanguageSettings, assets: LanguageAssets) -> LanguageNetwork:
        from .network import LanguageNetwork

        return LanguageNetwork(settings, assets)

    @classmethod
    def make_model(cls, network: LanguageNetwork, assets: LanguageAssets) -> LanguageModel:
        from .predictor import LanguageModel

        return LanguageModel(network, assets)

    @classmethod
    def report(cls, model: LanguageModel, page: Page) -> None:
        from .report import report

        report(model, page)

    @classmethod
    def write_data(cls, data: Any, stem: Path, settings: Mapping[str, Any]) -> Path:
        """Texts; with the layout `running` they may have line breaks in them."""
        from ...data.sources.memory import write_lines

        running = settings.get("layout", "lines") == "running"
        return write_lines(data, stem.with_suffix(".txt"), lambda text: text, running)

    @classmethod
    def check(cls, settings: LanguageSettings) -> TextCheck:
        """What is in the files that `settings` name, before training on them."""
        from .data import check

        return check(settings)
