"""Data in memory as rows: lists, tuples, arrays, mappings of columns, a DataFrame, a `datasets` object, any iterable.

Objects are recognised by their attributes, so that neither pandas nor `datasets` is imported.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from ...errors import ArgumentError
from ...files import replace_text_file


def read_rows(data: Any) -> tuple[list[str] | None, Iterator[Sequence[Any]]]:
    """The names of the columns, None if they have none, and the rows.

    >>> names, rows = read_rows({"text": ["a", "b"], "label": [0, 1]})
    >>> names, list(rows)
    (['text', 'label'], [('a', 0), ('b', 1)])
    >>> list(read_rows([("a", 0), ("b", 1)])[1])
    [('a', 0), ('b', 1)]
    """
    if isinstance(data, Mapping):
        return list(map(str, data)), _across(data)
    if hasattr(data, "itertuples") and hasattr(data, "columns"):  # a DataFrame
        return list(map(str, data.columns)), data.itertuples(index=False, name=None)
    if hasattr(data, "column_names"):  # of the library `datasets`; a class is a number there, its name in `features`
        names = list(data.column_names)
        spelled = [_spelling((getattr(data, "features", None) or {}).get(name)) for name in names]
        return names, (
            tuple(spell(row[name]) for name, spell in zip(names, spelled, strict=True)) for row in data
        )  # fmt: skip
    rows = iter(_items(data))
    first = list(islice(rows, 1))
    if first and isinstance(first[0], Mapping):
        names = list(map(str, first[0]))
        return names, (_in_order(row, names, number) for number, row in enumerate(chain(first, rows), 1))
    return None, chain(first, rows)


def _across(columns: Mapping[Any, Any]) -> Iterator[tuple[Any, ...]]:
    """The rows of columns."""
    wrong = [f"{name}: {type(column).__name__}" for name, column in columns.items() if not isinstance(column, Iterable)]
    if wrong:
        raise ArgumentError(f"data: a column is a list of values; got {', '.join(wrong)}")
    try:
        yield from zip(*columns.values(), strict=True)
    except ValueError:
        names = ", ".join(map(str, columns))
        raise ArgumentError(
            f"data: the columns {names} are of different lengths; give as many values in each"
        ) from None


def _in_order(row: Any, names: Sequence[str], number: int) -> tuple[Any, ...]:
    """The values of a row by name, which has those of the first row and may have others."""
    missing = [name for name in names if name not in row] if isinstance(row, Mapping) else names
    if missing:
        raise ArgumentError(f"data: item {number} has no {missing[0]}, which item 1 has: {row!r:.60}")
    return tuple(row[name] for name in names)


def read_texts(given: Any, kinds: tuple[type, ...] = (), what: str = "texts") -> Iterator[Any]:
    """The items of what `predict` is given beside one text: any iterable of texts, or of instances of `kinds`.

    >>> list(read_texts(np.array(["a", "b"]))), list(read_texts(text for text in "ab"))
    (['a', 'b'], ['a', 'b'])
    """
    if isinstance(given, Mapping) or hasattr(given, "columns") or hasattr(given, "column_names"):
        raise ArgumentError(f"{what}: {type(given).__name__} has columns; give one of them, such as data['text']")
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise ArgumentError(f"{what}: give a text or an iterable of texts, got {type(given).__name__}")
    return _checked(given, kinds, what)


def _checked(given: Iterable[Any], kinds: tuple[type, ...], what: str) -> Iterator[Any]:
    for number, item in enumerate(given, 1):
        if not isinstance(item, (str, *kinds)) or isinstance(item, bytes):
            raise ArgumentError(f"{what}: item {number} is of type {type(item).__name__}; give texts")
        yield str(item) if isinstance(item, np.str_) else item


def _items(data: Any) -> Iterable[Any]:
    if isinstance(data, str | bytes) or not isinstance(data, Iterable):
        raise ArgumentError(f"data: files, or an iterable of examples, got {type(data).__name__}")
    return data.tolist() if isinstance(data, np.ndarray) else data


def _spelling(feature: Any) -> Callable[[Any], Any]:
    """How a value of a feature of `datasets` is written: classes by their names, also those in a list."""
    own: Any = getattr(feature, "feature", None) or (feature[0] if isinstance(feature, list) and feature else None)
    if hasattr(feature, "int2str"):
        return lambda value: feature.int2str(int(value)) if isinstance(value, int) else value
    if hasattr(own, "int2str"):
        return lambda values: [own.int2str(int(value)) if isinstance(value, int) else value for value in values]
    return lambda value: value


def write_table(data: Any, stem: Path, roles: Sequence[str]) -> Path:
    """Rows as JSON objects, one on each line; without names of columns, in the order of `roles`."""
    names, rows = read_rows(data)
    path = stem.with_suffix(".jsonl")
    with _writing(path) as file:
        for number, row in enumerate(rows, 1):
            if isinstance(row, str) or not isinstance(row, Sequence) or len(row) != len(names or roles):
                raise _misshapen(number, row, names or roles)
            if names is None and any(not isinstance(one, str) and not is_missing(one) for one in row[:-1]):
                raise _misshapen(number, row, roles)  # all but the last are texts
            values = dict(zip(names or roles, map(_plain, row), strict=True))
            try:
                line = json.dumps(values, ensure_ascii=False, default=str)  # times, say, of columns that are not read
            except (ValueError, RecursionError):
                raise ArgumentError(f"data: item {number} has a number or a list that cannot be written") from None
            file.write(line + "\n")
    return path


def _misshapen(number: int, row: Any, roles: Sequence[str]) -> ArgumentError:
    form, example = ", ".join(roles), ", ".join(f"{role!r}: …" for role in roles)
    return ArgumentError(
        f"data: item {number} is not of the form ({form}): {row!r:.60}; give ({form}) or {{{example}}}"
    )


def write_lines(data: Any, path: Path, text: Callable[[Any], str], newlines: bool = False) -> Path:
    """One item on each line, as `text` makes it; of a table its column `text`, or the only one."""
    names, rows = read_rows(data)
    if names is not None:
        if "text" not in names and len(names) != 1:
            raise ArgumentError(f"data: of the columns {', '.join(names)} none is named text; give one column only")
        place = names.index("text") if "text" in names else 0
        rows = (row[place] for row in rows)
    with _writing(path) as file:
        for number, item in enumerate(rows, 1):
            if is_missing(item):
                raise ArgumentError(f"data: item {number} is missing ({item}); give a text, or remove it")
            line = _line(text(item), number, newlines)
            file.write(line if line.endswith("\n") else line + "\n")
    return path


def write_pairs(data: Any, stem: Path, endings: tuple[str, str]) -> tuple[Path, Path]:
    """Pairs of texts as two line-aligned files."""
    names, rows = read_rows(data)
    if names is not None and len(names) == 1:  # `translation` of `datasets`: {"en": …, "de": …}
        rows = (tuple(row[0].values()) if isinstance(row[0], Mapping) else row for row in rows)
    paths = tuple(stem.with_suffix(ending) for ending in endings)
    with _writing(paths[0]) as first, _writing(paths[1]) as second:
        for number, row in enumerate(rows, 1):
            if isinstance(row, str) or not isinstance(row, Sequence) or len(row) != 2:
                raise ArgumentError(f"data: item {number} is not of the form (source, target): {row!r:.60}")
            for file, text in zip((first, second), row, strict=True):
                file.write(_line(text, number) + "\n")
    return paths[0], paths[1]


def write_sentences(data: Any, stem: Path) -> Path:
    """Sentences of (word, tag) pairs, or of a list of words and a list of tags, in columns: one word on each line."""
    names, rows = read_rows(data)
    path = stem.with_suffix(".conll")
    if names is not None:
        words = next((name for name in ("tokens", "words") if name in names), names[0])
        tags = next((name for name in names if name != words and "tag" in name), names[-1])
        at = names.index(words), names.index(tags)
        rows = (tuple(row[k] for k in at) for row in rows)
    sentences: Iterator[Any] = rows
    with _writing(path) as file:
        for number, sentence in enumerate(sentences, 1):
            if not isinstance(sentence, Iterable):
                kind = type(sentence).__name__
                raise ArgumentError(f"data: sentence {number} is of type {kind}; give pairs (word, tag)")
            for pair in zip(*sentence, strict=True) if names is not None else sentence:
                cells = [str(cell) for cell in pair if not is_missing(cell)] if isinstance(pair, Iterable) else []
                if len(cells) != 2 or any(cell != "".join(cell.split()) or not cell for cell in cells):
                    raise ArgumentError(
                        f"data: sentence {number} has {pair!r:.60}; give pairs (word, tag) without spaces in them"
                    )
                file.write("\t".join(cells) + "\n")
            file.write("\n")
    return path


def write_series(data: Any, stem: Path) -> Path:
    """A series as CSV: an array (T,) or (T, V), or columns; times are a column, or the index of pandas."""
    import csv

    path = stem.with_suffix(".csv")
    times = _times(data)
    if hasattr(data, "to_frame") and not hasattr(data, "columns"):  # a pandas Series
        data = data.to_frame(str(getattr(data, "name", None) or "value"))
    names, rows = read_rows(data)
    with _writing(path) as file:
        table = csv.writer(file, lineterminator="\n")
        before = [] if times is None else [["time"], *([_time(time)] for time in times)]
        for number, row in enumerate(rows):
            values = row if isinstance(row, Sequence) and not isinstance(row, str) else [row]
            if any(isinstance(value, list) for value in values):
                raise ArgumentError("data: more than two dimensions; give a series as (T,) or (T, V)")
            cells = list(map(_cell, values))
            if number == 0:
                head = names or (["value"] if len(cells) == 1 else [f"value_{k}" for k in range(1, len(cells) + 1)])
                table.writerow([*(before[0] if before else []), *head])
            table.writerow([*(before[number + 1] if before else []), *cells])
    return path


def _times(data: Any) -> Any:
    """The times that are the index of a pandas object, if they are."""
    index = getattr(data, "index", None)
    if index is None or callable(index) or not str(getattr(index, "dtype", "")).startswith(("datetime", "period")):
        return None
    return index


def is_table(data: Any, names: Sequence[str], timed: bool) -> bool:
    """Whether a series in memory is more than numbers: it has columns of these names, or an index of times if that
    matters."""
    columns = data if isinstance(data, Mapping) else getattr(data, "columns", ())
    return set(names) <= set(map(str, columns)) or (timed and _times(data) is not None)


@contextmanager
def _writing(path: Path) -> Iterator[TextIO]:
    """A text file that becomes `path`; what cannot be written is an error in the data."""
    try:
        with replace_text_file(path) as file:
            yield file
            if not file.tell():
                raise ArgumentError("data: there are no examples; give some")
    except UnicodeEncodeError as error:
        text = repr(error.object[max(0, error.start - 10) : error.end + 10])
        raise ArgumentError(f"data: half a character (a lone surrogate) in {text}; remove it") from None


def _line(text: Any, number: int, newlines: bool = False) -> str:
    if not isinstance(text, str):
        raise ArgumentError(f"data: item {number} is of type {type(text).__name__}; give texts")
    if not newlines and text.splitlines() not in ([text], []):
        raise ArgumentError(f"data: item {number} has a line break in it; split it, or replace the break")
    return text


def is_missing(value: Any) -> bool:
    """Whether a value stands for none: None, NaN, and the NaT and NA of pandas.

    >>> [is_missing(value) for value in (None, float("nan"), np.float32("nan"), np.datetime64("NaT"), "nan", 0)]
    [True, True, True, True, False, False]
    """
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating | np.datetime64) and bool(value != value)


def _plain(value: Any) -> Any:
    """A value as JSON has it: null for a missing one, a list for a set or an array; numbers of NumPy are Python's."""
    if isinstance(value, list | tuple):
        return list(map(_plain, value))
    if isinstance(value, set | frozenset):
        return sorted(map(_plain, value), key=str)
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    return None if is_missing(value) else value.item() if isinstance(value, np.generic) else value


def _cell(value: Any) -> str:
    if is_missing(value):
        return ""
    value = str(value) if isinstance(value, np.datetime64) else _plain(value)
    try:
        return repr(value) if isinstance(value, float) else str(value)
    except ValueError:
        raise ArgumentError("data: a whole number has too many digits") from None


def _time(time: Any) -> str:
    return time.isoformat() if hasattr(time, "isoformat") else str(time)
