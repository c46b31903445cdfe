"""Tokenization in bulk, on arrays of bytes (numpy, Arrow). The ids are those of the whole text, word by word.

Words are looked up all at once. For BPE, text is cut where no token spans the cut, and each distinct piece is encoded
once: a corpus repeats itself, of 50 million words a million are distinct.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import repeat
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from ...masks import row_positions
from ..sources.blocks import LARGE, Block, merged
from ..sources.lines import blocks_of
from .tokenizers import ALIASES, SPECIAL, UNK, split_words

BULK = 1 << 14  # characters of text below which Arrow is not worth its import
MEMORY = 3 << 26  # bytes of pieces and ids that are remembered between calls
ROWS = 1 << 20  # of counted words, the same ones several times, that are held
OTHER_SPACES = r"[\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]"  # than ASCII's
# The first bytes of characters that may be space; before them, as before controls and spaces, BPE text is not cut.
_MAYBE_SPACE = np.zeros(256, bool)
_MAYBE_SPACE[:0x21] = True
_MAYBE_SPACE[[0xC2, 0xE1, 0xE2, 0xE3]] = True


class Pieces(NamedTuple):
    """Texts in pieces: piece k is `distinct[order[k]]`; the pieces of all texts stand end to end."""

    distinct: list[bytes]
    order: np.ndarray  # (pieces,) int32
    counts: np.ndarray  # (texts,) int64: the number of pieces of each text


def cut(block: Block) -> Pieces:
    r"""The texts of a block in pieces that BPE encodes independently of one another.

    >>> pieces = cut(Block.of(["to be or", "", "to be"]))
    >>> pieces.distinct, pieces.order.tolist(), pieces.counts.tolist()
    ([b'to', b' be', b' or'], [0, 1, 2, 0, 1], [3, 0, 2])
    """
    begins = _begins_bpe(block.data)
    begins[block.bounds[:-1][block.bounds[:-1] < len(block.data)]] = True
    starts = np.flatnonzero(begins)
    once = _binary(block.data, np.append(starts, len(block.data))).dictionary_encode()
    counts = np.diff(np.searchsorted(starts, block.bounds))
    return Pieces(once.dictionary.to_pylist(), once.indices.to_numpy(), counts)


def _binary(data: np.ndarray, offsets: np.ndarray) -> Any:
    """An Arrow array of what stands between offsets, without a copy."""
    import pyarrow as pa

    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def words_of(block: Block) -> tuple[Any, np.ndarray]:
    r"""What stands between ASCII spaces, as an Arrow array, and how many of these each text has, (texts,) int64.

    Other spaces of Unicode may be left in them: `split_words` finds those.

    >>> words, counts = words_of(Block.of(["to be\u3000or", "", " to  be\n"]))
    >>> [word.decode() for word in words.to_pylist()], counts.tolist()
    (['to', 'be\u3000or', 'to', 'be'], [2, 0, 2])
    """
    data, bounds = block.data, block.bounds
    inside = ~((data == 0x20) | ((data >= 0x09) & (data <= 0x0D)))
    begins, stops = inside.copy(), inside.copy()
    begins[1:] &= ~inside[:-1]
    stops[:-1] &= ~inside[1:]
    firsts, lasts = bounds[:-1][bounds[:-1] < len(data)], bounds[1:][bounds[1:] > 0] - 1
    begins[firsts], stops[lasts] = inside[firsts], inside[lasts]
    starts = np.flatnonzero(begins)
    lengths = np.flatnonzero(stops) + 1 - starts
    words = _binary(data[inside], np.concatenate([[0], np.cumsum(lengths)]))
    return words, np.diff(np.searchsorted(starts, bounds))


def _begins_bpe(data: np.ndarray) -> np.ndarray:
    """Where a piece begins: at a space before something that is not space, and on both sides of a newline.

    Byte-level BPE puts a space into the token that follows it, and the last space of several, too.
    """
    begins, following = np.zeros(len(data), bool), np.zeros(len(data), bool)
    begins[:-1] = (data[:-1] == 0x20) & ~_MAYBE_SPACE[data[1:]]
    newline = data == 0x0A
    following[1:] = newline[:-1]
    return begins | newline | following


class _WordCounts:
    """How often each word occurs in blocks: tables of Arrow, which are added up when they have grown."""

    def __init__(self) -> None:
        self.parts: list[Any] = []
        self.rows = 0

    def add(self, block: Block) -> None:
        import pyarrow as pa

        words, counts = words_of(block)[0].value_counts().flatten()
        self.parts.append(pa.table({"word": words, "count": counts}))
        self.rows += len(words)
        if self.rows > ROWS:
            self._add_up()

    def _add_up(self) -> None:
        import pyarrow as pa

        sums = pa.concat_tables(self.parts).group_by("word", use_threads=False).aggregate([("count", "sum")])
        self.parts, self.rows = [sums.rename_columns({"count_sum": "count"}).select(["word", "count"])], 0

    def add_words(self, count: Counter[str]) -> None:
        import pyarrow as pa

        words = pa.array([word.encode() for word in count], pa.large_binary())
        self.parts.append(pa.table({"word": words, "count": pa.array(list(count.values()), pa.int64())}))

    def most_frequent(self, min_frequency: int, most: int | None) -> list[str]:
        """At most that many words, the most frequent first; equally frequent ones in their sorting order."""
        import pyarrow as pa
        import pyarrow.compute as pc

        self._add_up()
        spaces = pc.match_substring_regex(self.parts[0]["word"].cast(pa.large_string()), OTHER_SPACES)
        several = self.parts[0].filter(spaces)
        self.parts = [self.parts[0].filter(pc.invert(spaces))]
        count: Counter[str] = Counter()
        for piece, number in zip(several["word"].to_pylist(), several["count"].to_pylist(), strict=True):
            for word in split_words(piece):
                count[word] += number
        if count:
            self.add_words(count)
            self._add_up()
        specials = pa.array([word.encode() for word in (*SPECIAL, *ALIASES)], pa.large_binary())
        table = self.parts.pop()
        kept = pc.and_not(pc.greater_equal(table["count"], min_frequency), pc.is_in(table["word"], value_set=specials))
        table = table.filter(kept).sort_by([("count", "descending"), ("word", "ascending")])
        return [word.decode() for word in table["word"].slice(0, most).to_pylist()]


def train_words(texts: Iterable[str], min_frequency: int, most: int | None = None) -> list[str]:
    """The words that occur often enough, at most so many, the most frequent first; equally frequent ones in their
    sorting order."""
    count: Counter[str] = Counter()
    large = _WordCounts()
    for block in merged(blocks_of(texts), LARGE):
        if len(block.data) < BULK:
            count.update(word for text in block.texts() for word in split_words(text.encode()))
        else:
            large.add(block)
    if large.parts:
        large.add_words(count)
        return large.most_frequent(min_frequency, most)
    for special in (*SPECIAL, *ALIASES):
        del count[special]
    words = sorted((word for word in count if count[word] >= min_frequency), key=lambda word: (-count[word], word))
    return words[:most]


class WordEncoder:
    """Token ids of the words of large blocks: Arrow looks all of them up at once, by a table it makes at each call."""

    def __init__(self, ids: dict[str, int]) -> None:
        import pyarrow as pa

        self.known = ids
        self.words = pa.array([word.encode() for word in ids], pa.large_binary())
        self.ids = np.array([*ids.values(), UNK], np.uint32)  # the last one for words that are not found

    def __call__(self, block: Block) -> tuple[np.ndarray, np.ndarray]:
        """The ids of all texts end to end, (n,) uint32, and how many each text has, (texts,) int64."""
        import pyarrow.compute as pc

        words, counts = words_of(block)
        rows = pc.index_in(words, value_set=self.words)
        values = self.ids[rows.fill_null(-1).to_numpy()]
        if block.data.size and block.data.max() >= 0x80 and rows.null_count:
            return self._with_spaces(words, rows, values, counts)
        return values, counts

    def _with_spaces(
        self, words: Any, rows: Any, values: np.ndarray, counts: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The same where words that were not found may have spaces in them."""
        places = np.flatnonzero(rows.is_null().to_numpy(zero_copy_only=False))
        once = words.take(places).dictionary_encode()
        distinct = once.dictionary.to_pylist()
        parts = list(map(split_words, distinct))
        other = np.array([part != [word.decode()] for part, word in zip(parts, distinct, strict=True)])
        several = other[once.indices.to_numpy()]
        if not several.any():
            return values, counts
        lengths, owner = np.ones(len(values), np.int64), np.repeat(np.arange(len(counts)), counts)
        several_parts = [parts[k] for k in once.indices.to_numpy()[several].tolist()]
        lengths[places[several]] = list(map(len, several_parts))
        values = np.repeat(values, lengths)
        at = (np.cumsum(lengths) - lengths)[places[several]]
        for start, part in zip(at.tolist(), several_parts, strict=True):
            values[start : start + len(part)] = [self.known.get(word, UNK) for word in part]
        return values, np.bincount(owner, lengths, len(counts)).astype(np.int64)


class BulkEncoder:
    """Token ids of many texts in BPE, by way of their distinct pieces, whose ids are remembered between calls.

    `tokenize` gives the ids of some pieces, end to end, and the number of ids of each.
    """

    def __init__(self, tokenize: Callable[[list[bytes]], tuple[np.ndarray, np.ndarray]]) -> None:
        self.tokenize = tokenize
        self._lock = Lock()
        self._forget()

    def _forget(self) -> None:
        self._rows: dict[bytes, int] = {}
        self._ids = np.empty(1 << 12, np.uint32)  # (capacity,), of all pieces end to end
        self._ends = array("q", [0])  # (rows + 1,)
        self._bytes = 0

    def __call__(self, block: Block) -> tuple[np.ndarray, np.ndarray]:
        """The ids of all texts end to end, (n,) uint32, and how many each text has, (texts,) int64."""
        pieces = cut(block)
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
        rows = np.fromiter(map(self._rows.get, distinct, repeat(-1)), np.int64, len(distinct))
        places = np.flatnonzero(rows < 0)
        if len(places):
            new = [distinct[k] for k in places.tolist()]
            rows[places] = np.arange(len(self._ends) - 1, len(self._ends) + len(new) - 1)
            ids, lengths = self.tokenize(new)
            self._append(ids)
            start = self._ends[-1]
            self._rows.update(zip(new, rows[places].tolist(), strict=True))
            self._ends.extend((start + np.cumsum(lengths)).tolist())
            self._bytes += sum(map(len, new)) + 150 * len(new) + 4 * len(ids)  # 150: an entry of the dictionary
        return rows

    def _append(self, ids: np.ndarray) -> None:
        used = self._ends[-1]
        if used + len(ids) > len(self._ids):
            larger: Any = np.empty(2 * (used + len(ids)), np.uint32)
            larger[:used] = self._ids[:used]
            self._ids = larger
        self._ids[used : used + len(ids)] = ids
