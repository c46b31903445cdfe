"""What there is to know of labelled texts before training on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ...data.sources.lines import chunks
from ...data.sources.tables import Layout, Row
from ...data.text.tokenizers import UNK
from ...data.text.vocabulary import Vocabulary
from ...wording import counted, setting
from ..shared.checks import FilesCheck, TextFacts, length_facts, length_rows, table_of_files, uneven_warning
from .targets import Target

if TYPE_CHECKING:
    from rich.table import Table as RichTable


class Rows(Protocol):
    """Labelled texts of a file, as often as they are asked for."""

    path: Path

    def __iter__(self) -> Iterator[Row]: ...

    def layout(self) -> Layout: ...


@dataclass(frozen=True)
class TableFacts(TextFacts):
    """One file of labelled texts."""

    texts: int
    cut: int  # texts longer than max_length
    chunked: int  # texts that are read in chunks
    repeated: int  # texts that stood in the file before
    contradictory: int  # those of them that had another label before
    labels: dict[str, int]


@dataclass(frozen=True)
class TableCheck(FilesCheck[TableFacts]):
    """What is in files of labelled texts."""

    vocabulary_size: int
    max_length: int
    doubts: list[str]  # what could be meant instead, one line each
    extra: TableFacts | None = None  # more to train on
    weighted: bool = True  # whether classes can be given weights
    unit: str = "text"  # what a row is
    label: str = "label"  # what it has
    remedies: tuple[str, ...] = ()  # for unknown tokens

    @property
    def files(self) -> list[TableFacts]:
        return [info for info in (self.train, self.extra, self.dev) if info is not None]

    @property
    def warnings(self) -> list[str]:
        warnings = list(self.doubts)
        train = self.train
        if not train.labels:  # numbers
            pass
        elif len(train.labels) == 1:
            warnings.append(
                f"{train.file}: every row has the label {next(iter(train.labels))!r}; nothing can be learnt"
            )
        elif len(train.labels) > 20 and 2 * len(train.labels) > train.texts:
            warnings.append(
                f"{train.file}: {len(train.labels):,} labels in {train.texts:,} rows; is it the right column?"
            )
        elif self.weighted:
            warnings += uneven_warning(train.file, train.labels, train.texts, "texts")
        for info in self.files:
            name = info.file
            warnings += info.unknown_warning(self.remedies)
            if info.contradictory:
                many = counted(info.contradictory, f"{self.unit} repeats", f"{self.unit}s repeat")
                warnings.append(f"{name}: {many} an earlier one with another label")
            elif info.repeated > 0.01 * info.texts:
                warnings.append(f"{name}: {info.repeated:,} of {info.texts:,} {self.unit}s repeat an earlier one")
            if info.cut:
                place = f"{name}:{info.longest_line}"
                many = f"{counted(info.cut, 'is', 'are')} cut off after {self.max_length:,} ({setting('max_length')})"
                warnings.append(f"{place}: {info.longest:,} tokens in the longest {self.unit}; {many}")
            if strange := sorted(info.labels.keys() - train.labels.keys()):
                warnings.append(f"{name}: labels that {train.file} does not have: {', '.join(strange[:10])}")
        if self.dev and self.shared:
            where = f"{train.file} or {self.extra.file}" if self.extra else train.file
            warnings.append(f"{self.dev.file}: {self.shared:,} of {self.dev.texts:,} {self.unit}s are in {where} too")
        return warnings

    def __rich__(self) -> RichTable:
        files = self.files
        rows = {
            f"{self.unit}s": "{f.texts:,}",
            **length_rows(self.unit),
            f"repeated {self.unit}s": "{f.repeated:,}",
        }
        if any(f.chunked for f in files):
            rows["read in chunks"] = "{f.chunked:,}"
        table = table_of_files(f"vocabulary of {self.vocabulary_size:,} tokens", files, rows, self.shared)
        table.add_section()
        labels = sorted({label for info in files for label in info.labels})
        for label in labels[:30]:
            shares = (f"{f.labels.get(label, 0):,} ({f.labels.get(label, 0) / f.texts:.1%})" for f in files)
            table.add_row(f"{self.label} {label[:40]}", *shares)
        if len(labels) > 30:
            table.add_row(f"… and {counted(len(labels) - 30, f'more {self.label}')}", *("" for _ in files))
        return table


def check_tables(
    train: Rows,
    dev: Rows | None,
    vocabulary: Vocabulary,
    max_length: int,
    change: Callable[[str], str] = str,
    *,
    extra: Rows | None = None,
    target: Target | None = None,
    chunk: int | None = None,
    **facts: Any,
) -> TableCheck:
    """Read `train`, `dev` and `extra` (more to train on) once each and say what is in them, as `vocabulary` sees it.

    `facts` are further fields of the check.

    >>> import pathlib, tempfile
    >>> from carousel.data import Vocabulary
    >>> from carousel.data.sources.tables import Table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "reviews.tsv")
    ...     _ = file.write_text("a fine film\\tgood\\ndull\\tbad\\na fine film\\tbad\\n")
    ...     check = check_tables(Table(file), None, Vocabulary.from_tokens(["a", "film"], "word"), 1000)
    >>> check.train.labels, check.train.unknown, check.train.longest_line, check.train.contradictory
    ({'good': 1, 'bad': 2}, 3, 1, 1)
    """
    split = (lambda label: [label]) if target is None else target.cells
    limits = max_length, chunk or max_length
    train_facts, known = _read(train, vocabulary, limits, change, split)
    extra_facts = dev_info = shared = None
    if extra is not None:
        extra_facts, texts = _read(extra, vocabulary, limits, change, split)
        known |= texts
    if dev is not None:
        dev_info, texts = _read(dev, vocabulary, limits, change, split)
        shared = sum(count for text, count in texts.items() if text in known)
    columns, doubts = train.layout()
    single = target is None or target.kind == "class"
    if single and (doubt := header_doubt(train, train_facts.labels)) is not None:
        doubts = [*doubts, doubt]
    return TableCheck(train_facts, dev_info, shared, columns, len(vocabulary), max_length, doubts, extra_facts, **facts)


def header_doubt(table: Rows, labels: Mapping[str, int]) -> str | None:
    """A line on the first row if it looks like a header though it is read as data: no other row has its label."""
    first = next(iter(table))
    if first.line != 1 or labels[first.label] > 1 or len(labels) < 3:
        return None
    others = [count for label, count in labels.items() if label != first.label]
    if min(others) == 1 or len(first.label.split()) > 3:
        return None
    return (
        f"{table.path}:1: no other row has the label {first.label[:40]!r}; if this row names the columns, give "
        f"{setting('text_column')} and {setting('label_column')} by these names"
    )


def _read(
    table: Rows,
    vocabulary: Vocabulary,
    limits: tuple[int, int],
    change: Callable[[str], str],
    split: Callable[[str], list[str]],
) -> tuple[TableFacts, Counter[int]]:
    """The info of a file, and how often a text with each hash occurs in it. `limits` are those of lengths beyond which
    texts are cut off, and read in chunks."""
    texts: Counter[int] = Counter()
    labels: Counter[str] = Counter()
    first: dict[int, str] = {}  # the label that a text had where it stood first
    lengths, lines = [], []
    unknown = contradictory = 0
    for rows in chunks(table, lambda row: len(row.text)):
        values, counts = vocabulary.encode_many([change(row.text) for row in rows])
        unknown += int(np.count_nonzero(values == UNK))
        lengths.append(counts)
        lines.append(np.array([row.line for row in rows]))
        for row in rows:
            mark = hash(change(row.text))
            contradictory += first.setdefault(mark, row.label) != row.label
            texts[mark] += 1
            labels.update(split(row.label))
    length, line = np.concatenate(lengths), np.concatenate(lines)
    info = TableFacts(
        file=str(table.path),
        texts=len(length),
        **length_facts(length, line),
        cut=int((length > limits[0]).sum()),
        chunked=int((length > limits[1]).sum()),
        unknown=unknown,
        repeated=texts.total() - len(texts),
        contradictory=contradictory,
        labels=dict(labels),
    )
    return info, texts
