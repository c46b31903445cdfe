"""What a run says of new text: `carousel predict`; and what is in data before there is a run: `carousel check`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from carousel.errors import ArgumentError, DataError

from .errors import keep_input, warn_cut
from .pairs import PairCommand
from .use import JsonOption, RunArgument, lines_of, load


def predict(
    run: RunArgument,
    data: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="Text, an item a line, or a table; without it, standard input."),
    ] = None,
    n_best: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Also the next best taggings; for tag runs.")
    ] = None,
    conll: Annotated[
        bool,
        typer.Option("--conll", help="The file has a word a line, as files named .conll and .conllu; for tag runs."),
    ] = False,
    draw: Annotated[bool, typer.Option("--draw", help="Each tree as a drawing; for tree runs.")] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write here; a name that ends in .jsonl gets JSON.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object an item.")] = False,
) -> None:
    """What a trained model says of raw text: labels or tags, with the model's confidence in them.

    \b
    carousel predict run texts.txt > labels.tsv
    echo "a warm , funny film" | carousel predict run
    carousel predict run texts.txt --out labels.jsonl
    carousel predict run reviews.csv                       # the texts of a table, as in training; labels not needed
    carousel predict run untagged.conll --n-best 3         # a tagger's three best taggings
    carousel predict run trees.txt --draw                  # every node of a tree with its label
    """
    from carousel.files import replace_text_file

    if conll and data is None:
        raise typer.BadParameter("words in columns are read from a file; give one", param_hint="--conll")
    keep_input("--out", out, data)
    tagging = conll or n_best is not None
    what = "--draw" if not tagging else "--n-best" if n_best is not None else "--conll"
    if draw and tagging:
        raise typer.BadParameter(f"{what} is for taggers, which have no trees to draw", param_hint="--draw")
    model = load(run, "tag" if tagging else "tree" if draw else None, what=what)
    options = ({} if n_best is None else {"n_best": n_best}) | ({"draw": True} if draw else {})
    own = conll or (data is not None and data.suffix.lower() in model.own_files)
    items = model.predict_file(data, **options) if own else model.predict_lines(lines_of(data, blank=True), **options)
    as_json = as_json or (out is not None and out.suffix == ".jsonl")
    with replace_text_file(out) if out is not None else nullcontext() as file:
        if model.columns and not as_json:
            typer.echo("\t".join(model.columns), file)
        cut = []
        for number, found in enumerate(_located(items, data), 1):
            if found.get("cut"):
                cut.append(number)
            text = found["drawing"] + "\n" if draw else model.written(found)
            typer.echo(json.dumps(found, ensure_ascii=False) if as_json else text, file)
    if cut:
        warn_cut(data, cut, model.settings.max_length, "row" if own else "line")


def _located(items: Iterator[dict[str, Any]], data: Path | None) -> Iterator[dict[str, Any]]:
    """`items`; what is wrong with a line is said with its file, which a model that is given lines does not know."""

    try:
        yield from items
    except DataError as error:
        if error.file is not None:
            raise
        raise DataError(data or "standard input", error.line, error.problem, error.remedy) from error


def check(
    data: Annotated[list[Path], typer.Argument(metavar="DATA", help="What to train on; for a translator two files.")],
    dev: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="What to choose the best epoch by; likewise.")
    ] = None,
    task: Annotated[str | None, typer.Option(metavar="TASK", help="What it is for; else told by its name.")] = None,
    set: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting, as for train; may be repeated.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Look at data before training on it: counts, lengths, labels, unknown tokens, what is there twice.

    \b
    carousel check reviews.tsv --dev dev.tsv
    carousel check tweets.csv --set text_column=tweet --set label_column=topic
    carousel check poems.txt --dev dev.txt --json | jq .warnings
    carousel check train.en train.de --dev dev.en dev.de       # two files: a text and its translation
    carousel check pairs.tsv --task translate
    """
    from rich.console import Console

    kind = find_task(data, task)
    for name, files in (("DATA", data), ("--dev", dev or [])):
        if len(files) > kind.files:
            raise typer.BadParameter(f"{kind.name} reads one file, got {len(files)}", param_hint=name)
    alone = kind.files == 1
    given = {name: files[0] if files and alone else files or None for name, files in (("train", data), ("dev", dev))}
    found = kind.check(kind.Settings.read({}, pairs=set or [], **given))
    if as_json:
        typer.echo(json.dumps(found.as_dict(), ensure_ascii=False))
        return
    console = Console(highlight=False)
    console.print(found)
    for warning in found.warnings:
        console.print(warning, style="yellow", markup=False, soft_wrap=True)


def find_task(data: list[Path], task: str | None) -> Any:
    """The task by its name, or by the files: two are for a translator, one for what its name's ending says."""
    from carousel import models

    if task is not None:
        return models.find_task(task)
    for name in models.TASKS:
        kind = models.find_task(name)
        if data[0].suffix.lower() in kind.endings if len(data) == 1 else kind.files == len(data):
            return kind
    raise ArgumentError(
        f"{data[0]}: its name does not say what it is for; choose --task, one of {', '.join(models.TASKS)}"
    )


def register(app: typer.Typer) -> None:
    app.command()(predict)
    app.command(cls=PairCommand)(check)
