"""Word vectors in text form, as word2vec and GloVe give them: a word and its numbers a line, a header or none."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...errors import DataError
from ...wording import counted
from ..sources.lines import read_lines
from .tokenizers import SPECIAL
from .vocabulary import Vocabulary


class Vectors(NamedTuple):
    """The vectors of the words of a vocabulary."""

    values: np.ndarray  # (V, E) float32; zero where there is none
    known: np.ndarray  # (V,) bool: whether the file has the word


def read_vectors(path: str | Path, vocabulary: Vocabulary) -> Vectors:
    """The vectors in a text file for the words of `vocabulary`; the file streams past and the rest is not held.

    A word that the file has only in lower case gets that vector. If a word stands there twice, the first counts.

    >>> import pathlib, tempfile
    >>> from carousel.data import Vocabulary
    >>> from carousel.data.text.vectors import read_vectors
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "vectors.txt")
    ...     _ = file.write_text("3 2\\nthe 1 0\\nsea 0 1\\nsky 1 1\\n")
    ...     vectors = read_vectors(file, Vocabulary.from_tokens(["The", "sky", "is"], "word"))
    >>> vectors.values[4:].tolist(), vectors.known[4:].tolist()
    ([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]], [True, True, False])
    """
    if vocabulary.kind != "word":
        raise DataError(path, None, f"vectors are of words, tokens are of kind {vocabulary.kind}", "use tokens: word")
    wanted: dict[str, list[int]] = {}  # a spelling in the file → the words it serves, at second choice those lowered
    for i, token in enumerate(vocabulary.tokens):
        if i >= len(SPECIAL):
            wanted.setdefault(token, []).append(i)
            if token.lower() != token:
                wanted.setdefault(token.lower(), []).append(i)
    values, exact, known = (
        np.empty((0, 0), np.float32),
        np.zeros(len(vocabulary), bool),
        np.zeros(len(vocabulary), bool),
    )
    width = 0
    for number, line in read_lines(path):
        line = line.rstrip()
        if not width:
            parts = line.split(" ")
            if len(parts) == 2 and all(part.isdecimal() for part in parts):
                continue  # word2vec's header: how many, and how long
            width = len(parts) - 1
            values = np.zeros((len(vocabulary), width), np.float32)
        word, *numbers = line.rsplit(" ", width)
        if len(numbers) != width or not word or not width:
            problem = f"{counted(len(line.split(' ')) - 1, 'number')}, where the first word has {width}"
            raise DataError(path, number, problem, "each line is a word and its numbers, separated by single spaces")
        if word not in wanted:
            continue
        try:
            vector = np.array(numbers, np.float32)
        except ValueError:
            raise DataError(path, number, f"not all that follows {word!r} is a number", "fix the line") from None
        if not np.isfinite(vector).all():
            raise DataError(path, number, f"the vector of {word!r} is not finite", "fix or remove the line")
        for i in wanted[word]:
            is_exact = vocabulary.token(i) == word
            if not known[i] or (is_exact and not exact[i]):
                values[i], known[i], exact[i] = vector, True, is_exact
    if not known.any():
        raise DataError(path, None, "it has no word of the training data", "give vectors for this language")
    return Vectors(values, known)
