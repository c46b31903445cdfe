"""The `carousel` command and the one place where errors become a line and an exit code.

Commands raise; `main` reports. A wrong option exits with 2, whatever else a user can put right (`CarouselError`, a file
that cannot be used, too little memory) with 1, Ctrl-C with 130. Any other exception is a bug of ours and exits with 70.
Commands import what they run inside their functions, so that help does not wait for it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

import carousel

from . import baseline, bench, data, demo, lab, predict, train, translate, use, vectors
from .errors import BUG, bug, fail, fault, usage

ORDER = (
    "train", "eval", "predict", "translate", "generate", "score", "embed", "similar", "check", "baseline", "demo",
    "bench", "lab", "data",
)  # fmt: skip


# Commands whose options come from a task or a lab, which is known from the arguments only.
BY_ARGUMENTS = {
    "train": train.register_for, "predict": predict.register_for, "eval": use.register_for, "lab": lab.register_for,
    "baseline": baseline.register_for,
}  # fmt: skip


class Commands(TyperGroup):
    """The commands in the order in which a user needs them."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx), key=ORDER.index)


app = typer.Typer(
    name="carousel",
    cls=Commands,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Errors are one line; set CAROUSEL_TRACEBACK=1 for a traceback.",
)
app.add_typer(baseline.app, name="baseline")
app.add_typer(bench.app, name="bench")
app.add_typer(lab.app, name="lab")
app.add_typer(train.app, name="train")
app.add_typer(data.app, name="data")
demo.register(app)
use.register(app)
predict.register(app)
translate.register(app)
vectors.register(app)


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command line; `args` stands in for `sys.argv[1:]`. Nothing asked is help asked."""
    args = sys.argv[1:] if args is None else args
    try:
        words = [arg for arg in args if arg != "--"]
        if words and words[0] in BY_ARGUMENTS:
            BY_ARGUMENTS[words[0]](app, words[1:])
        code = app(list(args) or ["--help"], prog_name="carousel", standalone_mode=False)
    except typer.TyperException as error:
        fail(usage(error), error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        fail("interrupted", 130)
    except Exception as error:
        if os.environ.get("CAROUSEL_TRACEBACK"):
            raise
        if (text := fault(error)) is not None:
            fail(text, 1)
        fail(bug(error, args), BUG)
    sys.exit(code if isinstance(code, int) else 0)


def print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"carousel {carousel.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Recurrent networks for PyTorch, at fused speed, with glass walls.

    \b
    # see it work: a translator of dates, in two minutes
    carousel demo
    carousel bench layers      # measure it here, against torch.nn
    carousel demo --help       # what a command does, with examples
    """


if __name__ == "__main__":
    main()
