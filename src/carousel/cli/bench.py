"""`carousel bench …`: how fast, side by side with what a PyTorch user has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from .app import App
from .errors import errors_of

app = App(help="Measure speed against the alternatives, as ratios.")


def out_option(names: str) -> Any:
    """The option --out of a benchmark that writes these files."""
    return typer.Option("--out", metavar="DIR", file_okay=False, help=f"Directory for {names}.")


def seconds_option(extent: str) -> Any:
    """The option --seconds of a benchmark."""
    return typer.Option("--seconds", metavar="S", min=0.01, help=f"Seconds {extent}.")


def quick_option(extent: str) -> Any:
    """The option --quick of a benchmark."""
    return typer.Option("--quick", help=f"{extent}.")


def measure(benchmark: Callable[..., object], out: Path, **options: Any) -> None:
    """Run a benchmark that writes its files to `out`."""
    with errors_of("--out"):
        benchmark(out=out, **options)


@app.command()
def layers(
    out: Annotated[Path, out_option("layers.json and layers.html")] = Path("bench-layers"),
    quick: Annotated[bool, quick_option("Three shapes and short measurements: half a minute")] = False,
    seconds: Annotated[float | None, seconds_option("per pair; longer gives steadier results")] = None,
) -> None:
    """The recurrent layers against torch.nn's, alternating in one process, best of several.

    Every figure is a ratio, theirs / ours. The claims that the project makes
    are listed with what was found; those that do not hold are red.

    \b
    carousel bench layers                # all shapes, some minutes
    carousel bench layers --quick        # a quick estimate
    carousel bench layers --seconds 3    # on a busy machine
    """
    from carousel.bench import layers

    measure(layers.main, out, quick=quick, seconds=seconds)


@app.command()
def cells(
    out: Annotated[Path, out_option("cells.json")] = Path("bench-cells"),
    quick: Annotated[bool, quick_option("Three shapes and short measurements")] = False,
    seconds: Annotated[float | None, seconds_option("per pair; longer gives steadier results")] = None,
    processor_time: Annotated[
        bool, typer.Option("--processor-time", help="Measure the CPU time of one thread, for a machine that is busy.")
    ] = False,
    compiles: Annotated[
        bool,
        typer.Option("--compile", help="Also compare with torch.compile of a plain loop (takes minutes to compile)."),
    ] = False,
) -> None:
    """Cells that run as programs: beside kernels of their own, plain loops, a scan and jax.

    \b
    carousel bench cells                # all shapes, some minutes
    carousel bench cells --quick        # a quick estimate
    """
    from carousel.bench import cells

    measure(cells.main, out, quick=quick, seconds=seconds, processor_time=processor_time, compiles=compiles)


@app.command()
def overhead(
    out: Annotated[Path, out_option("overhead.json")] = Path("bench-overhead"),
    seconds: Annotated[float, seconds_option("per case")] = 1.0,
    threads: Annotated[int, typer.Option(metavar="N", min=1, help="Number of threads.")] = 2,
) -> None:
    """Where the time of a small call goes: native code, allocation, checks, autograd, Python.

    Each part is measured by itself, in turn with the whole call, best of many;
    Python is what is left of the whole; train is forward and backward.

    \b
    carousel bench overhead                # half a minute
    # without the cost of waking a second thread
    carousel bench overhead --threads 1
    """
    from carousel.bench import overhead

    measure(overhead.main, out, seconds=seconds, num_threads=threads)


@app.command()
def lm(
    out: Annotated[Path, out_option("lm.json")] = Path("bench-lm"),
    seconds: Annotated[float, seconds_option("per pair")] = 5.0,
) -> None:
    """Training and generation of language models against plain PyTorch, and the engine against a bare loop.

    \b
    carousel bench lm                    # two minutes
    carousel bench lm --seconds 20       # on a busy machine
    """
    from carousel.bench import lm

    measure(lm.main, out, seconds=seconds)


@app.command()
def scale(
    out: Annotated[Path, out_option("scale.json")] = Path("bench-scale"),
    steps: Annotated[int, typer.Option(metavar="N", min=8, help="Training steps per measurement.")] = 24,
    rounds: Annotated[int, typer.Option(metavar="N", min=1, help="Measurements, of which the best counts.")] = 2,
) -> None:
    """Two processes against one with two threads and with one; and 2 to 64 hosts, by a model.

    The model takes the measured time of a step and the measured bytes of its
    all-reduce: tokens/s on 10 Gb/s, and the batch size from which more hosts
    are faster than one.

    \b
    carousel bench scale                 # a minute or two
    carousel bench scale --rounds 5      # on a busy machine
    """
    from carousel.bench import scale

    measure(scale.main, out, steps=steps, rounds=rounds)


@app.command()
def output(
    out: Annotated[Path, out_option("output.json")] = Path("bench-output"),
    quick: Annotated[bool, quick_option("Two shapes and short measurements: some seconds")] = False,
    seconds: Annotated[float | None, seconds_option("per shape; longer gives steadier results")] = None,
) -> None:
    """The output layer (linear, softmax, cross-entropy) against the best that torch offers.

    Forward and backward alternating in one process, best of several. Every
    ratio is theirs / ours; claims that do not hold are red.

    \b
    carousel bench output                # all shapes, a minute
    carousel bench output --quick        # a quick estimate
    carousel bench output --seconds 15   # on a busy machine
    """
    from carousel.bench import output

    measure(output.main, out, quick=quick, seconds=seconds)


@app.command()
def tag(
    out: Annotated[Path, out_option("tag.json")] = Path("bench-tag"),
    seconds: Annotated[float, seconds_option("per setup")] = 5.0,
) -> None:
    """Training of taggers, softmax and CRF, with characters, against the same networks in plain PyTorch.

    \b
    carousel bench tag                   # half a minute
    carousel bench tag --seconds 20      # on a busy machine
    """
    from carousel.bench import tag

    measure(tag.main, out, seconds=seconds)


@app.command()
def tree(
    out: Annotated[Path, out_option("tree.json")] = Path("bench-tree"),
    seconds: Annotated[float, seconds_option("in total")] = 5.0,
) -> None:
    """Training on trees by levels against the same network node by node in plain PyTorch.

    \b
    carousel bench tree                  # some seconds
    carousel bench tree --seconds 20     # on a busy machine
    """
    from carousel.bench import tree

    measure(tree.main, out, seconds=seconds)


@app.command()
def translate(
    out: Annotated[Path, out_option("translate.json")] = Path("bench-translate"),
    run: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Compare on this run's texts, with its weights.", show_default=False),
    ] = None,
    seconds: Annotated[float, seconds_option("per pair")] = 5.0,
) -> None:
    """Training and beam search of a translator against Joey NMT, which must be installed.

    The same network and weights on both sides, in one process, taking turns.
    Without a run, batches of random words, the same for both, best of
    several; with one, its texts as each side draws and translates them.

    \b
    carousel bench translate               # some minutes
    carousel bench translate --seconds 60  # on a busy machine
    # a run of train translate --tied none --dev …
    carousel bench translate --run run
    """
    from carousel.bench import translate

    measure(translate.main, out, seconds=seconds, run=run)


def register(commands: App, _: Sequence[str]) -> None:
    commands.add_typer(app, name="bench")
