"""The task `tag`: a tag for each word of a sentence, such as its part of speech or its place in a name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..base import TOKENIZED, Option, PackagedTask
from .settings import TagSettings


class Tag(PackagedTask):
    name = "tag"
    contents = ("tagged words",)
    help = """Train a tagger on sentences in columns, one word per line: parts of speech, names, chunks.

    \b
    carousel train tag train.conllu --dev dev.conllu --column upos --out run
    # the last column has the tags
    carousel train tag names.conll --dev dev.conll --out run
    carousel train tag chunks.txt --column 3 --output crf \\
        --train-scheme iob2 --out run
    carousel train tag train.conllu --characters cnn --cell gru --layers 2 \\
        --out run

    Tags such as B-PER are parts of spans: their scheme (IOB1, IOB2, BIOES) is detected, and a CRF obeys its rules.
    Then: carousel eval run dev.conllu, carousel predict run sentences.txt."""
    Settings = TagSettings
    extensions = (".conll", ".conllu", ".bio", ".iob")
    predict_extensions = (".conll", ".conllu")
    predict_options = {
        "tokenized": TOKENIZED,
        "n_best": Option(int, "Also output the next best taggings.", "N", 1),
        "conll": Option(bool, "The file has one word per line, like files named .conll and .conllu.", reads_file=True),
    }
    assets, network, predictor = "TagAssets", "TaggerNetwork", "Tagger"
    ensemble = "TaggerEnsemble"

    @classmethod
    def write_data(cls, data: Any, stem: Path, settings: Mapping[str, Any]) -> Path:
        """Sentences, each a list of (word, tag); or columns of lists of words and of tags."""
        from ...data.sources.memory import write_sentences

        return write_sentences(data, stem)
