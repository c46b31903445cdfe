"""What benches of whole models share: two threads while measuring, a file of figures, claims that hold or not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from ..files import replace_text_file
from ..threads import threads


def measured(
    file: Path, measure: Callable[[], dict[str, Any]], claims: Callable[[dict[str, Any]], list[dict[str, Any]]]
) -> dict[str, Any]:
    """What `measure` finds on two threads, with its `claims`, written to `file`; that it can be is tried first."""
    with threads(2), replace_text_file(file) as to:
        measurement = measure()
        result = {**measurement, "claims": claims(measurement)}
        to.write(json.dumps(result, indent=1))
    return result


def print_claims(console: Console, claims: list[dict[str, Any]]) -> None:
    """A line for each; what is missed in red."""
    for claim in claims:
        mark, style = ("", None) if claim["holds"] else ("  missed", "red")
        console.print(f"{claim['what']}: {claim['found']:.3g} ({claim['must']}){mark}", style=style)


def print_tables(console: Console, *tables: tuple[list[str], list[list[str]]]) -> None:
    """Tables given as columns and rows; a row whose last entry is "missed" is red."""
    for columns, rows in tables:
        table = Table(*columns)
        for row in rows:
            table.add_row(*row, style="red" if row[-1] == "missed" else "")
        console.print(table)
