"""Error analysis for reports: the worst examples, confusions with examples, results by length and by unknown words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ...data import UNK
from ...data.stores.examples import Column
from ...report import Page, verbatim
from .held_out import Sources

T = TypeVar("T")

MOST = 2000  # examples of the dev set that are analysed
SHOWN = 12  # of them in a table
LONGEST = 600  # characters of a text that are shown


class Classified(NamedTuple):
    """An example with its true and its predicted class."""

    text: str
    gold: str
    predicted: str
    confidence: float  # in the predicted class


def measure_dev(model: Any, page: Page, sources: Sources[Any]) -> Any:
    """The metric of a model on its dev set, None if there is none; before it, the page gets an embedder's mix."""
    if model.network.context is not None:
        model.network.context.show(page)
    return None if sources.dev is None else model.measure(sources.dev)[0]


def first_examples(source: Iterable[T]) -> list[T]:
    """The examples that are analysed."""
    return list(islice(source, MOST))


def describe_part(count: int, unit: str) -> str:
    """Of how many examples an analysis is, if these are not all."""
    return f" Analysed: the first {count:,} {unit}." if count == MOST else ""


def shorten(text: str) -> str:
    """A text of the data for a cell of a table."""
    return verbatim(text if len(text) <= LONGEST else text[: LONGEST - 1] + "…")


# ---------------------------------------------------------------- classes


def show_misclassified(page: Page, examples: Sequence[Classified], unit: str) -> None:
    """The errors of a classifier, those it is surest of first; and each kind of confusion with an example."""
    wrong = sorted((one for one in examples if one.gold != one.predicted), key=lambda one: -one.confidence)
    page.heading(f"Misclassified {unit}")
    if not wrong:
        page.text(f"None of {len(examples):,}.")
        return
    shown = f"the {SHOWN} with the highest confidence" if len(wrong) > SHOWN else "highest confidence first"
    page.text(f"{len(wrong):,} of {len(examples):,}; {shown}.{describe_part(len(examples), unit)}")
    rows = [
        [shorten(one.text), verbatim(one.gold), verbatim(one.predicted), f"{one.confidence:.3f}"]
        for one in wrong[:SHOWN]
    ]
    page.table([unit.removesuffix("s"), "true", "predicted", "confidence"], rows)
    kinds: defaultdict[tuple[str, str], list[Classified]] = defaultdict(list)
    for one in wrong:
        kinds[one.gold, one.predicted].append(one)
    if len(kinds) > 2:  # of two classes the table above has enough
        show_confusions(page, {kind: (len(of), of[0].text) for kind, of in kinds.items()})


def show_confusions(page: Page, confusions: dict[tuple[str, str], tuple[int, str]]) -> None:
    """(true, predicted) → how often, and an example; the most frequent first."""
    often = sorted(confusions.items(), key=lambda pair: -pair[1][0])[:SHOWN]
    rows = [
        [verbatim(gold), verbatim(predicted), f"{count:,}", shorten(example)]
        for (gold, predicted), (count, example) in often
    ]
    page.heading("Most frequent confusions").table(["true", "predicted", "count", "example"], rows)


# ---------------------------------------------------------------- results by kind of input


def lengths_and_unknown(column: Column) -> tuple[list[int], list[float]]:
    """Of texts as integers: the length of each, and the share of its tokens that the vocabulary does not have."""
    rows = np.split(column.values, np.cumsum(column.lengths)[:-1])
    return [len(row) for row in rows], [float((row == UNK).mean()) if len(row) else 0.0 for row in rows]


def show_breakdown(
    page: Page,
    lengths: Sequence[int],
    unknown: Sequence[float] | None,
    columns: Sequence[str],
    measure: Callable[[list[int]], Sequence[Any]],
    *,
    unit: str,
    token: str = "token",
    unknown_is: str = "unknown to the model",
) -> None:
    """Results by length and, if `unknown` has the share of each example's tokens that are new, by that.

    `measure` gives what stands in `columns` for the examples of these numbers. A table of one row is left out.
    """
    tables = {f"length in {token}s": group_by_length(lengths)}
    if unknown is not None:
        tables[f"{token}s {unknown_is}"] = group_by_share(unknown)
    tables = {title: groups for title, groups in tables.items() if len(groups) > 1}
    if not tables:
        return
    page.heading("Results by " + " and by ".join(tables))
    for title, groups in tables.items():
        rows = [[name, f"{len(numbers):,}", *measure(numbers)] for name, numbers in groups.items()]
        page.table([title, unit, *columns], rows)


def group_by_length(lengths: Sequence[int]) -> dict[str, list[int]]:
    """Up to four groups of about the same size.

    >>> group_by_length([1, 2, 3, 9, 9, 10, 4, 5])
    {'1 to 2': [0, 1], '3 to 4': [2, 6], '5 to 9': [3, 4, 7], '10': [5]}
    """
    if not lengths:
        return {}
    bounds = sorted({int(b) for b in np.quantile(lengths, [0.25, 0.5, 0.75, 1], method="lower")})
    groups: dict[str, list[int]] = {}
    low = min(lengths)
    for high in bounds:
        inside = [k for k, length in enumerate(lengths) if low <= length <= high]
        if inside:
            groups[f"{low:,} to {high:,}" if low < high else f"{high:,}"] = inside
        low = high + 1
    return groups


def group_by_share(shares: Sequence[float]) -> dict[str, list[int]]:
    """None, up to 10 %, up to 25 %, more; those that there are.

    >>> group_by_share([0, 0.5, 0.1])
    {'none': [0], 'up to 10 %': [2], 'more than 25 %': [1]}
    """
    bounds = {"none": 0.0, "up to 10 %": 0.1, "10 to 25 %": 0.25, "more than 25 %": 1.0}
    groups: dict[str, list[int]] = {name: [] for name in bounds}
    for k, share in enumerate(shares):
        groups[next(name for name, most in bounds.items() if share <= most)].append(k)
    return {name: numbers for name, numbers in groups.items() if numbers}
