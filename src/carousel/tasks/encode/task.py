"""The task `encode`: a vector for a text, learnt from pairs of texts with a class or a score."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..base import TOKENIZED, PackagedTask
from .settings import EncodeSettings


class Encode(PackagedTask):
    name = "encode"
    contents = ("labelled pairs",)
    help = """Train a sentence encoder on pairs of texts with a class or a score: TSV, CSV or JSONL.

    \b
    carousel train encode pairs.tsv --dev dev.tsv \\
        --label-column relatedness_score --out run
    # entailment: a class
    carousel train encode snli.tsv --target class --hidden 300 --out run
    carousel train encode pairs.tsv --pooling attention --cell gru --out run

    Then: carousel embed run texts.txt --out vectors.npy, carousel similar run texts.txt --to "a dog runs"."""
    Settings = EncodeSettings
    commands = ("embed", "similar")
    predict_extensions = (".tsv", ".csv", ".jsonl", ".ndjson", ".tab")
    predict_options = {"tokenized": TOKENIZED}
    assets, network, predictor = "EncodeAssets", "EncoderNetwork", "SentenceEncoder"
    ensemble = "EncoderEnsemble"

    @classmethod
    def write_data(cls, data: Any, stem: Path, settings: Mapping[str, Any]) -> Path:
        """(first text, second text, label or score), or columns."""
        from ...data.sources.memory import write_table

        return write_table(data, stem, ("first", "second", "label"))
