"""`carousel translate`: lines of text by a trained translator."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from carousel.decoding.config import GenerationConfig

from .errors import apart, keep_input
from .generation_options import generation_options, with_seed
from .use import RunArgument, lines_of, load

OUTPUT = "Output"


@generation_options
def translate(
    run: RunArgument,
    config: GenerationConfig,
    data: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Text, one item on each line; default: standard input.")
    ] = None,
    prefixes: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The forced beginning of each translation, one on each line.")
    ] = None,
    ensemble: Annotated[
        list[Path] | None,
        typer.Option("--with", metavar="RUN", help="Another run, whose probabilities are averaged; may be repeated."),
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write here.", rich_help_panel=OUTPUT)] = None,
    alignment: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="For each token the place with the most attention, as pairs i-j (Pharaoh).",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    attention: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The attention as a picture: .png, .svg, .pdf.", rich_help_panel=OUTPUT),
    ] = None,
    tree: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The search tree as a picture; - prints it as text.", rich_help_panel=OUTPUT),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object for each line, with tokens and scores.",
                           rich_help_panel=OUTPUT)
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress, notes or seed on standard error.")] = False,
) -> None:  # fmt: skip
    """Translate lines of text: by beam search, unless --temperature or another sampling option is given.

    An empty line stays empty, and one that is too long for the model is
    truncated; notes on standard error give the line numbers. With -n, several
    translations of each line: line number, score and text, separated by tabs.
    Pictures are for at most 50 lines; those of the second are FILE-2 and so on.
    Of a .tsv file the run's source column is translated.

    \b
    carousel translate run texts.txt > translated.txt
    echo "a man is sleeping ." | carousel translate run
    carousel translate run texts.txt --num-beams 10 --length-normalization gnmt -n 3
    carousel translate run texts.txt --with run2 --with run3        # an ensemble
    carousel translate run texts.txt --temperature 0.8 --top-k 20 --seed 7
    carousel translate run texts.txt --unknown replace --alignment links.txt
    carousel translate run texts.txt --constraint my.py:Rhyme       # a rule of your own
    echo "a man is sleeping ." | carousel translate run --attention a.png --tree -
    """
    from .figures import Figures

    if as_json and str(tree) == "-":
        raise typer.BadParameter("a tree as text is not JSON; give a file, or omit --json", param_hint="--tree")
    apart({"--out": out, "--alignment": alignment, "--attention": attention, "--tree": tree})
    for name, path in (("--out", out), ("--alignment", alignment)):
        keep_input(name, path, data, prefixes)
    if prefixes is not None:
        if config.prefix:
            raise typer.BadParameter("one for all lines, or one for each; give one of the two", param_hint="--prefixes")
        config = replace(config, prefix=list(lines_of(prefixes, blank=True)))
    shown = {
        "attention": Figures("--attention", attention),
        "tree": Figures("--tree", None if str(tree) == "-" else tree),
    }
    model, *others = [load(folder, "translate") for folder in (run, *(ensemble or []))]
    if (attention or alignment) is not None and model.decoder.attention is None:
        raise ValueError(f"{run}: the model has no attention to show; train one with attention: additive")
    resolved = replace(
        config.resolve("translate"),
        attention=alignment is not None or attention is not None or as_json,
        tree=tree is not None,
    )
    translations = model.translations(
        sources(data, model.settings.source_column), resolved, ensemble=others,
        window=1 if data is None and sys.stdin.isatty() else 1024,
    )  # fmt: skip
    lines = _with_progress(with_seed(translations, resolved if quiet else config, resolved), data, quiet)
    numbered = config.num_return_sequences > 1
    _write(
        lines, data, out, alignment, shown, numbered=numbered, text_tree=str(tree) == "-", as_json=as_json, quiet=quiet
    )


def _write(
    translations: Iterator[Any], data: Path | None, out: Path | None, alignment: Path | None, shown: dict[str, Any], *,
    numbered: bool, text_tree: bool, as_json: bool, quiet: bool,
) -> None:  # fmt: skip
    """Write translations as they come, and their pictures at the end."""
    from carousel.report import replacing

    with ExitStack() as files:
        file = files.enter_context(replacing(out)) if out is not None else None
        links = files.enter_context(replacing(alignment)) if alignment is not None else None
        for number, one in enumerate(translations, 1):
            if one.note and not quiet:
                typer.echo(f"{data or 'standard input'}:{number}: {one.note}", err=True)
            if as_json:
                typer.echo(json.dumps(one.as_dict(), ensure_ascii=False), file)
            elif not numbered:
                typer.echo(one.text, file)
            else:
                for each in one.sequences:
                    typer.echo(f"{number}\t{each.score:.4f}\t{each.text}", file)
            if links is not None:
                typer.echo(" ".join(f"{i}-{j}" for i, j in one.alignment()), links)
            if not one.source_tokens:
                continue  # an empty line has no pictures
            if text_tree:
                typer.echo(one.tree, file)
            shown["attention"].add(number, one.attention_picture)
            if one.tree is not None:
                shown["tree"].add(number, one.tree.picture)
        for figures in shown.values():
            figures.write()


def sources(data: Path | None, column: int) -> Iterator[str]:
    """The lines to translate; of a .tsv file its `column`, counted from 1."""
    for number, line in enumerate(lines_of(data, blank=True), 1):
        if data is None or data.suffix.lower() != ".tsv" or not line:
            yield line
            continue
        cells = line.split("\t")
        if len(cells) < column:
            raise ValueError(f"{data}:{number}: it has no column {column}, the source_column of the run")
        yield cells[column - 1]


def _with_progress(translations: Iterator[Any], data: Path | None, quiet: bool) -> Iterator[Any]:
    """`translations`, with a progress bar on standard error if that is a terminal and a file is translated."""
    if quiet or data is None or not sys.stderr.isatty():
        yield from translations
        return
    from rich.console import Console
    from rich.progress import track

    with data.open("rb") as file:
        total = sum(1 for _ in file)
    yield from track(translations, "translating", total, console=Console(stderr=True), transient=True)


def register(app: typer.Typer) -> None:
    app.command()(translate)
