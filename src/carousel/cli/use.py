"""What can be done with a run: `carousel eval`, `score`, `generate`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from carousel.wording import an

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory that carousel train made.")]
TITLES = {"confusion": "confusion: a row for what it is, a column for what was said"}
MOST = 10  # classes in a table of confusions, and else mistakes in a list
JsonOption = Annotated[bool, typer.Option("--json", help="JSON instead of a table.")]


def load(folder: Path, *tasks: str | None, what: str = "this command") -> Any:
    """The model in a run directory; if tasks are named, it must be one of those, for which `what` is."""
    from carousel.training import Run, RunError

    kind, _ = Run(folder).settings()
    if (named := list(filter(None, tasks))) and kind.name not in named:
        raise RunError(f"{folder}: {what} is for runs of {' or '.join(named)}; this is one of {kind.name}")
    return Run(folder).load()


def evaluate(
    run: RunArgument,
    data: Annotated[
        list[Path], typer.Argument(metavar="DATA", help="What to evaluate on; for a translator two files.")
    ],
    beam: Annotated[int | None, typer.Option(metavar="WIDTH", min=1, help="For a translator: 5 unless given.")] = None,
    worst: Annotated[int | None, typer.Option(metavar="N", min=0, help="For a translator: sentences to show.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure a trained model on a file.

    Perplexity of a language model; accuracy, F1 and confusions of a classifier
    or tagger; BLEU and chrF of a translator, with the worst sentences, and in
    JSON the scores of every sentence; errors of forecasts, by rolling origin.

    \b
    carousel eval run dev.txt
    carousel eval run dev.txt --json | jq .perplexity
    carousel eval run dev.en dev.de --worst 10
    """
    options = {name: value for name, value in (("beam", beam), ("worst", worst)) if value is not None}
    model = load(run, "translate" if options else None, what=" and ".join(f"--{name}" for name in options))
    if len(data) > model.files:
        few = "one file" if model.files == 1 else f"{model.files} files, or one with both"
        raise typer.BadParameter(f"{an(model.name)} model is evaluated on {few}; got {len(data)}", param_hint="DATA")
    found = model.evaluate(*data, **options)
    if as_json:
        typer.echo(json.dumps({"run": str(run), "data": " ".join(map(str, data)), **found}, ensure_ascii=False))
        return
    show(found)


def show(found: dict[str, Any]) -> None:
    """Numbers one a line, then a table for each value that has rows and columns of its own."""
    plain = {name.replace("_", " "): value for name, value in found.items() if not isinstance(value, dict | list)}
    width = max(map(len, plain))
    for name, value in plain.items():
        typer.echo(f"{name:{width}}  {value if isinstance(value, str) else _number(value)}")
    for name, rows in found.items():
        if name == "confusion" and len(rows) > MOST:
            _show_mistakes(rows)
        elif isinstance(rows, dict) and rows:
            columns = list(next(iter(rows.values())))
            cells = [["", *columns], *([row, *map(_number, told.values())] for row, told in rows.items())]
            widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
            typer.echo(f"\n{TITLES.get(name, name.replace('_', ' '))}")
            for first, *rest in cells:
                padded = (f"{cell:>{w}}" for cell, w in zip(rest, widths[1:], strict=True))
                typer.echo(f"  {first:{widths[0]}}  {'  '.join(padded)}")
    for item in found.get("worst", []):
        numbers = (f"{name} {_number(value)}" for name, value in item.items() if not isinstance(value, str))
        typer.echo(f"\n{'  '.join(numbers)}")
        for name, value in item.items():
            if isinstance(value, str):
                typer.echo(f"  {name:9}  {value}")


def _show_mistakes(confusion: dict[str, dict[str, int]]) -> None:
    """What is most often taken for what, of a table too wide for a terminal."""
    found = [(n, right, said) for right, row in confusion.items() for said, n in row.items() if n and said != right]
    found.sort(key=lambda mistake: -mistake[0])
    many = f"the {MOST} most frequent of {len(found):,} kinds; all with --json" if len(found) > MOST else "all kinds"
    typer.echo(f"\nmistakes: {many}")
    for n, right, said in found[:MOST]:
        typer.echo(f"  {n:>7,}  {right} taken for {said}")


def _number(value: float) -> str:
    return f"{value:,.4f}" if isinstance(value, float) else f"{value:,}"


def score(
    run: RunArgument,
    data: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Lines to score; without it, standard input.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line, with every token.")] = False,
    tokens: Annotated[bool, typer.Option("--tokens", help="One token a line, with its log-probability.")] = False,
) -> None:
    """How probable a language model finds each line: log-probability, perplexity, line, separated by tabs.

    \b
    carousel score run lines.txt > scores.tsv
    echo 床前明月光，疑是地上霜。 | carousel score run --tokens
    carousel score run lines.txt --json | jq .perplexity
    """
    model = load(run, "lm")
    if not as_json:
        typer.echo("line\ttoken\tlog_prob" if tokens else "log_prob\ttokens\tperplexity\tline")
    for number, found in enumerate(model.score(lines_of(data)), 1):
        if as_json:
            pairs = [[t, round(p, 6)] for t, p in zip(found.tokens, found.log_probs, strict=True)]
            said = {
                "line": found.line,
                "log_prob": round(found.total, 6),
                "perplexity": found.perplexity,
                "tokens": pairs,
            }
            typer.echo(json.dumps(said, ensure_ascii=False))
        elif tokens:
            for token, log_prob in zip(found.tokens, found.log_probs, strict=True):
                typer.echo(f"{number}\t{visible(token)}\t{log_prob:.4f}")
        else:
            typer.echo(f"{found.total:.4f}\t{len(found.tokens)}\t{found.perplexity:.2f}\t{found.line}")


def generate(
    run: RunArgument,
    n: Annotated[int, typer.Option("--n", "-n", metavar="N", min=1, help="Texts for each prompt.")] = 1,
    prompt: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="How the text begins; may be repeated.")
    ] = None,
    prompts: Annotated[Path | None, typer.Option(metavar="FILE", help="A file of prompts, one a line.")] = None,
    greedy: Annotated[bool, typer.Option("--greedy", help="The most probable token at every step.")] = False,
    temperature: Annotated[
        float | None, typer.Option(help="Below 1 surer, above 1 bolder.", rich_help_panel="Drawing")
    ] = None,
    top_k: Annotated[int | None, typer.Option(help="Draw from the k best.", rich_help_panel="Drawing")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Draw from the fewest with this share.", rich_help_panel="Drawing")
    ] = None,
    random_k: Annotated[int | None, typer.Option(help="The k best, each as likely.", rich_help_panel="Drawing")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same text.", rich_help_panel="Drawing")] = 0,
    beam: Annotated[int | None, typer.Option(metavar="WIDTH", help="Beam search.")] = None,
    length: Annotated[int, typer.Option(min=1, help="The most tokens, the prompt counted.")] = 300,
    unknown: Annotated[bool, typer.Option("--unknown", help="Allow [UNK] in prompts and text.")] = False,
    form: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="五言律詩, 五言絕句, 七言律詩, 七言絕句.", rich_help_panel="Rules"),
    ] = None,
    acrostic: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The first character of each line.", rich_help_panel="Rules")
    ] = None,
    rhyme: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Even lines rhyme, by a table: class TAB characters.", rich_help_panel="Rules"
        ),
    ] = None,
    rhyme_class: Annotated[
        str | None, typer.Option(metavar="CLASS", help="The rhyme to use.", rich_help_panel="Rules")
    ] = None,
    no_repeat: Annotated[
        int | None, typer.Option(metavar="N", help="No N tokens in a row twice.", rich_help_panel="Rules")
    ] = None,
    batch: Annotated[int | None, typer.Option(min=1, help="Texts at a time; on a terminal 1, else 64.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a text.")] = False,
) -> None:
    """Let a language model write. What is drawn depends on the seed alone, not on the batch.

    \b
    carousel generate run                                  # one text, drawn
    carousel generate run --prompt 明月 --greedy
    carousel generate run -n 5 --top-k 10 --temperature 0.8 --seed 7
    carousel generate run --form 五言律詩 --acrostic 春眠不覺 --top-k 20
    carousel generate run --prompts heads.txt --beam 5 --json > poems.jsonl
    """
    from carousel.models.writing import Writing, read_rhymes, write, write_aloud

    drawn = any(value is not None for value in (temperature, top_k, top_p, random_k))
    if greedy and (drawn or beam is not None):
        raise typer.BadParameter(
            "greedy neither draws nor searches; leave the other options away", param_hint="--greedy"
        )
    if n > 1 and (greedy or beam is not None) and not drawn:
        raise typer.BadParameter("without drawing, every text would be the same; leave it away", param_hint="--n")
    if not (greedy or drawn or beam is not None):
        temperature = 1.0
    model = load(run, "lm")
    wish = Writing(
        temperature=temperature, top_k=top_k, top_p=top_p, random_k=random_k, beam=beam, unknown=unknown, form=form,
        acrostic=acrostic, rhyme=read_rhymes(rhyme) if rhyme else {}, rhyme_class=rhyme_class, no_repeat=no_repeat,
        length=length,
    )  # fmt: skip
    given = [*(prompt or []), *(lines_of(prompts) if prompts else [])] or [""]
    every = [one for one in given for _ in range(n)]
    if batch is None and sys.stdout.isatty() and not as_json:
        for number, one in enumerate(every):
            for piece in write_aloud(model, one, wish, seed=seed, number=number):
                typer.echo(piece, nl=False)
            typer.echo()
        return
    for written in write(model, every, wish, seed=seed, batch=batch or 64):
        if as_json:
            said = {
                "text": written.text,
                "log_prob": round(written.log_prob, 6),
                "tokens": written.tokens,
                "finished": written.finished,
            }
            typer.echo(json.dumps(said, ensure_ascii=False))
        else:
            typer.echo(written.text)


def lines_of(path: Path | None, blank: bool = False) -> Iterator[str]:
    """The lines of a file, or of standard input; those of a file without the blank ones, unless `blank`."""
    if path is not None:
        from carousel.data import Lines, read_lines

        yield from (text for _, text in read_lines(path)) if blank else Lines(path)
        return
    from carousel.data.lines import decode

    for number, raw in enumerate(sys.stdin.buffer, 1):
        yield decode(raw.rstrip(b"\r\n"), Path("standard input"), number)


def visible(token: str) -> str:
    """A token in one cell of a table."""
    return token.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")


def register(app: typer.Typer) -> None:
    app.command("eval")(evaluate)
    app.command()(score)
    app.command()(generate)
