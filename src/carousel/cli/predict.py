"""Predictions for new text: `carousel predict`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any

import typer

from carousel.errors import DataError
from carousel.wording import dashed

from .app import App
from .errors import check_output, warn_cut, warn_unlike
from .runs import RunArgument, lines_of, load, unless_dash
from .task_options import CellOption, TaskOption, for_task


def predict(
    run: RunArgument,
    data: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]",
            help="Text, one item per line (default: standard input); a table; a series.",
            callback=unless_dash,
        ),
    ] = None,
    task: TaskOption = None,
    cell: CellOption = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Output file; a name that ends in .jsonl gets JSON.", callback=unless_dash),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per item.")] = False,
    **options: Any,
) -> None:
    """Predict labels or tags for text, or what follows a series.

    A task may have options of its own: carousel predict RUN --help shows those
    of the run.

    \b
    carousel predict run texts.txt > labels.tsv
    echo "a warm , funny film" | carousel predict run
    carousel predict run texts.txt --out labels.jsonl
    # the texts of a table, as in training; labels not needed
    carousel predict run reviews.csv
    # a tagger's three best taggings
    carousel predict run untagged.conll --n-best 3
    # every node of a tree with its label
    carousel predict run trees.txt --draw
    # the steps after the end of a series, from a forecaster
    carousel predict run flights.csv
    # a run of a task of your own
    carousel predict run data.txt --task my_task.py:Sensor
    """
    from carousel.files import replace_text_file

    check_output("--out", out, data)
    if out is not None and out.suffix == ".conllu":
        problem = "predictions are columns of their own, no CoNLL-U"
        raise typer.BadParameter(f"{problem}; give a name that ends in .conll, .tsv or .jsonl", param_hint="--out")
    model = load(run, task=task, cell=cell)
    forced = [dashed(name) for name in options if model.task.predict_options[name].reads_file]
    if forced and data is None:
        raise typer.BadParameter("it applies to a file; give one", param_hint=forced[0])
    own = bool(forced) or (data is not None and data.suffix.lower() in model.task.predict_extensions)
    items = model.predict_file(data, **options) if own else model.predict_lines(lines_of(data, blank=True), **options)
    as_json = as_json or (out is not None and out.suffix == ".jsonl")
    located = _located(items, data)
    first = list(islice(located, 1))  # before the header: input that cannot be read prints nothing
    with replace_text_file(out) if out is not None else nullcontext() as file:
        if (header := model.header(**options)) and not as_json:
            typer.echo(header, file)
        cut = []
        for number, item in enumerate(chain(first, located), 1):
            if item.get("cut"):
                cut.append(number)
            typer.echo(json.dumps(item, ensure_ascii=False) if as_json else model.format(item, **options), file)
    warn_unlike(model, data)
    if cut:
        warn_cut(data, cut, model.settings.max_length, "row" if own else "line")


def _located(items: Iterator[dict[str, Any]], data: Path | None) -> Iterator[dict[str, Any]]:
    """`items`; an error in a line gets the name of its file, which a model that is given lines does not know."""

    try:
        yield from items
    except DataError as error:
        if error.file is not None:
            raise
        raise DataError(data or "standard input", error.line, error.problem, error.remedy) from error


def register(app: App, words: Sequence[str]) -> None:
    """Add the command, with the options of the run in `words`, too."""
    app.command()(for_task(predict, lambda task: task.predict_options, words[1:] if words[:1] == ["predict"] else ()))
