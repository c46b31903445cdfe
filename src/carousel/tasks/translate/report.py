"""What a translator's report shows: translations, their attention, and the gates of the decoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ... import pictures
from ...data import START
from ...errors import ArgumentError
from ...layers.trace import Trace
from ...report import Page
from .data import open_data
from .predictor import Translator
from .translation import Translation

BEGIN = "▸"  # the step that reads [START]


def report(model: Translator, page: Page) -> None:
    """Translations of some lines of the dev set."""
    dev = open_data(model.settings).dev
    if dev is None:
        return
    pairs = list(dev)
    chosen = pairs[:: max(1, len(pairs) // 8)][:8]
    translations = model.translate([pair.source for pair in chosen], attention=True)
    show_translations(model, page, translations, [pair.target for pair in chosen])


@torch.no_grad()
def trace_decoder(model: Translator, translation: Translation) -> tuple[Trace, list[str]]:
    """The trace of the decoder's layers for a translation, by a model in `eval` mode; and the token each step reads.

    Not with input feeding, where a step needs the attentional vector of the previous one.
    """
    network = model.network
    if network.decoder.feeding:
        raise ArgumentError("the decoder cannot be traced with input_feeding: there is no pass over all steps at once")
    source, _ = model.encode_line(translation.source)
    _, state = network.encode(torch.from_numpy(source.astype(np.int64))[:, None], torch.tensor([len(source)]))
    read = torch.tensor([START, *translation.ids[:-1]])  # no step reads the last token
    return network.decoder.layers.trace(network.target_embedder(read[:, None]), state), [
        BEGIN,
        *translation.tokens[:-1],
    ]


def gates_picture(model: Translator, translation: Translation) -> Any:
    """The gate that keeps the decoder's memory, and that memory, at each step of a translation."""
    trace, steps = trace_decoder(model, translation)
    top = len(next(iter(trace.states.values()))) - 1
    cell = model.network.decoder.layers.cell
    keeps, memory = cell.gate_with("keep"), list(cell.states)[-1]
    names = (keeps, memory) if keeps else (memory,)
    return pictures.gates(trace, names, layer=top, steps=steps)


def show_translations(
    model: Translator, page: Page, translations: Sequence[Translation], references: Sequence[str]
) -> None:
    """A table of translations; the attention of the first few; the decoder's gates for the first."""
    rows = [[one.source, str(one), right] for one, right in zip(translations, references, strict=True)]
    page.heading("Translations").text("Some lines of the dev set, by beam search.")
    page.table(["source", "translation", "reference"], rows)
    attentive = [one for one in translations if one.attention is not None and one.source_tokens][:3]
    for number, one in enumerate(attentive, 1):
        texts = (
            f"{one.source} → {one.text}",
            "Rows: generated tokens. Columns: source tokens. Darker: more attention.",
        )
        page.figure(one.attention_picture(), f"Attention, {number} of {len(attentive)}", *texts[: 3 - min(number, 2)])
    first = next((one for one in translations if one.source_tokens), None)
    if first is not None and not model.network.decoder.feeding:
        page.figure(
            gates_picture(model, first),
            "Gates of the decoder",
            f"{first.source} → {first.text}",
            "The units of the top layer at each step; the token that a step reads is below it.",
        )
