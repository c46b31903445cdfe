"""`carousel lab …`: each claim of the textbook as something that runs."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from .errors import option
from .use import load

app = typer.Typer(
    invoke_without_command=True,
    help="Run a claim of the textbook and see whether it stands.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="DIR", file_okay=False, help="Write the page (index.html), figures and numbers there."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="The numbers as JSON instead of words.")]
RunOption = Annotated[Path | None, typer.Option("--run", metavar="RUN", help="Look at this trained model too.")]
DataOption = Annotated[
    list[Path] | None,
    typer.Option("--data", metavar="FILE", help="What it reads; without this, its own dev or training file."),
]
SeedOption = Annotated[int, typer.Option(metavar="N", min=0, max=2**32 - 1, help="Same seed, same numbers.")]


@app.callback()
def group(context: typer.Context) -> None:
    """Run a claim of the textbook and see whether it stands."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@contextmanager
def showing(out: Path | None, as_json: bool) -> Iterator[list[Any]]:
    """Where a command puts its finding: it is printed, and written to `out`, which is tried before the work begins."""
    from carousel.files import replace_files

    shown: list[Any] = []
    command = shlex.join(["carousel", *sys.argv[1:]])
    if out is None:
        yield shown
    else:
        with option("--out"), replace_files(out) as folder:
            yield shown
            shown[0].fill(folder, command)
    finding = shown[0]
    if as_json:
        typer.echo(json.dumps(finding.numbers(), ensure_ascii=False))
    else:
        verdict = finding.verdict()
        typer.echo(finding if verdict.stands is None else f"{finding}\n\n{verdict}")
    if out is not None:
        typer.echo(out / "index.html", err=as_json)


def model_of(run: Path | None, data: list[Path] | None) -> Any:
    """The model to look at, if there is one."""
    if run is None and data is not None:
        raise typer.BadParameter("there is no model to read it; give one with --run", param_hint="--data")
    return None if run is None else load(run)


@app.command("list")
def every() -> None:
    """What labs there are."""
    from carousel.lab import LABS

    width = max(map(len, LABS))
    for name, says in LABS.items():
        typer.echo(f"{name:{width}}  {says}")


@app.command("all")
def book(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", file_okay=False, help="Where the pages go.")],
) -> None:
    """Run every lab and write the whole book: a page for each, and index.html that leads to them.

    \b
    carousel lab all --out book
    """
    from carousel.lab.book import write_book

    with option("--out"):
        page = write_book(
            out, command=shlex.join(["carousel", *sys.argv[1:]]), say=lambda line: typer.echo(line, err=True)
        )
    typer.echo(page)


@app.command()
def beam(
    models: Annotated[int, typer.Option(metavar="N", min=1, help="How many small models are searched.")] = 100,
    vocabulary: Annotated[int, typer.Option(metavar="V", min=2, help="Tokens of each, the end among them.")] = 5,
    longest: Annotated[int, typer.Option(metavar="T", min=1, help="The most tokens of a sequence.")] = 5,
    seed: SeedOption = 0,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Greedy, beam and exhaustive search: how often each finds the best sequence, and what it costs.

    \b
    carousel lab beam                    # a table, in ten seconds
    carousel lab beam --out beam         # and a page with the tree of a search
    carousel lab beam --vocabulary 8 --longest 4
    """
    from carousel import lab

    with showing(out, as_json) as shown:
        shown.append(lab.beam(models, vocabulary=vocabulary, longest=longest, seed=seed))


@app.command()
def bleu(
    translation: Annotated[
        str | None, typer.Argument(metavar="[TRANSLATION]", help="A sentence; without it, the notes' example.")
    ] = None,
    references: Annotated[
        list[str] | None, typer.Argument(metavar="[REFERENCE]...", help="What it should have been: one or more.")
    ] = None,
    longest: Annotated[int, typer.Option(metavar="N", min=1, help="The longest n-grams that count.")] = 4,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Explain the BLEU of a sentence, n-gram by n-gram: what matches, what is clipped, what is in no reference.

    \b
    carousel lab bleu
    carousel lab bleu "ein mann geht" "ein mann läuft" "ein mann geht dort"
    carousel lab bleu --out bleu         # and a page
    """
    from carousel import lab

    if translation is not None and not references:
        raise typer.BadParameter("a translation needs at least one reference after it", param_hint="REFERENCE")
    with showing(out, as_json) as shown:
        given = () if translation is None else (translation, references)
        shown.append(lab.bleu(*given, longest=longest))


@app.command()
def bptt(
    steps: Annotated[int, typer.Option(metavar="T", min=1, help="Steps of a sequence.")] = 12,
    hidden: Annotated[int, typer.Option(metavar="H", min=1, help="Units of a layer.")] = 4,
    seed: SeedOption = 0,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take every gradient of every cell by four routes, and see how far apart they are.

    \b
    carousel lab bptt
    carousel lab bptt --steps 50 --out bptt
    """
    from carousel import lab

    with showing(out, as_json) as shown:
        shown.append(lab.bptt(steps, hidden=hidden, seed=seed))


@app.command()
def clipping(
    steps: Annotated[int, typer.Option(metavar="N", min=1, help="Steps of descent.")] = 300,
    lr: Annotated[float, typer.Option(help="The learning rate.")] = 0.1,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Gradient descent at a cliff, with and without clipping.

    \b
    carousel lab clipping
    carousel lab clipping --lr 0.5 --out clipping
    """
    from carousel import lab

    with showing(out, as_json) as shown:
        shown.append(lab.clipping(steps, lr=lr))


@app.command("compile-dfa")
def compile_dfa(
    patterns: Annotated[
        list[str] | None, typer.Argument(metavar="[PATTERN]...", help="Regular expressions; without them, five.")
    ] = None,
    shortest: Annotated[int, typer.Option(metavar="N", min=0, max=14, help="All strings up to this length.")] = 10,
    longest: Annotated[int, typer.Option(metavar="N", min=1, help="Random strings up to this length.")] = 10_000,
    largest: Annotated[int, typer.Option(metavar="N", min=1, help="The largest n of aⁿbⁿ.")] = 10_000,
    seed: SeedOption = 0,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Turn regular expressions into exact weights of a network, and a counter into an LSTM; then try them.

    \b
    carousel lab compile-dfa
    carousel lab compile-dfa "(ab|c)*" "a*b*c*" --shortest 7
    carousel lab compile-dfa --out automata   # and a page
    """
    from carousel import lab
    from carousel.lab.claims.compile_dfa import PATTERNS

    with showing(out, as_json) as shown:
        shown.append(
            lab.compile_dfa(patterns or PATTERNS, shortest=shortest, longest=longest, largest=largest, seed=seed)
        )


@app.command("forget-argmax")
def forget_argmax(
    units: Annotated[int, typer.Option(metavar="N", min=1, help="How many gates are tried.")] = 8,
    hidden: Annotated[int, typer.Option(metavar="H", min=1, help="Weights of each.")] = 16,
    samples: Annotated[int, typer.Option(metavar="N", min=1, help="Random directions.")] = 100_000,
    run: RunOption = None,
    data: DataOption = None,
    seed: SeedOption = 0,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """What opens a forget gate widest: the closed form, random directions, and climbing.

    \b
    carousel lab forget-argmax
    carousel lab forget-argmax --run demo-dates/run --out gates    # and what the gates of a model do
    """
    from carousel import lab

    model = model_of(run, data)
    with showing(out, as_json) as shown:
        shown.append(lab.forget_argmax(units, hidden=hidden, samples=samples, model=model, data=data, seed=seed))


@app.command()
def hankel(
    patterns: Annotated[
        list[str] | None, typer.Argument(metavar="[PATTERN]...", help="Regular expressions over a and b; else three.")
    ] = None,
    units: Annotated[int, typer.Option(metavar="N", min=1, help="Units of the network.")] = 12,
    steps: Annotated[int, typer.Option(metavar="N", min=1, help="Training steps.")] = 600,
    seed: SeedOption = 0,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Train a network on a language and find the weighted automaton inside it, from its answers alone.

    \b
    carousel lab hankel
    carousel lab hankel "(ab)*" --out hankel
    """
    from carousel import lab
    from carousel.lab.claims.hankel import LANGUAGES

    with showing(out, as_json) as shown:
        shown.append(lab.hankel(patterns or LANGUAGES, units=units, steps=steps, seed=seed))


@app.command()
def initialisation(
    hidden: Annotated[int, typer.Option(metavar="H", min=1, help="Units of the layer.")] = 32,
    epochs: Annotated[int, typer.Option(metavar="N", min=1, help="Epochs of each training of the LSTM.")] = 5,
    seed: SeedOption = 0,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Weights that begin as zero, all equal, tiny, huge and as usual: what is learned, and which units part.

    \b
    carousel lab initialisation
    carousel lab initialisation --hidden 64 --out beginnings
    """
    from carousel import lab

    with showing(out, as_json) as shown:
        shown.append(lab.initialisation(hidden=hidden, epochs=epochs, seed=seed))


@app.command()
def jacobian(
    steps: Annotated[int, typer.Option(metavar="T", min=6, help="Steps of a sequence.")] = 20,
    hidden: Annotated[int, typer.Option(metavar="H", min=1, help="Units of a layer.")] = 5,
    run: RunOption = None,
    data: DataOption = None,
    seed: SeedOption = 0,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Derivatives of one step, in closed form and by autograd; and what a product of them leaves out.

    \b
    carousel lab jacobian
    carousel lab jacobian --hidden 20 --out jacobian
    carousel lab jacobian --run demo-dates/run --out spectrum     # and the eigenvalues of a trained model
    """
    from carousel import lab

    model = model_of(run, data)
    with showing(out, as_json) as shown:
        shown.append(lab.jacobian(steps, hidden=hidden, model=model, data=data, seed=seed))


@app.command()
def languages(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[LANGUAGE]...", help="anbn, anbncn, dyck-1, dyck-2, parity; without them, all."),
    ] = None,
    trained: Annotated[int, typer.Option(metavar="N", min=1, help="The largest n in training.")] = 50,
    tested: Annotated[int, typer.Option(metavar="N", min=2, help="The largest n in the test.")] = 200,
    hidden: Annotated[int, typer.Option(metavar="H", min=1, help="Units of a layer.")] = 8,
    seed: SeedOption = 0,
    out: OutOption = None,
    as_json: JsonOption = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
) -> None:
    """Train every cell on short strings of formal languages and let it read long ones: which cells count?

    \b
    carousel lab languages
    carousel lab languages anbn dyck-1 --tested 1000 --out count
    """
    from carousel import lab
    from carousel.lab.claims.languages import Setting
    from carousel.lab.grammars import GRAMMARS
    from carousel.lab.progress import Bar

    setting = Setting(trained=trained, tested=tested, hidden=hidden, seed=seed)
    with showing(out, as_json) as shown:
        shown.append(lab.languages(names or tuple(GRAMMARS), setting=setting, bar=Bar("loss {:.3f}", quiet)))


@app.command()
def latch(
    seed: SeedOption = 0,
    out: OutOption = None,
    as_json: JsonOption = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
) -> None:
    """Train every cell to remember one bit through noise: a plain RNN forgets, an LSTM does not. Two minutes.

    The first steps of a sequence say which class it belongs to, the rest is
    noise. The page shows accuracy against length, the gradient that reaches
    the first step, and the forget gate over time.

    \b
    carousel lab latch --out latch
    carousel lab latch --seed 3
    """
    from carousel import lab
    from carousel.lab.claims.latch import Setting
    from carousel.lab.progress import Bar

    with showing(out, as_json) as shown:
        shown.append(lab.latch(Setting(seed=seed), bar=Bar("accuracy {:.0%}", quiet)))


@app.command()
def optimizers(
    epochs: Annotated[int, typer.Option(metavar="N", min=1, help="Epochs of each training.")] = 4,
    seeds: Annotated[int, typer.Option(metavar="N", min=1, help="Trainings at 0.01, and at the best rate.")] = 3,
    seed: SeedOption = 0,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """The same model with four optimizers: at one learning rate, as the text has it, and each at its own best.

    \b
    carousel lab optimizers
    carousel lab optimizers --seeds 5 --out optimizers
    """
    from carousel import lab

    with showing(out, as_json) as shown:
        shown.append(lab.optimizers(epochs=epochs, seeds=seeds, seed=seed))


@app.command()
def parameters(
    inputs: Annotated[int, typer.Option(metavar="I", min=1, help="Inputs a step.")] = 32,
    hidden: Annotated[int, typer.Option(metavar="H", min=1, help="Hidden units.")] = 64,
    outputs: Annotated[int, typer.Option(metavar="O", min=1, help="Outputs.")] = 10,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """How many parameters it takes to look back: fully connected, convolutional, recurrent.

    \b
    carousel lab parameters
    carousel lab parameters --inputs 100 --hidden 512 --out parameters
    """
    from carousel import lab

    with showing(out, as_json) as shown:
        shown.append(lab.parameters(inputs=inputs, hidden=hidden, outputs=outputs))


@app.command("rnn-in-lstm")
def rnn_in_lstm(
    networks: Annotated[int, typer.Option(metavar="N", min=1, help="Random networks.")] = 20,
    steps: Annotated[int, typer.Option(metavar="T", min=1, help="Steps that each reads.")] = 200,
    hidden: Annotated[int, typer.Option(metavar="H", min=1, help="Units of each.")] = 16,
    seed: SeedOption = 0,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put an RNN into an LSTM: with the published weights, which do not give it, and exactly.

    \b
    carousel lab rnn-in-lstm
    carousel lab rnn-in-lstm --steps 1000 --out inside
    """
    from carousel import lab

    with showing(out, as_json) as shown:
        shown.append(lab.rnn_in_lstm(networks, steps=steps, hidden=hidden, seed=seed))


@app.command()
def sentiment(
    longest: Annotated[int, typer.Option(metavar="N", min=1, max=10, help="The most words of a sentence.")] = 8,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add up sentiment with an LSTM whose weights are set by hand: the published one, and one that is right.

    \b
    carousel lab sentiment
    carousel lab sentiment --out sentiment    # and a page
    """
    from carousel import lab

    with showing(out, as_json) as shown:
        shown.append(lab.sentiment(longest))


@app.command()
def vanishing(
    steps: Annotated[int, typer.Option(metavar="K", min=1, help="How far back.")] = 1000,
    hidden: Annotated[int, typer.Option(metavar="H", min=1, help="Units of a layer.")] = 16,
    run: RunOption = None,
    data: DataOption = None,
    seed: SeedOption = 0,
    out: OutOption = None,
    as_json: JsonOption = False,
) -> None:
    """How much of a gradient is left after k steps, in every cell, with the bound of the notes.

    \b
    carousel lab vanishing
    carousel lab vanishing --run demo-dates/run --out vanishing    # and in a trained model
    """
    from carousel import lab

    model = model_of(run, data)
    with showing(out, as_json) as shown:
        shown.append(lab.vanishing(steps, hidden=hidden, model=model, data=data, seed=seed))
