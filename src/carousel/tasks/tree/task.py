"""The task `tree`: a label for every node of a tree, from the words below it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base import Option, Task
from .settings import TreeSettings

if TYPE_CHECKING:
    from ...report import Page
    from ...training import Data
    from .check import TreeCheck
    from .data import TreeAssets
    from .network import TreeNetwork
    from .predictor import TreeModel


class TreeTask(Task):
    name = "tree"
    help = """Train on trees with labels at their nodes: Penn brackets, or dependency trees in CoNLL-U.

    \b
    carousel train tree train.txt --dev dev.txt --out run          # (3 (2 The) (4 (3 actors) (4 shine)))
    carousel train tree train.txt --classes "negative=0,1;positive=3,4" --out run
    carousel train tree train.txt --composition recursive --train-on root --out run
    carousel train tree train.conllu --composition child-sum --out run

    Then: carousel eval run dev.txt, carousel predict run trees.txt."""
    Settings = TreeSettings
    extensions = (".ptb", ".mrg", ".trees", ".tree")
    predict_extensions = (".conllu",)
    predict_options = {"draw": Option(bool, "Each tree as a drawing.")}

    @classmethod
    def prepare(cls, settings: TreeSettings, assets: TreeAssets | None = None) -> tuple[TreeAssets, Data]:
        from .data import prepare

        return prepare(settings, assets)

    @classmethod
    def load_assets(cls, settings: TreeSettings, folder: Path) -> TreeAssets:
        from .data import TreeAssets

        return TreeAssets.load(settings, folder)

    @classmethod
    def make_network(cls, settings: TreeSettings, assets: TreeAssets) -> TreeNetwork:
        from .network import TreeNetwork

        return TreeNetwork(settings, assets)

    @classmethod
    def make_model(cls, network: TreeNetwork, assets: TreeAssets) -> TreeModel:
        from .predictor import TreeModel

        return TreeModel(network, assets)

    @classmethod
    def report(cls, model: TreeModel, page: Page) -> None:
        from .report import report

        report(model, page)

    @classmethod
    def write_data(cls, data: Any, stem: Path, settings: Mapping[str, Any]) -> Path:
        """Trees in brackets, as text or as `Tree`."""
        from ...data.sources.memory import write_lines

        return write_lines(data, stem.with_suffix(".txt"), str)

    @classmethod
    def check(cls, settings: TreeSettings) -> TreeCheck:
        """What is in the files that `settings` name, before training on them."""
        from .data import check

        return check(settings)
