"""Tokenization in bulk: text is cut where no token spans the cut, and each distinct piece is tokenized once.

A corpus repeats itself: of 50 million words a million are distinct. Cutting and hashing the pieces is done on arrays of
bytes (numpy, Arrow), so that the tokenizer is called for distinct pieces only. The ids are those of the whole text.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from ...masks import row_positions
from ..sources.lines import chunks
from .tokenizers import ALIASES, SPECIAL, Kind, encodable, split_words

BULK = 1 << 14  # characters of text below which Arrow is not worth its import
MEMORY = 1 << 26  # bytes of pieces and ids that are remembered between calls
# The first bytes of characters that may be space; before them, as before controls and spaces, BPE text is not cut.
_MAYBE_SPACE = np.zeros(256, bool)
_MAYBE_SPACE[:0x21] = True
_MAYBE_SPACE[[0xC2, 0xE1, 0xE2, 0xE3]] = True


class Pieces(NamedTuple):
    """Texts in pieces: piece k is `distinct[order[k]]`; the pieces of all texts stand end to end."""

    distinct: list[bytes]
    order: np.ndarray  # (pieces,) int32
    counts: np.ndarray  # (texts,) int64: the number of pieces of each text


def cut(texts: Sequence[str], kind: Kind) -> Pieces:
    r"""Texts in pieces that are tokenized independently of one another, for words or BPE.

    >>> pieces = cut(["to be or", "", "to be"], "word")
    >>> pieces.distinct, pieces.order.tolist(), pieces.counts.tolist()
    ([b'to', b' be', b' or'], [0, 1, 2, 0, 1], [3, 0, 2])
    """
    import pyarrow as pa

    try:
        encoded = [text.encode() for text in texts]
    except UnicodeEncodeError:
        encoded = [encodable(text).encode() for text in texts]
    bounds = np.zeros(len(texts) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)), out=bounds[1:])
    data = np.frombuffer(b"".join(encoded), np.uint8)
    begins = _begins_word(data) if kind == "word" else _begins_bpe(data)
    begins[bounds[:-1][bounds[:-1] < len(data)]] = True
    starts = np.flatnonzero(begins)
    offsets = np.append(starts, len(data))
    encoded_once = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(starts), [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    ).dictionary_encode()
    counts = np.diff(np.searchsorted(starts, bounds))
    return Pieces(encoded_once.dictionary.to_pylist(), encoded_once.indices.to_numpy(), counts)


def _begins_word(data: np.ndarray) -> np.ndarray:
    """Where a piece begins: at ASCII space, which no word contains."""
    return (data == 0x20) | ((data >= 0x09) & (data <= 0x0D))


def _begins_bpe(data: np.ndarray) -> np.ndarray:
    """Where a piece begins: at a space before something that is not space, and on both sides of a newline.

    Byte-level BPE puts a space into the token that follows it, and the last space of several, too.
    """
    begins, following = np.zeros(len(data), bool), np.zeros(len(data), bool)
    begins[:-1] = (data[:-1] == 0x20) & ~_MAYBE_SPACE[data[1:]]
    newline = data == 0x0A
    following[1:] = newline[:-1]
    return begins | newline | following


def count_pieces(texts: Sequence[str], kind: Kind) -> Counter[bytes]:
    """How often each distinct piece occurs in `texts`."""
    pieces = cut(texts, kind)
    numbers = np.bincount(pieces.order, minlength=len(pieces.distinct)).tolist()
    return Counter(dict(zip(pieces.distinct, numbers, strict=True)))


def train_words(texts: Iterable[str], min_frequency: int) -> list[str]:
    """The words that occur often enough, the most frequent first, equally frequent ones in their sorting order."""
    pieces: Counter[bytes] = Counter()
    count: Counter[str] = Counter()
    for chunk in chunks(texts, len):
        if sum(map(len, chunk)) < BULK:
            count.update(word for text in chunk for word in split_words(encodable(text).encode()))
        else:
            pieces.update(count_pieces(chunk, "word"))
    for piece, number in pieces.items():
        for word in split_words(piece):
            count[word] += number
    for word in (*SPECIAL, *ALIASES):
        del count[word]
    return sorted((word for word in count if count[word] >= min_frequency), key=lambda word: (-count[word], word))


class BulkEncoder:
    """Token ids of many texts, by way of their distinct pieces, whose ids are remembered between calls.

    `tokenize` gives the ids of some pieces, end to end, and the number of ids of each.
    """

    def __init__(self, kind: Kind, tokenize: Callable[[list[bytes]], tuple[np.ndarray, np.ndarray]]) -> None:
        self.kind, self.tokenize = kind, tokenize
        self._lock = Lock()
        self._forget()

    def _forget(self) -> None:
        self._rows: dict[bytes, int] = {}
        self._ids = np.empty(1 << 12, np.uint32)  # (capacity,), of all pieces end to end
        self._ends = array("q", [0])  # (rows + 1,)
        self._bytes = 0

    def __call__(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """The ids of all texts end to end, (n,) uint32, and how many each text has, (texts,) int64."""
        pieces = cut(texts, self.kind)
        with self._lock:
            rows = self._remember(pieces.distinct)
            ends = np.array(self._ends)
            ids = self._ids  # a later call may replace the array, but does not change what is in it
        starts, lengths = ends[rows], ends[rows + 1] - ends[rows]
        starts, lengths = starts[pieces.order], lengths[pieces.order]
        values = ids[np.repeat(starts, lengths) + row_positions(lengths)]
        totals = np.concatenate([[0], np.cumsum(lengths)])[np.concatenate([[0], np.cumsum(pieces.counts)])]
        return values, np.diff(totals)

    def _remember(self, distinct: list[bytes]) -> np.ndarray:
        """The rows of pieces, (pieces,) int64; those not seen before are tokenized."""
        if self._bytes > MEMORY:
            self._forget()
        known = self._rows
        new = [piece for piece in distinct if piece not in known]
        if new:
            ids, lengths = self.tokenize(new)
            self._append(ids)
            start = self._ends[-1]
            self._rows.update(zip(new, range(len(self._ends) - 1, len(self._ends) + len(new) - 1), strict=True))
            self._ends.extend((start + np.cumsum(lengths)).tolist())
            self._bytes += sum(map(len, new)) + 150 * len(new) + 4 * len(ids)  # 150: an entry of the dictionary
        return np.fromiter(map(known.__getitem__, distinct), np.int64, len(distinct))

    def _append(self, ids: np.ndarray) -> None:
        used = self._ends[-1]
        if used + len(ids) > len(self._ids):
            larger: Any = np.empty(2 * (used + len(ids)), np.uint32)
            larger[:used] = self._ids[:used]
            self._ids = larger
        self._ids[used : used + len(ids)] = ids
