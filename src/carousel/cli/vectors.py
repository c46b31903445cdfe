"""What a model makes of lines: `carousel embed`, `carousel similar`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from carousel.errors import DataError
from carousel.wording import counted

from .app import App
from .errors import check_output, errors_of, warn_cut, warn_unlike
from .runs import STDIN, RunArgument, TextColumnOption, TokenizedOption, load, texts_of, unless_dash
from .task_options import CellOption, TaskOption


def embed(
    run: RunArgument,
    data: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]", help="Texts, one per line, or a table; default: standard input.", callback=unless_dash
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="vectors.npy, or .parquet to include the texts or words.")
    ] = ...,  # type: ignore[assignment]
    text_column: TextColumnOption = None,
    tokenized: TokenizedOption = False,
    task: TaskOption = None,
    cell: CellOption = None,
) -> None:
    """Encode texts as vectors, one per text (encoder) or one per word (bilm). Each text is encoded independently.

    Texts are the lines of a file or, of a table (.tsv, .csv, .jsonl), its column of texts.

    \b
    carousel embed run texts.txt --out vectors.npy
    # the texts of a table; every row has its vector
    carousel embed run pairs.tsv --text-column sentence_A --out vectors.npy
    # columns text and vector
    carousel embed run texts.txt --out vectors.parquet
    # columns line, word and vector: all layers, end to end
    carousel embed bilm text.txt --out words.parquet
    """
    import numpy as np

    from carousel.data.sources.tables import TABLES
    from carousel.files import replace_file

    if out.suffix not in (".npy", ".parquet"):
        raise typer.BadParameter("give a name that ends in .npy or .parquet", param_hint="--out")
    check_output("--out", out, data)
    model = load(run, "embed", task, cell)
    texts = texts_of(data, text_column)
    with errors_of("--out"), replace_file(out) as file:
        beside, vectors, cut = model.table(texts, tokenized=tokenized or None)
        if out.suffix == ".npy":
            np.save(file, vectors)
        else:
            import pyarrow as pa
            import pyarrow.parquet as pq

            flat = pa.array(vectors.reshape(-1))
            column = pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])
            pq.write_table(pa.table({**beside, "vector": column}), file)
    typer.echo(f"{out}: {counted(len(vectors), 'vector')} of {counted(vectors.shape[1], 'number')}")
    warn_unlike(model, data)
    if cut:
        warn_cut(
            data,
            cut,
            model.settings.max_length,
            "row" if data is not None and data.suffix.lower() in TABLES else "line",
        )


def similar(
    run: RunArgument,
    data: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]", help="Texts, one per line, or a table; default: standard input.", callback=unless_dash
        ),
    ] = None,
    to: Annotated[str, typer.Option(metavar="TEXT", help="The text to compare with.")] = ...,  # type: ignore[assignment]
    n: Annotated[int, typer.Option("--n", "-n", metavar="N", min=1, help="Number of texts to show.")] = 10,
    text_column: TextColumnOption = None,
    tokenized: TokenizedOption = False,
    task: TaskOption = None,
    cell: CellOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per text.")] = False,
) -> None:
    """Rank texts by the cosine similarity of their vectors to that of a text, most similar first.

    Texts are the lines of a file or, of a table (.tsv, .csv, .jsonl), its column of texts.

    \b
    carousel similar run texts.txt --to "a man plays a guitar"
    """
    if not to.strip():
        raise typer.BadParameter("the text is empty; give one", param_hint="--to")
    model = load(run, "similar", task, cell)
    texts = [text for text in texts_of(data, text_column) if text.strip()]
    if not texts:
        raise DataError(data or STDIN, None, "there is no text in it", "give one item per line")
    for value, text in model.similar(to, texts, n, tokenized=tokenized or None):
        typer.echo(json.dumps({"cosine": round(value, 6), "text": text}, ensure_ascii=False) if as_json
                   else f"{value:.4f}\t{text}")  # fmt: skip
    if len(texts) > n:
        typer.echo(f"the {n:,} most similar of {len(texts):,} texts; more with -n", err=True)


def register(app: App, _: Sequence[str]) -> None:
    app.command()(embed)
    app.command()(similar)
