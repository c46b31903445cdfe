"""The tokens of a file of text, made once and memory-mapped ever after.

A cache directory holds one Arrow file for each (source file, layout, vocabulary). It knows what the source was like
when it was made; if the source has changed since, or the cache itself is cut short or damaged, it is made again.
"""

from __future__ import annotations

import hashlib
import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import DataError
from ...progress import stage
from ..sources.lines import Source, blocks_of
from ..text.tokenizers import END, UNK, nothing_known
from ..text.vocabulary import Vocabulary
from . import fingerprint
from .cache import cached
from .ragged import Ragged, RaggedWriter, read

FORMAT = 1  # of the cache; another number invalidates every cache


class TokenStore:
    """Token ids of a corpus, memory-mapped: `store[i]` are those of line i, `store.tokens` those of all, end to end.

    Made by `tokenize`. Attributes: `tokens` (n,) uint16 or uint32 and `offsets` (lines + 1,) int64, both read-only;
    `source`, the file they came from; `unknown`, how many are `[UNK]`; `built`, whether this call made the cache.
    """

    def __init__(self, path: Path, columns: dict[str, Ragged], info: dict[str, Any], *, built: bool = False) -> None:
        self.path = path
        self.info = info
        self.built = built
        self._rows = columns["tokens"]

    @property
    def tokens(self) -> np.ndarray:
        return self._rows.values

    @property
    def offsets(self) -> np.ndarray:
        return self._rows.offsets

    @property
    def source(self) -> Path:
        return Path(self.info["path"])

    @property
    def unknown(self) -> int:
        return self.info["unknown"]

    @property
    def fingerprint(self) -> str:
        """A hash of what the tokens were made from: the source's content, its layout and the vocabulary."""
        parts = [self.info.get(key) for key in ("size", "digest", "layout", "vocabulary", "part", "form")]
        return hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, line: int) -> np.ndarray:
        return self._rows[line]

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self.path,)  # a worker maps the file again; it does not get a copy

    def __repr__(self) -> str:
        return f"TokenStore({self.source.name!r}, {len(self):,} lines, {len(self.tokens):,} tokens)"


def tokenize(source: Source, vocabulary: Vocabulary, cache: str | Path) -> TokenStore:
    """The tokens of `source`: those in the directory `cache` if they are still right, else made and put there.

    >>> import pathlib, tempfile
    >>> from carousel.data import Lines, Vocabulary, tokenize
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "poems.txt")
    ...     _ = file.write_text("abba\\nba\\n")
    ...     lines = Lines(file)
    ...     vocabulary = Vocabulary.train(lines)
    ...     store = tokenize(lines, vocabulary, folder)
    ...     again = tokenize(lines, vocabulary, folder)
    ...     store, store[1].tolist(), store.built, again.built
    (TokenStore('poems.txt', 2 lines, 6 tokens), [5, 4], True, False)
    """
    expected = {
        "format": FORMAT,
        "path": str(source.path.resolve()),
        "layout": source.layout,
        "vocabulary": vocabulary.fingerprint,
        **source.part_mark,
        **fingerprint.of_files(source.files),
    }
    slot = [str(expected.get(key)) for key in ("path", "layout", "vocabulary", "part", "form")]
    build = partial(_build, source=source, vocabulary=vocabulary, expected=expected)
    kept = cached(cache, re.sub(r"[*?\[\]]", "_", source.path.stem), slot, expected, build)
    return TokenStore(kept.path, kept.columns, kept.info, built=kept.built)


def _build(path: Path, source: Source, vocabulary: Vocabulary, expected: dict[str, Any]) -> None:
    unknown = total = 0
    dtype = np.uint16 if len(vocabulary) <= 1 << 16 else np.uint32
    with stage("tokenizing"), RaggedWriter(path, {"tokens": dtype}) as writer:
        for block in blocks_of(source):
            values, lengths = vocabulary.encode_block(block)
            unknown += int(np.count_nonzero(values == UNK))
            total += len(values)
            writer.append("tokens", np.insert(values, np.cumsum(lengths)[block.ends], END), lengths + block.ends)
        if unknown == total:
            raise nothing_known(source.path, total)
        if fingerprint.of_files(source.files)["digest"] != expected["digest"]:
            raise DataError(source.path, None, "the file changed while it was read", "try again when it is complete")
        writer.finish({**expected, "unknown": unknown})


def _reopen(path: Path) -> TokenStore:
    return TokenStore(path, *read(path, check=False))
