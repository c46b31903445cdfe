"""Commands that use a run: `carousel eval`, `score`, `generate`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any

import typer

from carousel.decoding.config import GenerationConfig
from carousel.wording import label_of

from .app import App
from .errors import warn_unlike
from .generation_options import generation_options, with_seed
from .runs import JsonOption, RunArgument, TokenizedOption, lines_of, load, unless_dash
from .task_options import CellOption, TaskOption, for_task, refuse_files

TITLES = {"confusion": "confusion matrix (rows: gold, columns: predicted)"}
COUNTS = {"unknown": "unknown tokens", "cut": "truncated", "illegal": "illegal tags", "unseen": "unseen words"}
MOST = 10  # classes in a confusion matrix; with more classes, errors in a list


def evaluate(
    run: RunArgument,
    data: Annotated[list[Path], typer.Argument(metavar="DATA", help="Evaluation data; for a translator two files.")],
    task: TaskOption = None,
    cell: CellOption = None,
    as_json: JsonOption = False,
    **options: Any,
) -> None:
    """Evaluate a trained model on a file.

    Perplexity of a language model; accuracy, F1 and the confusion matrix of a
    classifier or tagger; BLEU and chrF of a translator, with the worst
    sentences, and in JSON the scores of every sentence; errors of forecasts,
    by rolling origin.
    A task may have options of its own: carousel eval RUN --help shows them.

    \b
    carousel eval run dev.txt
    carousel eval run dev.txt --json | jq .perplexity
    carousel eval run dev.en dev.de --worst 10
    """
    model = load(run, task=task, cell=cell)
    refuse_files(model.task, len(data), "DATA")
    result = model.evaluate(*data, **options)
    if as_json:
        typer.echo(json.dumps({"run": str(run), "data": " ".join(map(str, data)), **result}, ensure_ascii=False))
    else:
        show(result)
    warn_unlike(model, data[0])


def show(result: dict[str, Any]) -> None:
    """One number on each line, then a table for each value with rows and columns."""
    plain = {_label(name): value for name, value in result.items() if not isinstance(value, dict | list)}
    width = max(map(len, plain))
    for name, value in plain.items():
        typer.echo(f"{name:{width}}  {value if isinstance(value, str) else _number(value)}")
    for name, rows in result.items():
        if name == "confusion" and len(rows) > MOST:
            _show_mistakes(rows)
        elif isinstance(rows, dict) and rows:
            columns = list(next(iter(rows.values())))
            headings = columns if name == "confusion" else map(label_of, columns)  # a class is called what it is
            cells = [["", *headings], *([row, *map(_number, values.values())] for row, values in rows.items())]
            widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
            typer.echo(f"\n{TITLES.get(name, label_of(name))}")
            for first, *rest in cells:
                padded = (f"{cell:>{w}}" for cell, w in zip(rest, widths[1:], strict=True))
                typer.echo(f"  {first:{widths[0]}}  {'  '.join(padded)}")
    for item in result.get("worst", []):
        numbers = (f"{label_of(name)} {_number(value)}" for name, value in item.items() if not isinstance(value, str))
        texts = {name: value for name, value in item.items() if isinstance(value, str)}
        typer.echo(f"\n{'  '.join(numbers)}")
        for name, value in texts.items():
            typer.echo(f"  {name:{max(map(len, texts))}}  {value}")


def _label(name: str) -> str:
    """What a reader calls a number that `evaluate` gives."""
    return COUNTS.get(name) or label_of(name)


def _show_mistakes(confusion: dict[str, dict[str, int]]) -> None:
    """The most frequent errors, for a confusion matrix too wide for a terminal."""
    errors = [(n, gold, got) for gold, row in confusion.items() for got, n in row.items() if n and got != gold]
    errors.sort(key=lambda error: -error[0])
    many = f"the {MOST} most frequent of {len(errors):,} kinds; all with --json" if len(errors) > MOST else "all kinds"
    typer.echo(f"\nmistakes: {many}")
    for n, gold, got in errors[:MOST]:
        typer.echo(f"  {n:>7,}  {gold} predicted as {got}")


def _number(value: float) -> str:
    return f"{value:,.4f}" if isinstance(value, float) else f"{value:,}"


def score(
    run: RunArgument,
    data: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="Lines to score; default: standard input.", callback=unless_dash),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line, with every token.")] = False,
    tokenized: TokenizedOption = False,
    tokens: Annotated[
        bool, typer.Option("--tokens", help="Print one token per line, with its log-probability.")
    ] = False,
    task: TaskOption = None,
    cell: CellOption = None,
) -> None:
    """Score lines with a language model.

    The columns, separated by tabs: log-probability, number of tokens,
    perplexity, and the line itself. The end token is counted.

    \b
    carousel score run lines.txt > scores.tsv
    echo 床前明月光，疑是地上霜。 | carousel score run --tokens
    carousel score run lines.txt --json | jq .perplexity
    """
    model = load(run, "score", task, cell)
    scored = iter(model.score(lines_of(data), tokenized=tokenized or None))
    first = list(islice(scored, 1))  # before the header: input that cannot be read prints nothing
    if not as_json:
        typer.echo("line\ttoken\tlog_prob" if tokens else "log_prob\ttokens\tperplexity\tline")
    for number, line in enumerate(chain(first, scored), 1):
        if as_json:
            pairs = [[t, round(p, 6)] for t, p in zip(line.tokens, line.log_probs, strict=True)]
            values = {
                "line": line.line,
                "log_prob": round(line.total, 6),
                "perplexity": line.perplexity,
                "tokens": pairs,
            }
            typer.echo(json.dumps(values, ensure_ascii=False))
        elif tokens:
            for token, log_prob in zip(line.tokens, line.log_probs, strict=True):
                typer.echo(f"{number}\t{visible(token)}\t{log_prob:.4f}")
        else:
            typer.echo(f"{line.total:.4f}\t{len(line.tokens)}\t{line.perplexity:.2f}\t{line.line}")
    warn_unlike(model, data)


@generation_options
def generate(
    run: RunArgument,
    config: GenerationConfig,
    prompt: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="Prompt: the beginning of the text; may be repeated.")
    ] = None,
    prompts: Annotated[Path | None, typer.Option(metavar="FILE", help="File of prompts, one per line.")] = None,
    task: TaskOption = None,
    cell: CellOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per text.")] = False,
) -> None:
    """Generate text with a language model: sampled, unless --num-beams asks for a search.

    A sample depends on the seed and on its number only, not on the batch. The
    seed is printed on standard error unless it is given.

    \b
    carousel generate run                                  # one sampled text
    carousel generate run --prompt 明月 --num-beams 1       # greedy search
    carousel generate run -n 5 --top-k 10 --temperature 0.8 --seed 7
    carousel generate run --form 五言律詩 --acrostic 春眠不覺 --top-k 20
    carousel generate run --constraint my.py:Rhyme         # a rule of your own
    carousel generate run --prompts heads.txt --num-beams 5 --json > poems.jsonl
    """
    from carousel.tasks.shared.generation import stream_text

    model = load(run, "generate", task, cell)
    given = [*(prompt or []), *(lines_of(prompts) if prompts else [])] or [""]
    resolved = config.resolve("text")
    if sys.stdout.isatty() and resolved.num_beams == 1 and not as_json:
        one_each = replace(resolved, num_return_sequences=1)
        for number in range(len(given) * config.num_return_sequences):
            pieces = stream_text(model, given[number // config.num_return_sequences], one_each, number)
            for piece in with_seed(pieces, config if number == 0 else one_each, one_each):
                typer.echo(piece, nl=False)
            typer.echo()
        return
    for generation in with_seed(model.generations(given, resolved), config, resolved):
        for one in generation.sequences:
            typer.echo(json.dumps(one.as_dict(), ensure_ascii=False) if as_json else one.text)


def visible(token: str) -> str:
    """A token as one cell of a table."""
    return token.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")


def register(app: App, words: Sequence[str]) -> None:
    """`carousel eval` has the options of the run in `words`, too."""
    args = words[1:] if words[:1] == ["eval"] else ()
    app.command("eval")(for_task(evaluate, lambda task: task.evaluate_options, args))
    app.command()(score)
    app.command()(generate)
