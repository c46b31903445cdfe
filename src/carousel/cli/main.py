"""The `carousel` command and the one place where errors become a line and an exit code.

Commands raise; `main` reports. A wrong option exits with 2, whatever else a user can put right (`CarouselError`, a file
that cannot be used, too little memory) with 1, Ctrl-C with 130. Any other exception is a bug of ours and exits with 70.
Commands import what they run inside their functions, so that help does not wait for it.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn

import typer

import carousel
from carousel.tasks.registry import BUILT_IN
from carousel.wording import dashed, spelling

from . import interrupts
from .app import App, Group
from .errors import BUG, bug, fail, fault, usage

# Each command, in the order in which a user needs them, and the module that registers it.
COMMANDS = {
    "train": "train", "eval": "use", "predict": "predict", "translate": "translate", "generate": "use", "score": "use",
    "embed": "vectors", "similar": "vectors", "check": "check", "baseline": "baseline", "sweep": "sweep",
    "compare": "compare", "demo": "demo", "bench": "bench", "lab": "lab", "data": "data",
}  # fmt: skip
SYNONYMS = {  # what a reader may call a command, and what to write
    **{task: f"train {task}" for task in BUILT_IN if task not in COMMANDS},
    "fit": "train", "evaluate": "eval", "test": "eval", "infer": "predict", "sample": "generate", "perplexity": "score",
    "vectors": "embed", "search": "similar", "validate": "check", "inspect": "check", "tune": "sweep",
    "diff": "compare", "benchmark": "bench", "download": "data", "corpora": "data",
}  # fmt: skip


class Commands(Group):
    """The commands in the order of COMMANDS."""

    synonyms = SYNONYMS

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx), key=list(COMMANDS).index)


def application(args: Sequence[str]) -> App:
    """The command line as far as `args` need it: the module of the command they name, or all of them for a list.

    A module's `register` adds its commands, those that depend on a task or a lab as far as the words that it receives,
    from the command's name on, need them.
    """
    words = [arg for arg in args if arg != "--"]
    named = words[0] if words and words[0] in COMMANDS else None
    app = App(name="carousel", cls=Commands, epilog="Errors are one line; set CAROUSEL_TRACEBACK=1 for a traceback.")
    app.callback()(root)
    for module in [COMMANDS[named]] if named else dict.fromkeys(COMMANDS.values()):
        importlib.import_module(f"carousel.cli.{module}").register(app, words if named else [])
    return app


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command line; `args` stands in for `sys.argv[1:]`."""
    args = sys.argv[1:] if args is None else args
    with interrupts.remembered(), spelling(dashed):
        try:
            code = application(args)(list(args), prog_name="carousel", standalone_mode=False)
        except typer.TyperException as error:
            fail(usage(error), error.exit_code)
        except (KeyboardInterrupt, typer.Abort):
            fail("interrupted", 130)
        except SystemExit as end:  # Typer's silent answer to Ctrl-C outside of a command's own code
            if interrupts.seen() and end.code == 130:
                fail("interrupted", 130)
            raise
        except Exception as error:
            _report(error, args)
    sys.exit(code if isinstance(code, int) else 0)


def _report(error: Exception, args: Sequence[str]) -> NoReturn:
    """Print what a user can put right, or that it is a bug of ours, and exit."""
    if interrupts.seen():  # whatever an interrupted import made of it
        fail("interrupted", 130)
    if os.environ.get("CAROUSEL_TRACEBACK"):
        raise error
    if (text := fault(error)) is not None:
        fail(text, 1)
    fail(bug(error, args), BUG)


def print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"carousel {carousel.__version__}")
        raise typer.Exit


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
