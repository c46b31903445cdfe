"""`carousel translate`: what a trained translator makes of lines."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from .errors import apart, keep_input
from .use import RunArgument, lines_of, load

DRAWING, SEARCH, OUTPUT = "Drawing", "Beam search", "Output"


def translate(
    run: RunArgument,
    data: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Text, an item a line; without it, standard input.")
    ] = None,
    beam: Annotated[
        int | None, typer.Option(metavar="WIDTH", min=1, help="Width; 5 unless given.", rich_help_panel=SEARCH)
    ] = None,
    length: Annotated[
        str,
        typer.Option(
            metavar="mean|gnmt|none", help="How scores of long and short ones compare.", rich_help_panel=SEARCH
        ),
    ] = "mean",
    alpha: Annotated[
        float | None, typer.Option(help="Of gnmt, above 0; 0.6 unless given.", rich_help_panel=SEARCH)
    ] = None,
    completed: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Stop when so many are complete; as the beam is wide.", rich_help_panel=SEARCH
        ),
    ] = None,
    max_length: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="The most tokens; twice the source and 20.", rich_help_panel=SEARCH),
    ] = None,
    greedy: Annotated[bool, typer.Option("--greedy", help="The most probable token at every step.")] = False,
    temperature: Annotated[
        float | None, typer.Option(help="Below 1 surer, above 1 bolder.", rich_help_panel=DRAWING)
    ] = None,
    top_k: Annotated[int | None, typer.Option(help="Draw from the k best.", rich_help_panel=DRAWING)] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Draw from the fewest with this share.", rich_help_panel=DRAWING)
    ] = None,
    random_k: Annotated[int | None, typer.Option(help="The k best, each as likely.", rich_help_panel=DRAWING)] = None,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same text.", rich_help_panel=DRAWING)] = 0,
    n_best: Annotated[int, typer.Option("--n-best", "-n", metavar="N", min=1, help="Translations of each line.")] = 1,
    prefix: Annotated[str, typer.Option(metavar="TEXT", help="How every translation begins.")] = "",
    prefixes: Annotated[
        Path | None, typer.Option(metavar="FILE", help="How each translation begins, one a line.")
    ] = None,
    unknown: Annotated[
        str,
        typer.Option(metavar="ban|show|replace", help="[UNK]: never; shown; or the source word it looked at most."),
    ] = "ban",
    ensemble: Annotated[
        list[Path] | None, typer.Option("--with", metavar="RUN", help="Another run to decide with; may be repeated.")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Lines at a time; changes no translation.")] = 64,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write here.", rich_help_panel=OUTPUT)] = None,
    alignment: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Where each token looked most, as pairs i-j (Pharaoh).", rich_help_panel=OUTPUT
        ),
    ] = None,
    attention: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Where each token looked, as a picture: .png, .svg, .pdf.", rich_help_panel=OUTPUT
        ),
    ] = None,
    tree: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The search as a tree, as a picture; - prints it as text.", rich_help_panel=OUTPUT
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a line, with tokens and scores.", rich_help_panel=OUTPUT)
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress, no notes on odd lines.")] = False,
) -> None:
    """Translate lines of text.

    A line that is empty stays empty; one that is too long for the model is cut
    off; both are said on standard error. With -n several translations of each
    line are written: the line's number, score and text, with tabs between.
    Pictures are for at most 50 lines; those of the second are FILE-2 and so on.
    Of a .tsv file the run's source column is translated.

    \b
    carousel translate run texts.txt > translated.txt
    echo "a man is sleeping ." | carousel translate run
    carousel translate run texts.txt --beam 10 --length gnmt --alpha 1 -n 3
    carousel translate run texts.txt --with run2 --with run3        # an ensemble
    carousel translate run texts.txt --temperature 0.8 --top-k 20 --seed 7
    carousel translate run texts.txt --unknown replace --alignment links.txt
    echo "a man is sleeping ." | carousel translate run --attention a.png --tree -
    """
    from carousel.files import replace_text_file

    from .drawing import Drawings

    drawn = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "random_k": random_k}
    drawing = [name for name, value in drawn.items() if value is not None]
    if greedy and (drawing or beam is not None):
        raise typer.BadParameter("it neither draws nor searches; leave the other options away", param_hint="--greedy")
    if drawing and beam is not None:
        raise typer.BadParameter("a beam searches, samplers draw; choose one of them", param_hint="--beam")
    if alpha is not None and length != "gnmt":
        raise typer.BadParameter("alpha belongs to --length gnmt", param_hint="--alpha")
    if prefix and prefixes is not None:
        raise typer.BadParameter(
            "every translation begins alike, or each has its own; choose one", param_hint="--prefix"
        )
    if as_json and str(tree) == "-":
        raise typer.BadParameter(
            "a tree in words is not JSON; give it a file, or leave --json away", param_hint="--tree"
        )
    apart({"--out": out, "--alignment": alignment, "--attention": attention, "--tree": tree})
    wish: dict[str, Any] = {
        **drawn, "beam": 1 if greedy else 5 if beam is None else beam, "n": n_best, "length": length,
        "completed": completed, "max_length": max_length, "unknown": unknown, "seed": seed, "tree": tree is not None,
        "prefix": prefix if prefixes is None else list(lines_of(prefixes, blank=True)),
    } | ({} if alpha is None else {"alpha": alpha})  # fmt: skip
    keep_input("--out", out, data, prefixes)
    keep_input("--alignment", alignment, data, prefixes)
    looks, trees = Drawings("--attention", attention), Drawings("--tree", None if str(tree) == "-" else tree)
    model, *others = [load(folder, "translate") for folder in (run, *(ensemble or []))]
    found = model.translations(
        sources(data, model.settings.source_column), ensemble=others, batch=batch,
        attention=alignment is not None or attention is not None or as_json,
        window=1 if data is None and sys.stdin.isatty() else 1024, **wish,
    )  # fmt: skip
    if (attention or alignment) is not None and model.decoder.attention is None:
        raise ValueError(f"{run}: the model has no attention to show; train one with attention: additive")
    with ExitStack() as files:
        file = files.enter_context(replace_text_file(out)) if out is not None else None
        links = files.enter_context(replace_text_file(alignment)) if alignment is not None else None
        for number, made in enumerate(_watched(found, data, quiet), 1):
            if made.note and not quiet:
                typer.echo(f"{data or 'standard input'}:{number}: {made.note}", err=True)
            if as_json:
                typer.echo(json.dumps(made.as_dict(), ensure_ascii=False), file)
            elif n_best == 1:
                typer.echo(made.text, file)
            else:
                for one in made.n_best:
                    typer.echo(f"{number}\t{one.score:.4f}\t{one.text}", file)
            if links is not None:
                typer.echo(" ".join(f"{i}-{j}" for i, j in made.alignment()), links)
            if not made.source_tokens:
                continue  # of an empty line there is nothing to see
            if str(tree) == "-":
                typer.echo(made.tree, file)
            looks.add(number, made.attention_picture)
            if made.tree is not None:
                trees.add(number, made.tree.picture)
        looks.write()
        trees.write()


def sources(data: Path | None, column: int) -> Iterator[str]:
    """The lines to translate; of a .tsv file what stands in `column`, from 1."""
    for number, line in enumerate(lines_of(data, blank=True), 1):
        if data is None or data.suffix.lower() != ".tsv" or not line:
            yield line
            continue
        cells = line.split("\t")
        if len(cells) < column:
            raise ValueError(f"{data}:{number}: it has no column {column}, the source_column of the run")
        yield cells[column - 1]


def _watched(found: Iterator[Any], data: Path | None, quiet: bool) -> Iterator[Any]:
    """`found` with a bar on standard error, if somebody looks at it while a file is translated."""
    if quiet or data is None or not sys.stderr.isatty():
        yield from found
        return
    from rich.console import Console
    from rich.progress import track

    with data.open("rb") as file:
        total = sum(1 for _ in file)
    yield from track(found, "translating", total, console=Console(stderr=True), transient=True)


def register(app: typer.Typer) -> None:
    app.command()(translate)
