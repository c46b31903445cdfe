"""What the report of a bidirectional language model shows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np

from ...report import Html, Page, mark, verbatim
from .data import open_data
from .predictor import BiLanguageModel

SENTENCES = 300  # of the dev set whose words are compared
QUERIES, NEAREST = 6, 3
AROUND = 4  # words shown on either side


def report(model: BiLanguageModel, page: Page) -> None:
    """The perplexity of each direction on the dev set, and words with the nearest ones in their context."""
    sources = open_data(model.settings)
    if sources.dev is None:
        return
    result = model.evaluate(sources.dev)
    names = {"forward": "perplexity_forward", "backward": "perplexity_backward", "both": "perplexity"}
    page.heading("Directions").text(f"`{sources.name}`, words and the end of each sentence.")
    page.table(["direction", "perplexity"], [[label, f"{result[name]:.2f}"] for label, name in names.items()])
    sentences = islice(sources.dev.sentences(), SENTENCES)
    show_nearest(model, page, [sentence.words for sentence in sentences])


def show_nearest(model: BiLanguageModel, page: Page, sentences: Sequence[Sequence[str]]) -> None:
    """Some words in their sentences, and those of other sentences whose vectors in the top layer are nearest."""
    places = [(s, t) for s, words in enumerate(sentences) for t in range(len(words))]
    queries = [k for k, (s, t) in enumerate(places) if t == len(sentences[s]) // 2 and len(sentences[s]) > 4]
    if len(sentences) <= NEAREST or not queries:
        return
    vectors = np.concatenate([part[-1] for part in model.vectors(sentences)])
    vectors = vectors - vectors.mean(0)  # what all words share would make every cosine about 1
    vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    of = np.array([s for s, _ in places])
    rows = []
    for k in queries[:: -(-len(queries) // QUERIES)]:
        cosines = np.where(of == of[k], -np.inf, vectors @ vectors[k])
        for place, other in enumerate(np.argsort(-cosines, kind="stable")[:NEAREST]):
            query = Html("") if place else _in_context(sentences, *places[k])
            rows.append([query, _in_context(sentences, *places[other]), f"{cosines[other]:.3f}"])
    page.heading("Nearest words in context").text(
        f"For some words of the dev set, the {NEAREST} nearest among {len(places):,} words of its first "
        f"{len(sentences):,} sentences, by the cosine of their vectors in the top layer, the mean vector subtracted."
    )
    page.table(["word", "nearest", "cosine"], rows)


def _in_context(sentences: Sequence[Sequence[str]], s: int, t: int) -> Html:
    words = sentences[s]
    before, after = words[max(0, t - AROUND) : t], words[t + 1 : t + 1 + AROUND]
    start, end = "… " if t > AROUND else "", " …" if t + 1 + AROUND < len(words) else ""
    left, right = verbatim(f"{start}{' '.join(before)} "), verbatim(f" {' '.join(after)}{end}")
    return Html(f"{left}{mark(words[t])}{right}")
