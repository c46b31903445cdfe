"""The task `classify`: one label for a text, several, or a number."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..base import TOKENIZED, PackagedTask
from .settings import ClassifySettings


class Classify(PackagedTask):
    name = "classify"
    help = """Train a classifier on a table of texts and labels: TSV, CSV or JSONL.

    \b
    # two columns: text, label
    carousel train classify reviews.tsv --dev dev.tsv --out run
    carousel train classify tweets.csv --text-column tweet \\
        --label-column topic --out run
    carousel train classify log.tsv --text-column 3 --label-column 1 \\
        --class-weights balanced --out run
    carousel train classify films.tsv --target labels --label-separator "|" \\
        --out run
    carousel train classify ratings.csv --target number --out run
    carousel train classify reviews.tsv --vectors glove.txt --embedding 300 \\
        --lower --out run
    carousel train classify names.tsv --tokens character --cell gru \\
        --pooling last --out run

    Then: carousel eval run dev.tsv, carousel predict run texts.txt."""
    Settings = ClassifySettings
    extensions = predict_extensions = (".tsv", ".csv", ".jsonl", ".ndjson", ".tab")
    predict_options = {"tokenized": TOKENIZED}
    assets, network, predictor = "ClassifyAssets", "ClassifierNetwork", "Classifier"
    ensemble = "ClassifierEnsemble"

    @classmethod
    def write_data(cls, data: Any, stem: Path, settings: Mapping[str, Any]) -> Path:
        """(text, label) pairs, or columns; with target labels, a label may be a list of them."""
        from ...data.sources.memory import write_table

        return write_table(data, stem, ("text", "label"))
