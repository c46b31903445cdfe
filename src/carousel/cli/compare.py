"""`carousel compare`: several runs side by side."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from .app import App
from .errors import check_output
from .runs import JsonOption


def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Run directories that carousel train made.")],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Also write a page with the table and dev curves.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare runs of one task: the settings that differ, dev metric, minutes, parameters.

    Runs that differ by their seed only are one row, with mean ± standard deviation.

    \b
    carousel compare runs/*
    carousel compare sweep/trials/* --out page.html
    """
    from carousel.comparison import compare_runs

    check_output("--out", out)
    comparison = compare_runs(runs)
    if out is not None:
        comparison.write_page(out)
    typer.echo(json.dumps(comparison.as_dict(), ensure_ascii=False) if as_json else str(comparison))


def register(commands: App, words: Sequence[str]) -> None:
    commands.command("compare")(compare)
