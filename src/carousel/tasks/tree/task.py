"""The task `tree`: a label for every node of a tree, from the words below it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..base import Option, PackagedTask
from .settings import TreeSettings


class TreeTask(PackagedTask):
    name = "tree"
    contents = ("trees",)
    help = """Train on trees with labels at their nodes: Penn brackets, or dependency trees in CoNLL-U.

    \b
    # (3 (2 The) (4 (3 actors) (4 shine)))
    carousel train tree train.txt --dev dev.txt --out run
    carousel train tree train.txt --classes "negative=0,1;positive=3,4" \\
        --out run
    carousel train tree train.txt --composition recursive --train-on root \\
        --out run
    carousel train tree train.conllu --composition child-sum --out run

    Then: carousel eval run dev.txt, carousel predict run trees.txt."""
    Settings = TreeSettings
    extensions = (".ptb", ".mrg", ".trees", ".tree")
    predict_extensions = (".conllu",)
    predict_options = {"draw": Option(bool, "Each tree as a drawing.")}
    assets, network, predictor = "TreeAssets", "TreeNetwork", "TreeModel"
    ensemble = "TreeEnsemble"

    @classmethod
    def write_data(cls, data: Any, stem: Path, settings: Mapping[str, Any]) -> Path:
        """Trees in brackets, as text or as `Tree`."""
        from ...data.sources.brackets import Tree
        from ...data.sources.memory import write_lines

        return write_lines(data, stem.with_suffix(".txt"), lambda tree: str(tree) if isinstance(tree, Tree) else tree)
