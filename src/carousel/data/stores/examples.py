"""Labelled examples, made once and memory-mapped ever after, and batches of them.

An example has tokens and labels: one label for all of them (a class), or one for each (tags). It may also have the
characters of each token. Each of these is a column of integers, ragged from example to example:

tokens       the ids of its words (or characters, or BPE)
labels       the id of its class, or one id for each token
lines        the line of the file it begins on
characters   the ids of the characters of all its words, end to end          (optional)
spelling     how many characters each word has                               (with characters)
context_…    the same columns once more, as an embedder reads the text       (optional)
linear       what a linear model says of it: a log-probability of each class (optional)
targets      numbers to be learned, instead of labels (optional)
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...errors import DataError
from ...masks import length_mask, pad_rows, row_positions
from ..batches.base import TensorBatch, int_tensor
from ..batches.bucketed import Bucketed
from ..text.tokenizers import PAD, UNK, nothing_known
from . import fingerprint
from .cache import cached
from .ragged import Ragged, RaggedWriter, read

if TYPE_CHECKING:  # data is read without torch
    from torch import Tensor

FORMAT = 3  # of the cache; another number invalidates every cache
CONTEXT = "context_"  # before the names of columns that an embedder reads
NO_LABEL = -100  # past the end of a sequence; torch's losses leave it out


class Column(NamedTuple):
    """Some rows of a column: their values end to end, and how many each row has."""

    values: np.ndarray  # (n,)
    lengths: np.ndarray  # (rows,), n in all


class ExampleSource(ABC):
    """Files of labelled examples, and how they become integers."""

    per_token = False  # whether labels are for each token
    texts: tuple[str, ...] = ("tokens",)  # the columns of tokens that an example has: two if it is a pair of texts

    def __init__(self, paths: Sequence[Path], dtypes: Mapping[str, Any]) -> None:
        self.paths = list(paths)  # if one of these files changes, the cache is stale
        self.dtypes = {**dtypes, "lines": np.int64}  # the numpy type of every column; an example has a line
        self.counts: dict[str, Any] = {}  # of what was read; kept as info of the store

    @property
    @abstractmethod
    def made_by(self) -> dict[str, Any]:
        """What the integers depend on besides the files, in JSON's terms: vocabularies, labels, options."""

    @abstractmethod
    def chunks(self) -> Iterator[Mapping[str, Column]]:
        """The examples, many at a time: the same rows of every column."""


class ExampleStore:
    """Labelled examples, memory-mapped. Made by `build_store`.

    Columns are `Ragged`: `store["tokens"][i]` are the tokens of example i. `unknown` counts those that are `[UNK]`;
    `built` says whether this call made the cache; `info` are what the source counted, and what it was made from.
    """

    def __init__(self, path: Path | None, columns: dict[str, Ragged], info: dict[str, Any], built: bool = False):
        self.path = path
        self.columns = columns
        self.info = info
        self.built = built

    @property
    def per_token(self) -> bool:
        return self.info["per_token"]

    @property
    def unknown(self) -> int:
        return self.info["unknown"]

    @property
    def tokens(self) -> int:
        """How many tokens all examples have together."""
        return self.info["tokens"]

    @property
    def lengths(self) -> np.ndarray:
        """How many tokens each example has, (examples,); of a pair, its first text."""
        return np.diff(self.columns["tokens"].offsets)

    @property
    def fingerprint(self) -> str:
        """A hash of what the examples were made from."""
        files = [[file["size"], file["digest"]] for file in self.info["files"]]
        origin = json.dumps([files, self.info["made_by"]], sort_keys=True)
        return hashlib.blake2b(origin.encode(), digest_size=16).hexdigest()

    def __getitem__(self, column: str) -> Ragged:
        return self.columns[column]

    def __len__(self) -> int:
        return len(self.columns["tokens"])

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self.path,)  # a worker maps the file again; it does not get a copy

    def __repr__(self) -> str:
        names = " + ".join(repr(Path(file["path"]).name) for file in self.info["files"])
        return f"ExampleStore({names}, {len(self):,} examples, {self.tokens:,} tokens)"


def build_store(source: ExampleSource, cache: str | Path) -> ExampleStore:
    """The examples of `source`: those in the directory `cache` if they are still right, else made and put there."""
    files = [{"path": str(path.resolve()), **fingerprint.of_file(path)} for path in source.paths]
    made_by = source.made_by
    expected = {"format": FORMAT, "per_token": source.per_token, "files": files, "made_by": made_by}
    slot = [*(file["path"] for file in files), json.dumps(made_by, sort_keys=True)]

    def build(path: Path) -> None:
        unknown = total = 0
        with RaggedWriter(path, source.dtypes) as writer:
            for chunk in source.chunks():
                for tokens in (chunk[name].values for name in source.texts):
                    unknown += int(np.count_nonzero(tokens == UNK))
                    total += len(tokens)
                for name, column in chunk.items():
                    writer.append(name, *column)
            if unknown == total and "characters" not in source.dtypes:  # words can be read by their characters alone
                raise nothing_known(source.paths[0], total)
            for path, was in zip(source.paths, files, strict=True):
                if fingerprint.of_file(path)["digest"] != was["digest"]:
                    raise DataError(path, None, "the file changed while it was read", "try again when it is complete")
            writer.finish({**source.counts, **expected, "tokens": total, "unknown": unknown})

    kept = cached(cache, source.paths[0].stem, slot, expected, build)
    return ExampleStore(kept.path, kept.columns, kept.info, kept.built)


def _reopen(path: Path) -> ExampleStore:
    return ExampleStore(path, *read(path, check=False))


# ---------------------------------------------------------------- batches


@dataclass(frozen=True)
class ExampleBatch(TensorBatch):
    """Some examples, time first; `[PAD]` (0) past each one's end.

    `characters[:, k]` are those of the k-th word, where words are counted step by step, in the order of
    `tokens[mask]`: `x[batch.mask] = vectors_of_words` puts them in their places.
    """

    tokens: Tensor  # (T, B) int64
    lengths: Tensor  # (B,) int64
    labels: Tensor | None  # (B,) int64; one for each token: (T, B), NO_LABEL past the end; None: not known
    rows: Tensor  # (B,) int64: which examples of the store these are
    characters: Tensor | None = None  # (C, W) int64, [PAD] past the end of a word; W = lengths.sum()
    spelling: Tensor | None = None  # (W,) int64: how many characters each word has
    context: ExampleBatch | None = None  # the same text as an embedder reads it
    linear: Tensor | None = None  # (B, classes) float32: what a linear model says of each example
    targets: Tensor | None = None  # (B, n) float32: numbers to be learned, instead of labels

    @property
    def mask(self) -> Tensor:
        """(T, B) bool: which steps are real."""
        return length_mask(self.lengths, len(self.tokens))

    def spans(self, rows: Tensor, starts: Tensor, lengths: Tensor) -> ExampleBatch:
        """Parts of its examples as a batch of their own, without labels: from the rows (C,) the steps from `starts`
        (C,) on, as many as `lengths` (C,)."""
        import torch

        real = length_mask(lengths, int(lengths.max()))
        steps = torch.arange(len(real), device=rows.device).unsqueeze(1)
        at = (starts + steps).clamp(max=len(self.tokens) - 1)
        characters = spelling = None
        if self.characters is not None and self.spelling is not None:
            words = torch.zeros_like(self.tokens)
            words[self.mask] = torch.arange(len(self.spelling), device=rows.device)
            chosen = words[at, rows][real]
            spelling = self.spelling[chosen]
            characters = self.characters[: int(spelling.max()), chosen]
        return ExampleBatch(
            self.tokens[at, rows].masked_fill(~real, PAD), lengths, None, self.rows[rows], characters, spelling,
            None if self.context is None else self.context.spans(rows, starts, lengths),
        )  # fmt: skip

    def __repr__(self) -> str:
        steps, examples = self.tokens.shape
        return f"ExampleBatch({steps} steps, {examples} examples, {int(self.lengths.sum())} tokens)"


class ExampleBatches(Bucketed):
    """Each example of a store once an epoch, examples of similar length together; as in `Bucketed`."""

    store: ExampleStore

    def _of(self, chosen: np.ndarray) -> ExampleBatch:
        return collate({name: rows_of(column, chosen) for name, column in self.store.columns.items()}, chosen,
                       per_token=self.store.per_token)  # fmt: skip


def collate(columns: Mapping[str, Column], rows: np.ndarray | None = None, *, per_token: bool = False) -> ExampleBatch:
    """The batch of these rows; without a column of labels, one whose labels are not known.

    >>> import numpy as np
    >>> from carousel.data.stores.examples import Column, collate
    >>> batch = collate({"tokens": Column(np.array([7, 8, 9, 5]), np.array([3, 1])),
    ...                  "labels": Column(np.array([1, 0]), np.array([1, 1]))})
    >>> batch.tokens.T.tolist(), batch.labels.tolist()
    ([[7, 8, 9], [5, 0, 0]], [1, 0])
    """
    import torch

    values, lengths = columns["tokens"]
    labels = columns.get("labels")
    numbers = None
    if labels is not None:
        numbers = int_tensor(pad_rows(labels.values, lengths, NO_LABEL) if per_token else labels.values)
    rows = np.arange(len(lengths)) if rows is None else rows
    characters = spelling = None
    if "characters" in columns:
        real = length_mask(lengths, int(lengths.max(initial=0)))
        by_step = pad_rows(np.arange(len(values)), lengths, 0)[real]  # words, counted by example, in the order of steps
        counts = columns["spelling"].values.astype(np.int64)
        characters = int_tensor(pad_rows(columns["characters"].values, counts, PAD)[:, by_step])
        spelling = int_tensor(counts[by_step])
    others = {name.removeprefix(CONTEXT): column for name, column in columns.items() if name.startswith(CONTEXT)}
    context = collate(others, rows) if others else None
    linear, targets = (
        torch.from_numpy(columns[name].values.astype(np.float32).reshape(len(lengths), -1)) if name in columns else None
        for name in ("linear", "targets")
    )
    padded = int_tensor(pad_rows(values, lengths, PAD))
    return ExampleBatch(
        padded, int_tensor(lengths), numbers, int_tensor(rows), characters, spelling, context, linear, targets
    )


def rows_of(column: Ragged, chosen: np.ndarray) -> Column:
    """The rows `chosen`, end to end."""
    start = column.offsets[chosen]
    lengths = column.offsets[chosen + 1] - start
    return Column(column.values[np.repeat(start, lengths) + row_positions(lengths)], lengths)
