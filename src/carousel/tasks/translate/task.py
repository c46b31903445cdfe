"""The task `translate`: a text and its translation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..base import Option, PackagedTask
from .settings import TranslateSettings


class Translate(PackagedTask):
    name = "translate"
    contents = ("translations",)
    help = """Train a translator on a text and its translation: two line-aligned files, or a TSV of pairs.

    \b
    carousel train translate train.en train.de --dev dev.en dev.de --out run
    carousel train translate pairs.tsv --dev dev.tsv --shared \\
        --vocabulary-size 10000 --out run
    # the other way
    carousel train translate pairs.tsv --source-column 2 --target-column 1 \\
        --out run
    carousel train translate train.en train.de --attention dot --cell gru \\
        --input-feeding --out run

    Then: carousel translate run texts.txt, carousel eval run dev.en dev.de."""
    Settings = TranslateSettings
    num_files = 2
    commands = ("translate",)
    evaluate_options = {
        "num_beams": Option(int, "Beam size; default: 5.", "N", 1),
        "worst": Option(int, "How many of the worst sentences to show; default: 5.", "N", 0),
    }
    assets, network, predictor = "TranslateAssets", "TranslatorNetwork", "Translator"

    @classmethod
    def write_data(cls, data: Any, stem: Path, settings: Mapping[str, Any]) -> Path | tuple[Path, ...]:
        """(source, target) pairs, or two columns."""
        from ...data.sources.memory import write_pairs

        return write_pairs(data, stem, (".source", ".target"))
