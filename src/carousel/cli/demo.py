"""`carousel demo`: see it work."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from .app import App
from .errors import fail


def demo(
    out: Annotated[
        Path, typer.Option(metavar="DIR", file_okay=False, help="Directory for data, run and report.")
    ] = Path("demo-dates"),
    seed: Annotated[int, typer.Option(metavar="N", min=0, max=2**32 - 1, help="Random seed.")] = 0,
    threads: Annotated[int | None, typer.Option(metavar="N", min=1, help="CPU threads; default: all.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not show progress.")] = False,
) -> None:
    """Train a translator of written dates in two minutes, and try it.

    "the third of March, 1998", "3.3.98", "le trois mars 1998", 一九九八年三月三日
    become 1998-03-03. The data is generated locally. Test dates are held out: the
    network has not seen them in any form.

    \b
    carousel demo
    echo "Dienstag, den 3. März 1998" | carousel translate demo-dates/run
    """
    from carousel.demo import EXAMPLES, program, run
    from carousel.training.checkpoint_callback import Interrupted

    command = shlex.join(["carousel", *sys.argv[1:]])
    try:
        done = run(out, seed=seed, quiet=quiet, command=command, threads=threads)
    except Interrupted as stopped:
        fail(f"{stopped}; start again with: {command}", stopped.code)
    typer.echo(f"{done}\n\nLook at {shlex.quote(str(done.folder / 'report.html'))}, and try your own:")
    typer.echo(f"  echo {shlex.quote(EXAMPLES[0])} | {program()} translate {shlex.quote(str(done.folder / 'run'))}")


def register(app: App, _: Sequence[str]) -> None:
    app.command()(demo)
