"""The task `lm`: what comes next, for characters, words or BPE; line by line, or in running text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..base import PackagedTask
from .settings import LanguageSettings


class LanguageTask(PackagedTask):
    name = "lm"
    help = """Train a language model on a text file; then evaluate it and generate text.

    \b
    # each line is one item
    carousel train lm poems.txt --dev dev.txt --out run
    # one stream of characters
    carousel train lm play.txt --layout running --out run
    carousel train lm ptb.txt --layout sentences --tokens word --layers 2 \\
        --out run
    # resume an interrupted run
    carousel train lm --out run --resume
    carousel train lm --config run/config.yaml --seed 1 --out again

    Then: carousel eval run dev.txt, carousel generate run."""
    Settings = LanguageSettings
    commands = ("generate", "score")
    extensions = (".txt",)
    assets, network, predictor = "LanguageAssets", "LanguageNetwork", "LanguageModel"

    @classmethod
    def write_data(cls, data: Any, stem: Path, settings: Mapping[str, Any]) -> Path:
        """Texts; with the layout `running` they may have line breaks in them."""
        from ...data.sources.memory import write_lines

        running = settings.get("layout", "lines") == "running"
        return write_lines(data, stem.with_suffix(".txt"), lambda text: text, running)
