"""`carousel translate`: what a trained translator makes of lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from .use import RunArgument, lines_of, load


def translate(
    run: RunArgument,
    data: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Text, an item a line; without it, standard input.")
    ] = None,
    beam: Annotated[int, typer.Option(metavar="WIDTH", min=1, help="Width of the beam; 1 is greedy.")] = 5,
    batch: Annotated[int, typer.Option(min=1, help="Lines at a time.")] = 64,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """Translate lines of text.

    \b
    carousel translate run texts.txt > translated.txt
    echo "a man is sleeping ." | carousel translate run
    """
    model = load(run, "translate")
    for made in model.translations(lines_of(data, blank=True), beam=beam, batch=batch):
        typer.echo(json.dumps(made.as_dict(), ensure_ascii=False) if as_json else made.text)


def register(app: typer.Typer) -> None:
    app.command()(translate)
