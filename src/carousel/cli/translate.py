"""`carousel translate`: lines of text by a trained translator."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from carousel.decoding.config import GenerationConfig
from carousel.errors import DataError, RunError

from .app import App
from .errors import apart, check_output, warn_unlike
from .generation_options import generation_options, with_seed
from .runs import RunArgument, lines_of, load, unless_dash
from .task_options import CellOption, TaskOption


def _file(help: str, **options: Any) -> Any:
    return typer.Option(metavar="FILE", help=help, rich_help_panel="Output", **options)


@generation_options
def translate(
    run: RunArgument,
    config: GenerationConfig,
    data: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]", help="Text, one item per line; default: standard input.", callback=unless_dash
        ),
    ] = None,
    prefixes: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File of forced prefixes, one per line.")
    ] = None,
    ensemble: Annotated[
        list[Path] | None,
        typer.Option("--with", metavar="RUN", help="Another run, whose probabilities are averaged; may be repeated."),
    ] = None,
    out: Annotated[Path | None, _file("Write here.", callback=unless_dash)] = None,
    alignment: Annotated[
        Path | None, _file("Alignments i-j: token j and the source position i with most attention; - prints them.")
    ] = None,
    attention: Annotated[Path | None, _file("The attention as a picture: .png, .svg, .pdf.")] = None,
    tree: Annotated[Path | None, _file("The search tree as a picture; - prints it as text.")] = None,
    task: TaskOption = None,
    cell: CellOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress, notes or seed on standard error.")] = False,
) -> None:
    """Translate lines of text: by beam search, unless --temperature or another sampling option is given.

    An empty line stays empty, and one that is too long for the model is
    truncated; notes on standard error give the line numbers. With -n, several
    translations of each line: line number, score and text, separated by tabs.
    Pictures are drawn for at most 50 lines: FILE for the first, FILE-2 for the
    second and so on. In a .tsv file the run's source column is translated.

    \b
    carousel translate run texts.txt > translated.txt
    echo "a man is sleeping ." | carousel translate run
    carousel translate run texts.txt --num-beams 10 \\
        --length-normalization gnmt -n 3
    # an ensemble
    carousel translate run texts.txt --with run2 --with run3
    carousel translate run texts.txt --temperature 0.8 --top-k 20 --seed 7
    carousel translate run texts.txt --unknown replace --alignment links.txt
    # a rule of your own
    carousel translate run texts.txt --constraint my.py:Rhyme
    echo "a man is sleeping ." | carousel translate run --attention a.png \\
        --tree -
    """
    output = Output(data, out, alignment, attention, tree, as_json, quiet, config.num_return_sequences > 1)
    output.check(prefixes)
    config = config if prefixes is None else _with_prefixes(config, prefixes)
    model, *others = [load(folder, "translate", task, cell) for folder in (run, *(ensemble or []))]
    if (attention or alignment) is not None and model.network.decoder.attention is None:
        raise RunError(f"{run}: the model has no attention to show; train one with attention: additive")
    resolved = replace(config.resolve("translation"), attention=output.needs_attention, tree=tree is not None)
    column = model.settings.source_column
    if data is not None and data.is_file():  # before the first line is translated; a pipe can be read once
        output.check_figures(sources(data, column))
    lines = sources(data, column)
    window = 1 if data is None and sys.stdin.isatty() else 1024
    translations = model.translations(lines, resolved, ensemble=others, window=window)
    results = with_seed(translations, resolved if quiet else config, resolved)
    output.write(_with_progress(results, data) if output.leaves_terminal and not quiet else results)
    if not quiet:
        warn_unlike(model, data)


def _with_prefixes(config: GenerationConfig, prefixes: Path) -> GenerationConfig:
    """`config` with a forced prefix for each line."""
    if config.prefix:
        raise typer.BadParameter("one for all lines, or one for each; give one of the two", param_hint="--prefixes")
    return replace(config, prefix=list(lines_of(prefixes, blank=True)))


@dataclass
class Output:
    """Where and how the translations of `data` are written; the paths are those of the options."""

    data: Path | None
    out: Path | None
    alignment: Path | None
    attention: Path | None
    tree: Path | None
    as_json: bool
    quiet: bool
    numbered: bool

    def check(self, prefixes: Path | None) -> None:
        """Refuse outputs that contradict each other, or that would replace an input."""
        from .figures import Figures

        for name, text in (("--tree", self.text_tree), ("--alignment", self.text_alignment)):
            if self.as_json and text:
                raise typer.BadParameter("text is not JSON; give a file, or omit --json", param_hint=name)
        paths = {"--out": self.out, "--alignment": self.alignment, "--attention": self.attention, "--tree": self.tree}
        apart(paths)
        for name in ("--out", "--alignment"):
            check_output(name, unless_dash(paths[name]), self.data, prefixes)
        self.heat_maps = Figures("--attention", self.attention)
        self.trees = Figures("--tree", None if self.text_tree else self.tree)

    def check_figures(self, lines: Iterator[str]) -> None:
        """Refuse more lines than figures can be drawn of; empty ones have none."""
        from .figures import MOST

        count = len(list(islice((line for line in lines if line.strip()), MOST + 1)))
        for figures in (self.heat_maps, self.trees):
            figures.check(count)

    @property
    def text_tree(self) -> bool:
        return str(self.tree) == "-"

    @property
    def text_alignment(self) -> bool:
        return str(self.alignment) == "-"

    @property
    def needs_attention(self) -> bool:
        return self.as_json or self.alignment is not None or self.attention is not None

    @property
    def leaves_terminal(self) -> bool:
        """Whether translations go to a file, so that a progress bar on the terminal does not disturb it. What a pipe
        leads to may print on the same line."""
        return self.out is not None or is_file(sys.stdout)

    def write(self, translations: Iterator[Any]) -> None:
        """Write translations as they come, and their figures at the end."""
        from carousel.files import replace_text_file

        with ExitStack() as files:
            file = files.enter_context(replace_text_file(self.out)) if self.out is not None else None
            own = unless_dash(self.alignment)
            links = files.enter_context(replace_text_file(own)) if own is not None else file
            for number, one in enumerate(translations, 1):
                if one.note and not self.quiet:
                    typer.echo(f"{self.data or 'standard input'}:{number}: {one.note}", err=True)
                typer.echo(self.format(one, number), file)
                if self.alignment is not None:
                    typer.echo(" ".join(f"{i}-{j}" for i, j in one.alignment()), links)
                if not one.source_tokens:
                    continue  # an empty line has no figures
                if self.text_tree:
                    typer.echo(one.tree, file)
                self.heat_maps.add(number, one.attention_picture)
                if one.tree is not None:
                    self.trees.add(number, one.tree.picture)
            self.heat_maps.write()
            self.trees.write()

    def format(self, one: Any, number: int) -> str:
        if self.as_json:
            return json.dumps(one.as_dict(), ensure_ascii=False)
        if not self.numbered:
            return one.text
        return "\n".join(f"{number}\t{each.score:.4f}\t{each.text}" for each in one.sequences)


def sources(data: Path | None, column: int) -> Iterator[str]:
    """The lines to translate; of a .tsv file its `column`, counted from 1."""
    for number, line in enumerate(lines_of(data, blank=True), 1):
        if data is None or data.suffix.lower() != ".tsv" or not line:
            yield line
            continue
        cells = line.split("\t")
        if len(cells) < column:
            raise DataError(data, number, f"there is no column {column}", "give the source_column of the run")
        yield cells[column - 1]


def is_file(stream: Any) -> bool:
    """Whether a stream goes to a regular file."""
    try:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except (OSError, AttributeError, ValueError):  # a stand-in without a descriptor
        return False


def _with_progress(translations: Iterator[Any], data: Path | None) -> Iterator[Any]:
    """`translations`, with a progress bar on standard error if that is a terminal and a file is translated."""
    if data is None or not data.is_file() or not sys.stderr.isatty():
        yield from translations
        return
    from rich.console import Console
    from rich.progress import track

    with data.open("rb") as file:
        total = sum(1 for _ in file)
    yield from track(translations, "translating", total, console=Console(stderr=True), transient=True)


def register(app: App, _: Sequence[str]) -> None:
    app.command()(translate)
