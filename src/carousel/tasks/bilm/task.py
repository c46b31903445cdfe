"""The task `bilm`: a language model in both directions, for vectors of words in their context."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..base import PackagedTask
from .settings import BilmSettings


class Bilm(PackagedTask):
    name = "bilm"
    help = """Train a bidirectional language model on text, for contextual word vectors.

    \b
    # one sentence per line, words separated by spaces
    carousel train bilm text.txt --dev dev.txt --out bilm
    # one word per line; tags are ignored
    carousel train bilm train.conllu --dev dev.conllu --out bilm
    carousel train bilm text.txt --characters none --cell gru --out bilm

    Then: carousel eval bilm dev.txt, carousel train tag names.conll --embedder bilm --out run."""
    Settings = BilmSettings
    commands = ("embed",)
    assets, network, predictor = "BilmAssets", "BilmNetwork", "BiLanguageModel"

    @classmethod
    def write_data(cls, data: Any, stem: Path, settings: Mapping[str, Any]) -> Path:
        """Sentences, as text with spaces between words or as lists of words."""
        from ...data.sources.memory import write_lines

        def line(one: Any) -> Any:
            words = isinstance(one, list | tuple) and all(isinstance(word, str) for word in one)
            return " ".join(one) if words else one  # whatever is no text is refused when it is written

        return write_lines(data, stem.with_suffix(".txt"), line)
