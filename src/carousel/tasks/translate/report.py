"""What a translator's report shows: translations, their attention, and the gates of the decoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import pictures
from ...data.stores.examples import Column
from ...metrics import bleu, chrf
from ...report import Page, verbatim
from ..shared.analysis import lengths_and_unknown, shorten, show_breakdown
from .data import open_data
from .pairs import Pair
from .predictor import Translator
from .translation import Translation

BEGIN = "▸"  # the step that reads [START]


MOST = 200  # pairs of the dev set that are translated, evenly spaced
WORST, BEST, SHOWN = 8, 4, 3


def report(model: Translator, page: Page) -> None:
    """The worst and the best translations of the dev set; attention and gates for some of its lines."""
    dev = open_data(model.settings).dev
    if dev is None:
        return
    pairs = list(dev)
    pairs = pairs[:: -(-len(pairs) // MOST)]
    texts = [one.text for one in model.translate([pair.source for pair in pairs])]
    show_errors(model, page, pairs, texts)
    chosen = pairs[:: -(-len(pairs) // SHOWN)]
    show_attention(model, page, model.translate([pair.source for pair in chosen], attention=True))


def show_errors(model: Translator, page: Page, pairs: Sequence[Pair], texts: Sequence[str]) -> None:
    """The worst and the best by chrF, beside the references; results by length and by unknown words."""
    s, references = model.settings, [pair.target for pair in pairs]
    every = chrf(texts, references, lowercase=s.lower)
    order = sorted(range(len(pairs)), key=lambda k: every.sentences[k])
    half = max(1, len(order) // 2)
    text = f"Of {len(pairs):,} lines of the dev set, translated with a beam of 5, by chrF (of all: {every.score:.1f})."
    for title, some in (("Worst", order[:half][:WORST]), ("Best", order[half:][-BEST:][::-1])):
        rows = [
            [shorten(pairs[k].source), shorten(texts[k]), shorten(references[k]), f"{every.sentences[k]:.1f}"]
            for k in some
        ]
        if rows:
            page.heading(f"{title} translations").text(text)
            page.table(["source", "translation", "reference", "chrF"], rows)

    def scores(numbers: list[int]) -> list[str]:
        some, right = [texts[k] for k in numbers], [references[k] for k in numbers]
        by_word = bleu(some, right, tokenize=s.bleu_tokenize, lowercase=s.lower)
        return [f"{by_word.score:.1f}", f"{chrf(some, right, lowercase=s.lower).score:.1f}"]

    ids = [model.encode_line(pair.source)[0] for pair in pairs]
    column = Column(np.concatenate(ids), np.array([len(row) for row in ids]))
    lengths, unknown = lengths_and_unknown(column)
    show_breakdown(page, lengths, unknown, ["BLEU", "chrF"], scores, unit="lines", token="source token")


def gates_picture(model: Translator, translation: Translation) -> Any:
    """The gate that keeps the decoder's memory, and that memory, at each step of a translation."""
    trace = model.trace_decoder([translation])
    steps = [BEGIN, *trace.tokens[0][1:]]
    top = len(next(iter(trace.states.values()))) - 1
    cell = model.network.decoder.layers.cell
    keeps, memory = cell.gate_with("keep"), list(cell.states)[-1]
    names = (keeps, memory) if keeps else (memory,)
    return pictures.gates(trace, names, layer=top, steps=steps)


def show_attention(model: Translator, page: Page, translations: Sequence[Translation]) -> None:
    """The attention of translations; the decoder's gates for the first."""
    attentive = [one for one in translations if one.attention is not None and one.source_tokens]
    for number, one in enumerate(attentive, 1):
        texts = (
            verbatim(f"{one.source} → {one.text}"),
            "Rows: generated tokens. Columns: source tokens. Darker: more attention.",
        )
        page.figure(one.attention_picture(), f"Attention, {number} of {len(attentive)}", *texts[: 3 - min(number, 2)])
    first = next((one for one in translations if one.source_tokens), None)
    if first is not None:
        page.figure(
            gates_picture(model, first),
            "Gates of the decoder",
            verbatim(f"{first.source} → {first.text}"),
            "The units of the top layer at each step; the token that a step reads is below it.",
        )
