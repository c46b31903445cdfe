"""`carousel bench …`: how fast, side by side with what a PyTorch user has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from .app import App
from .errors import option

app = App(help="Measure speed against the alternatives, as ratios.")


@app.command()
def layers(
    out: Annotated[
        Path, typer.Option(metavar="DIR", file_okay=False, help="Directory for layers.json and layers.html.")
    ] = Path("bench-layers"),
    quick: Annotated[bool, typer.Option("--quick", help="Three shapes and short measurements: half a minute.")] = False,
    seconds: Annotated[
        float | None, typer.Option(metavar="S", min=0.01, help="Seconds per pair; longer gives steadier results.")
    ] = None,
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

    with option("--out"):
        layers.main(out=out, quick=quick, seconds=seconds)


@app.command()
def cells(
    out: Annotated[Path, typer.Option(metavar="DIR", file_okay=False, help="Directory for cells.json.")] = Path(
        "bench-cells"
    ),
    quick: Annotated[bool, typer.Option("--quick", help="Three shapes and short measurements.")] = False,
    seconds: Annotated[
        float | None, typer.Option(metavar="S", min=0.01, help="Seconds per pair; longer gives steadier results.")
    ] = None,
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

    with option("--out"):
        cells.main(out=out, quick=quick, seconds=seconds, processor_time=processor_time, compiles=compiles)


@app.command()
def overhead(
    out: Annotated[Path, typer.Option(metavar="DIR", file_okay=False, help="Directory for overhead.json.")] = Path(
        "bench-overhead"
    ),
    seconds: Annotated[float, typer.Option(metavar="S", min=0.01, help="Seconds per case.")] = 1.0,
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

    with option("--out"):
        overhead.main(out=out, seconds=seconds, num_threads=threads)


@app.command()
def lm(
    out: Annotated[Path, typer.Option(metavar="DIR", file_okay=False, help="Directory for lm.json.")] = Path(
        "bench-lm"
    ),
    seconds: Annotated[float, typer.Option(metavar="S", min=0.01, help="Seconds per pair.")] = 5.0,
) -> None:
    """Training and generation of language models against plain PyTorch, and the engine against a bare loop.

    \b
    carousel bench lm                    # two minutes
    carousel bench lm --seconds 20       # on a busy machine
    """
    from carousel.bench import lm

    with option("--out"):
        lm.main(out=out, seconds=seconds)


@app.command()
def scale(
    out: Annotated[Path, typer.Option(metavar="DIR", file_okay=False, help="Directory for scale.json.")] = Path(
        "bench-scale"
    ),
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

    with option("--out"):
        scale.main(out=out, steps=steps, rounds=rounds)


@app.command()
def output(
    out: Annotated[Path, typer.Option(metavar="DIR", file_okay=False, help="Directory for output.json.")] = Path(
        "bench-output"
    ),
    quick: Annotated[bool, typer.Option("--quick", help="Two shapes and short measurements: some seconds.")] = False,
    seconds: Annotated[
        float | None, typer.Option(metavar="S", min=0.01, help="Seconds per shape; longer gives steadier results.")
    ] = None,
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

    with option("--out"):
        output.main(out=out, quick=quick, seconds=seconds)


@app.command()
def tag(
    out: Annotated[Path, typer.Option(metavar="DIR", file_okay=False, help="Directory for tag.json.")] = Path(
        "bench-tag"
    ),
    seconds: Annotated[float, typer.Option(metavar="S", min=0.01, help="Seconds per setup.")] = 5.0,
) -> None:
    """Training of taggers, softmax and CRF, with characters, against the same networks in plain PyTorch.

    \b
    carousel bench tag                   # half a minute
    carousel bench tag --seconds 20      # on a busy machine
    """
    from carousel.bench import tag

    with option("--out"):
        tag.main(out=out, seconds=seconds)


@app.command()
def tree(
    out: Annotated[Path, typer.Option(metavar="DIR", file_okay=False, help="Directory for tree.json.")] = Path(
        "bench-tree"
    ),
    seconds: Annotated[float, typer.Option(metavar="S", min=0.01, help="Seconds in total.")] = 5.0,
) -> None:
    """Training on trees by levels against the same network node by node in plain PyTorch.

    \b
    carousel bench tree                  # some seconds
    carousel bench tree --seconds 20     # on a busy machine
    """
    from carousel.bench import tree

    with option("--out"):
        tree.main(out=out, seconds=seconds)


@app.command()
def translate(
    out: Annotated[Path, typer.Option(metavar="DIR", file_okay=False, help="Directory for translate.json.")] = Path(
        "bench-translate"
    ),
    run: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Compare on this run's texts, with its weights.", show_default=False),
    ] = None,
    seconds: Annotated[float, typer.Option(metavar="S", min=0.01, help="Seconds per pair.")] = 5.0,
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

    with option("--out"):
        translate.main(out=out, seconds=seconds, run=run)


def register(commands: App, _: Sequence[str]) -> None:
    commands.add_typer(app, name="bench")
