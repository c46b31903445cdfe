"""`carousel train TASK`: one command for each task, with an option for every key of its settings."""

from __future__ import annotations

import inspect
import shlex
import sys
import types
import typing
from pathlib import Path
from typing import Annotated, Any, Union

import typer

from carousel.errors import RunError
from carousel.wording import counted

from .errors import fail
from .pairs import PairCommand

app = typer.Typer(
    help="Train a model and keep it in a run directory.",
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
)

EXAMPLES = {
    "lm": """Train a language model on a text file; afterwards it can be evaluated and can write.

    \b
    carousel train lm poems.txt --dev dev.txt --out run    # each line is one item
    carousel train lm play.txt --layout running --out run  # one stream of characters
    carousel train lm ptb.txt --layout sentences --tokens word --layers 2 --out run
    carousel train lm --out run --resume                   # go on after a stop
    carousel train lm --config run/config.yaml --seed 1 --out again

    Then: carousel eval run dev.txt, carousel generate run.""",
    "bilm": """Train a two-way language model on text, for vectors of words in their context.

    \b
    carousel train bilm text.txt --dev dev.txt --out bilm        # a sentence a line, spaces between words
    carousel train bilm train.conllu --dev dev.conllu --out bilm   # a word a line; its tags are not read
    carousel train bilm text.txt --characters none --cell gru --out bilm

    Then: carousel eval bilm dev.txt, carousel train tag names.conll --embedder bilm --out run.""",
    "classify": """Train a classifier on a table of texts and labels: TSV, CSV or JSONL.

    \b
    carousel train classify reviews.tsv --dev dev.tsv --out run     # two columns: text, label
    carousel train classify tweets.csv --text-column tweet --label-column topic --out run
    carousel train classify log.tsv --text-column 3 --label-column 1 --class-weights balanced --out run
    carousel train classify reviews.tsv --vectors glove.txt --embedding 300 --lower --out run
    carousel train classify names.tsv --tokens character --cell gru --pooling last --out run

    Then: carousel eval run dev.tsv, carousel predict run texts.txt.""",
    "tag": """Train a tagger on sentences in columns, one word a line: parts of speech, names, chunks.

    \b
    carousel train tag train.conllu --dev dev.conllu --column upos --out run
    carousel train tag names.conll --dev dev.conll --out run         # the last column has the tags
    carousel train tag chunks.txt --column 3 --output crf --train-scheme iob2 --out run
    carousel train tag train.conllu --characters cnn --cell gru --layers 2 --out run

    Tags such as B-PER are parts of spans: their scheme (IOB1, IOB2, BIOES) is found, and a CRF keeps to its rules.
    Then: carousel eval run dev.conllu, carousel predict run sentences.txt.""",
    "encode": """Train a sentence encoder on pairs of texts and what is said of them: TSV, CSV or JSONL.

    \b
    carousel train encode pairs.tsv --dev dev.tsv --label-column relatedness_score --out run
    carousel train encode snli.tsv --target class --hidden 300 --out run    # entailment: a class
    carousel train encode pairs.tsv --pooling attention --cell gru --out run

    Then: carousel embed run texts.txt --out vectors.npy, carousel similar run texts.txt --to "a dog runs".""",
    "tree": """Train on trees with labels at their nodes: Penn brackets, or dependency trees in CoNLL-U.

    \b
    carousel train tree train.txt --dev dev.txt --out run          # (3 (2 The) (4 (3 actors) (4 shine)))
    carousel train tree train.txt --classes "negative=0,1;positive=3,4" --out run
    carousel train tree train.txt --composition recursive --train-on root --out run
    carousel train tree train.conllu --composition child-sum --out run

    Then: carousel eval run dev.txt, carousel predict run trees.txt.""",
    "forecast": """Train a forecaster on a series in CSV: a time and some numbers in every row.

    \b
    carousel train forecast flights.csv --horizon 12 --out run       # the last fifth is held out
    carousel train forecast load.csv --columns OT --season 24 --horizon 24 --out run
    carousel train forecast sales.csv --logarithm --decoding autoregressive --out run

    Then: carousel eval run flights.csv, carousel predict run flights.csv.""",
    "translate": """Train a translator on a text and its translation: two files of as many lines, or a TSV of pairs.

    \b
    carousel train translate train.en train.de --dev dev.en dev.de --out run
    carousel train translate pairs.tsv --dev dev.tsv --shared --vocabulary-size 10000 --out run
    carousel train translate pairs.tsv --source-column 2 --target-column 1 --out run  # the other way
    carousel train translate train.en train.de --attention dot --cell gru --input-feeding --out run

    Then: carousel translate run texts.txt, carousel eval run dev.en dev.de.""",
}


def command(task_name: str) -> Any:
    """The function behind `carousel train TASK`: its options are the keys of the task's settings."""
    from carousel.models import find_task
    from carousel.training.settings import group_of

    task = find_task(task_name)
    fields = {name: field for name, field in task.Settings.model_fields.items() if name not in ("task", "train", "dev")}
    files = "TRAIN" if task.files == 1 else "SRC [TGT]"
    whole = Path | None if task.files == 1 else list[Path] | None
    parameters = [
        _argument("train", Annotated[whole, typer.Argument(metavar=files, help="What to train on.")]),
        _option("dev", whole, "What to choose the best epoch by.", None, metavar=files.replace("TRAIN", "FILE")),
        _option("out", Path, "The run directory.", None, metavar="RUN", required=True),
        _option("config", Path | None, "Settings in a YAML file.", None, metavar="FILE"),
        _option("set", list[str] | None, "Any setting, as key=value; may be repeated.", None, metavar="KEY=VALUE"),
        _option("resume", bool, "Go on where the run in --out stopped.", None, flag=True),
        _option("force", bool, "Begin anew in the place of a run in --out.", None, flag=True),
        _option("quiet", bool, "No progress; print only the run directory.", None, flag=True),
    ]
    for name, field in fields.items():
        default = "" if field.default is None else f" \\[default: {field.default}]"
        panel = f"Settings: {group_of(field)}"
        parameters.append(_option(name, field.annotation, f"{field.description}{default}", panel))

    def run(**given: Any) -> None:
        given |= {name: given[name] or None for name in ("train", "dev")}  # an empty list is nothing
        own = {name: given.pop(name) for name in ("out", "config", "set", "resume", "force", "quiet")}
        _train(task, given, **own)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    run.__doc__ = EXAMPLES[task_name]
    return run


def _train(
    task: Any, given: dict[str, Any], out: Path, config: Path | None, set: list[str] | None, resume: bool, force: bool,
    quiet: bool,
) -> None:  # fmt: skip
    from carousel.training import Run
    from carousel.training.engine import resume_command, resumed_settings, train
    from carousel.training.keeper import Interrupted

    if resume and force:
        raise typer.BadParameter("choose one of --resume and --force")
    run = Run(out)
    if resume and run.exists:
        from carousel.training.settings import gather

        settings = resumed_settings(run, task, *gather(config, set or [], given))
        if (done := run.result) is not None and done["epochs"] >= settings.epochs:
            typer.echo(f"{out}: finished already, after {counted(done['epochs'], 'epoch')}", err=True)
            return
    else:
        if resume:
            raise RunError(f"{out}: no run to go on with; leave --resume away to begin one")
        settings = task.Settings.read({}, file=config, pairs=set or [], **given)
    try:
        train(task, settings, out, force=force, resume=resume, quiet=quiet, command=sys.argv)
    except Interrupted as stopped:
        fail(f"{stopped}, which is kept; go on with: {resume_command(run, task.name)}", 130)
    typer.echo(out if quiet else f"{out}: done; look at {shlex.quote(str(run.report))}")


def _argument(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _option(
    name: str, kind: Any, help: str, panel: str | None, *, metavar: str | None = None, required: bool = False,
    flag: bool = False,
) -> inspect.Parameter:  # fmt: skip
    """An option --name. Where nothing is given its value is None, so that a settings file can say something else."""
    dashed = "--" + name.replace("_", "-")
    kind, choices = _plain(kind)
    if choices:
        metavar = "|".join(choices)
    names = [dashed] if flag or kind is not bool else [f"{dashed}/--no-{dashed[2:]}"]
    option = typer.Option(*names, help=help, rich_help_panel=panel, metavar=metavar, show_default=False)
    if not flag and not required:
        kind = kind | None
    default: Any = inspect.Parameter.empty if required else False if flag else None
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option])


def _plain(kind: Any) -> tuple[Any, list[str]]:
    """The one type that the command line reads, and the choices if there are some."""
    if typing.get_origin(kind) in (Union, types.UnionType):
        kind = next(part for part in typing.get_args(kind) if part is not type(None))
    if typing.get_origin(kind) is Annotated:
        kind = typing.get_args(kind)[0]
    if typing.get_origin(kind) is typing.Literal:
        return str, [str(choice) for choice in typing.get_args(kind)]  # settings check it, and name the near miss
    return kind, []


def register() -> None:
    """Add a command for every task. Their options come from pydantic models, so this waits for torch."""
    from carousel.models import TASKS, find_task

    for name in TASKS if not app.registered_commands else ():
        app.command(name, cls=PairCommand if find_task(name).files > 1 else None)(command(name))
