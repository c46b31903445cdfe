"""What a sentence encoder's report shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...data.sources.tables import PairRow
from ...pictures.confusion import show_confusion
from ...report import Html, Page, figure
from ..shared.analysis import (
    SHOWN,
    Classified,
    describe_part,
    first_examples,
    lengths_and_unknown,
    measure_dev,
    shorten,
    show_breakdown,
    show_misclassified,
)
from .data import open_data
from .predictor import PairScore, SentenceEncoder

QUERIES, NEAREST = 6, 3


def report(model: SentenceEncoder, page: Page) -> None:
    """Predicted and true scores of the dev set, or its confusion matrix; errors; nearest sentences."""
    sources = open_data(model.settings)
    metric = measure_dev(model, page, sources)
    if metric is None or sources.dev is None:
        return
    label = metric.label
    results = ", ".join(f"{label(name)} *{value:.4f}*" for name, value in metric.result().items())
    lead = f"`{sources.name}`: {results}."
    if model.target.is_score:
        drawn = figure(460)
        drawn.add_scatter(x=metric.gold, y=metric.predicted, mode="markers", marker={"size": 4, "opacity": 0.5})
        drawn.update_xaxes(title_text="true score").update_yaxes(title_text="predicted score")
        page.figure(drawn, "Predicted vs true scores", lead)
    else:
        show_confusion(page, metric.confusion, lead)
    rows = first_examples(sources.dev)
    show_errors(model, page, rows)
    show_nearest(model, page, list(dict.fromkeys(text for row in rows for text in (row.first, row.second))))


def show_errors(model: SentenceEncoder, page: Page, rows: Sequence[PairRow]) -> None:
    """The worst pairs; results by length of the two texts together, and by unknown words."""
    predictions: list[Any] = list(model.predictions((row.first, row.second) for row in rows))
    sides = [row.first for row in rows], [row.second for row in rows]
    (first, first_unknown), (second, second_unknown) = (
        lengths_and_unknown(model.encoder(texts)[0]["tokens"]) for texts in sides
    )
    lengths = [a + b for a, b in zip(first, second, strict=True)]
    weighted = zip(first, first_unknown, second, second_unknown, strict=True)
    unknown = [(n * a + m * b) / max(1, n + m) for n, a, m, b in weighted]
    if model.target.is_score:
        errors = [abs(one.score - float(row.label)) for row, one in zip(rows, predictions, strict=True)]
        _show_largest(page, rows, predictions, errors)
        columns, values = "mean absolute error", errors
    else:
        examples = [
            Classified(f"{row.first} | {row.second}", row.label, str(one.label), one.probabilities[str(one.label)])
            for row, one in zip(rows, predictions, strict=True)
        ]
        show_misclassified(page, examples, "pairs")
        columns, values = "accuracy", [float(one.gold == one.predicted) for one in examples]

    def mean(numbers: list[int]) -> list[str]:
        result = sum(values[k] for k in numbers) / len(numbers)
        return [f"{result:.3f}" if model.target.is_score else f"{result:.1%}"]

    show_breakdown(page, lengths, unknown, [columns], mean, unit="pairs")


def _show_largest(
    page: Page, rows: Sequence[PairRow], predictions: Sequence[PairScore], errors: Sequence[float]
) -> None:
    worst = sorted(range(len(rows)), key=lambda k: -errors[k])[:SHOWN]
    page.heading("Largest errors").text(f"The {len(worst)} worst of {len(rows):,}.{describe_part(len(rows), 'pairs')}")
    table = [
        [shorten(rows[k].first), shorten(rows[k].second), f"{float(rows[k].label):g}", f"{predictions[k].score:.2f}"]
        for k in worst
    ]
    page.table(["first text", "second text", "true", "predicted"], table)


def show_nearest(model: SentenceEncoder, page: Page, texts: Sequence[str]) -> None:
    """Some of the texts, and of all the others those whose vectors have the largest cosine with theirs."""
    if len(texts) <= NEAREST:
        return
    vectors = model.embed(texts)
    vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    rows = []
    for k in range(0, len(texts), -(-len(texts) // QUERIES)):
        cosines = vectors @ vectors[k]
        cosines[k] = -np.inf
        for place, other in enumerate(np.argsort(-cosines, kind="stable")[:NEAREST]):
            rows.append([Html("") if place else shorten(texts[k]), shorten(texts[other]), f"{cosines[other]:.3f}"])
    page.heading("Nearest sentences").text(
        f"For some sentences of the dev set, the {NEAREST} most similar of {len(texts):,}, by cosine similarity."
    )
    page.table(["sentence", "nearest", "cosine"], rows)
