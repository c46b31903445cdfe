"""Pairs of a text and its translation: two line-aligned files, or one TSV file; and batches of them.

A pair in which both sides are blank is left out; one in which one side is, is an error. A TSV file has one pair a line,
tabs between, no quotes and no header; the columns of the pair are given by number, from 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...data.batches.base import TensorBatch, int_tensor
from ...data.batches.bucketed import Bucketed
from ...data.sources.lines import check_file, chunks, read_lines
from ...data.sources.split import Splittable
from ...data.stores.examples import Column, ExampleSource, ExampleStore, rows_of
from ...data.text.tokenizers import END, PAD, START, UNK, nothing_known
from ...data.text.vocabulary import Vocabulary
from ...errors import ArgumentError, DataError
from ...masks import pad_rows
from ...wording import counted, setting

if TYPE_CHECKING:  # data is read without torch
    from torch import Tensor

TABLES = (".tsv", ".tab")  # endings of files that hold both sides


class Pair(NamedTuple):
    """A text, its translation, and the line they stand on."""

    line: int
    source: str
    target: str

    @property
    def sides(self) -> tuple[str, str]:
        return self.source, self.target


class Pairs(Splittable):
    """The pairs of two line-aligned files, or of one TSV file, checked as they stream past.

    `columns` are those of a TSV file, source and target. `blank` counts the pairs left out of the latest reading.

    >>> import pathlib, tempfile
    >>> from carousel.tasks.translate.pairs import Pairs
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "pairs.tsv")
    ...     _ = file.write_text("Hello!\\tMerhaba!\\nRun!\\tKaç!\\n", "utf-8")
    ...     list(Pairs([file], columns=(2, 1)))
    [Pair(line=1, source='Merhaba!', target='Hello!'), Pair(line=2, source='Kaç!', target='Run!')]
    """

    def __init__(self, paths: Sequence[str | Path], columns: tuple[int, int] = (1, 2)) -> None:
        if len(paths) not in (1, 2):
            raise ArgumentError(f"pairs are in one TSV file, or in two line-aligned files; got {len(paths)} files")
        self.paths = [check_file(path) for path in paths]
        self.columns = columns
        self.blank = 0
        if len(paths) == 1 and self.paths[0].suffix.lower() not in TABLES:
            remedy = "give the file of translations too, or one .tsv file with both"
            raise DataError(paths[0], None, "is one side of the pairs only", remedy)

    def __iter__(self) -> Iterator[Pair]:
        return self.selected(self._every(), lambda pair: pair.source)

    def keys(self) -> Iterator[str]:
        """The text that identifies each pair: its source, so that all translations of a sentence stay together."""
        return (pair.source for pair in self)

    def _every(self) -> Iterator[Pair]:
        blank = count = 0
        for pair in self._table() if len(self.paths) == 1 else self._lines():
            source, target = pair.source.strip(), pair.target.strip()
            if source and target:
                count += 1
                yield pair
            elif source or target:
                path, side = (self.paths[0], "source") if target else (self.paths[-1], "target")
                other = "target" if target else "source"
                problem, remedy = f"the {side} is empty", f"write it, or remove the pair ({other}: {source or target}"
                raise DataError(path, pair.line, problem, remedy[:100] + ")")
            else:
                blank += 1
        self.blank = blank
        if not count:
            raise DataError(self.paths[0], None, "there is no pair in it", "give files with text in them")

    @property
    def reading(self) -> str:
        """Which files or columns are read as what."""
        if len(self.paths) == 1:
            return f"source in column {self.columns[0]}, target in column {self.columns[1]}, no header"
        return f"source in {self.paths[0]}, target in {self.paths[1]}, line by line"

    def _lines(self) -> Iterator[Pair]:
        first, second = self.paths
        lines = zip_longest(read_lines(first), read_lines(second))
        for number, (source, target) in enumerate(lines, 1):
            if source is None or target is None:
                rest = 1 + sum(1 for _ in lines)
                counts = (number - 1, number - 1 + rest)[:: 1 if source is None else -1]
                problem = f"{counted(counts[0], 'line')}, but {second} has {counts[1]:,}"
                raise DataError(
                    first, None, problem, "give files in which line k of one translates line k of the other"
                )
            yield Pair(number, source[1], target[1])

    def _table(self) -> Iterator[Pair]:
        [path] = self.paths
        width = None
        for number, text in read_lines(path):
            if not text.strip():
                yield Pair(number, "", "")
                continue
            cells = text.split("\t")
            width = len(cells) if width is None else width
            if len(cells) != width:
                problem = f"{counted(len(cells), 'column')}, where the lines before have {width}"
                raise DataError(path, number, problem, "look for a tab too many or too few")
            for column in self.columns:
                if column > width:
                    names = f"{setting('source_column')} and {setting('target_column')}"
                    remedy = f"put a tab between source and target, or choose {names}"
                    raise DataError(path, number, f"there is no column {column}, only {width}", remedy)
            yield Pair(number, *(cells[column - 1] for column in self.columns))

    def __str__(self) -> str:
        return " + ".join(map(str, self.paths))

    def __repr__(self) -> str:
        return f"Pairs({', '.join(repr(str(path)) for path in self.paths)})"


class PairSource(ExampleSource):
    """Pairs as examples: columns tokens (of the source), targets and lines, as `build_store` takes them.

    Pairs with a side of more than `max_length` tokens are left out and counted (None: there is no limit).
    """

    def __init__(
        self,
        pairs: Pairs,
        source: Vocabulary,
        target: Vocabulary,
        max_length: int | None = None,
        change: Callable[[int, Sequence[str]], Sequence[str]] = lambda side, texts: texts,
        changed: str = "",
    ) -> None:
        """`change` is done to the texts of a side first; `changed` says what it is, since the cache cannot see that."""
        self.pairs = pairs
        self.vocabularies = source, target
        self.max_length = max_length
        self.change = change
        self.changed = changed
        super().__init__(pairs.paths, {"tokens": _dtype(source), "targets": _dtype(target)})

    @property
    def made_by(self) -> dict[str, Any]:
        return {
            "reader": "pairs", "vocabularies": [v.fingerprint for v in self.vocabularies],
            "columns": list(self.pairs.columns), "max_length": self.max_length, "changed": self.changed,
            **self.pairs.part_mark,
        }  # fmt: skip

    def chunks(self) -> Iterator[Mapping[str, Column]]:
        long = unknown = total = kept = 0
        first = None  # the first pair that is too long
        for pairs in chunks(self.pairs, lambda pair: len(pair.source) + len(pair.target)):
            sides = [
                Column(*vocabulary.encode_many(self.change(k, [pair.sides[k] for pair in pairs])))
                for k, vocabulary in enumerate(self.vocabularies)
            ]
            lines = np.array([pair.line for pair in pairs])
            limit = np.iinfo(np.int64).max if self.max_length is None else self.max_length
            fits = np.maximum(sides[0].lengths, sides[1].lengths) <= limit
            long += int(np.count_nonzero(~fits))
            kept += int(np.count_nonzero(fits))
            if first is None and not fits.all():
                at = int(np.argmin(fits))
                first = [int(lines[at]), int(sides[0].lengths[at]), int(sides[1].lengths[at])]
            source, target = (Column(side.values[np.repeat(fits, side.lengths)], side.lengths[fits]) for side in sides)
            unknown += int(np.count_nonzero(target.values == UNK))
            total += len(target.values)
            numbers = Column(lines[fits], np.ones(int(fits.sum()), np.int64))
            yield {"tokens": source, "targets": target, "lines": numbers}
        if not kept:
            problem = f"every pair has more than {self.max_length} tokens ({setting('max_length')})"
            raise DataError(self.paths[0], None, problem, f"raise {setting('max_length')}, or cut the lines")
        if unknown == total:
            raise nothing_known(self.paths[-1], total)
        self.counts = {"long": long, "first_long": first, "unknown_targets": unknown, "blank": self.pairs.blank}


def _dtype(vocabulary: Vocabulary) -> Any:
    return np.uint16 if len(vocabulary) <= 1 << 16 else np.uint32


# ---------------------------------------------------------------- batches


@dataclass(frozen=True)
class PairBatch(TensorBatch):
    """Some pairs, time first; `[PAD]` (0) past each one's end. `targets[t]` is what follows `inputs[t]`."""

    source: Tensor  # (S, B) int64
    source_lengths: Tensor  # (B,) int64
    inputs: Tensor  # (T, B) int64: [START] and the translation
    targets: Tensor  # (T, B) int64: the translation and [END]
    lengths: Tensor  # (B,) int64: how many targets are real
    rows: Tensor  # (B,) int64: which pairs of the store these are
    tokens: int  # targets that are not [PAD]
    references: tuple[str, ...] = ()  # the translations as they were written, where they matter

    def __repr__(self) -> str:
        (source, pairs), target = self.source.shape, len(self.targets)
        return f"PairBatch({source} steps to {target}, {pairs} pairs, {self.tokens} target tokens)"


class PairBatches(Bucketed):
    """Each pair of a store once an epoch, pairs of similar length together; as in `Bucketed`.

    The length of a pair, for the budget `tokens` too, is that of its longer side, `[END]` counted.
    """

    store: ExampleStore

    def _target_lengths(self) -> np.ndarray:
        return np.diff(self.store["targets"].offsets) + 1

    def _sequence_lengths(self) -> np.ndarray:
        return np.maximum(self.store.lengths, self._target_lengths())

    @property
    def tokens(self) -> int:
        """Targets, `[END]` counted."""
        return int(self._target_lengths().sum())

    def _of(self, chosen: np.ndarray) -> PairBatch:
        return collate_pairs(rows_of(self.store["tokens"], chosen), rows_of(self.store["targets"], chosen), chosen)


def collate_pairs(source: Column, target: Column, rows: np.ndarray | None = None) -> PairBatch:
    """The batch of these pairs.

    >>> import numpy as np
    >>> from carousel.data.stores.examples import Column
    >>> from carousel.tasks.translate.pairs import collate_pairs
    >>> batch = collate_pairs(Column(np.array([7, 8, 9]), np.array([2, 1])), Column(np.array([5, 6]), np.array([2, 0])))
    >>> batch.inputs.T.tolist(), batch.targets.T.tolist()
    ([[1, 5, 6], [1, 0, 0]], [[5, 6, 2], [2, 0, 0]])
    """
    count = len(target.lengths)
    longer = target.lengths + 1
    ends = np.cumsum(target.lengths)
    targets = pad_rows(np.insert(target.values.astype(np.int64), ends, END), longer, PAD)
    inputs = pad_rows(np.insert(target.values.astype(np.int64), ends - target.lengths, START), longer, PAD)
    rows = np.arange(count) if rows is None else rows
    return PairBatch(
        source=int_tensor(pad_rows(source.values, source.lengths, PAD)),
        source_lengths=int_tensor(source.lengths),
        inputs=int_tensor(inputs),
        targets=int_tensor(targets),
        lengths=int_tensor(longer),
        rows=int_tensor(rows),
        tokens=int(longer.sum()),
    )
