"""What a page shows of a translator: translations, where each token looked, and the gates meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from .. import pictures
from ..data import START

if TYPE_CHECKING:
    from ..layers.trace import Trace
    from ..report import Page
    from .translate import Translator
    from .translation import Translation

BEGIN = "▸"  # the step that reads [START]


@torch.no_grad()
def trace_decoder(model: Translator, made: Translation) -> tuple[Trace, list[str]]:
    """The decoder's layers while the model, in `eval` mode, writes a translation; and what each step reads.

    With input feeding there is none: each step needs what the one before found.
    """
    if model.decoder.feeding:
        raise ValueError("the decoder cannot be traced with input_feeding: it has no run over all steps at once")
    source, _ = model.read_source(made.source)
    _, state = model.read(torch.from_numpy(source.astype(np.int64))[:, None], torch.tensor([len(source)]))
    read = torch.tensor([START, *made.ids[:-1]])  # the last token is written, and no step reads it
    return model.decoder.layers.trace(model.target_embedder(read[:, None]), state), [BEGIN, *made.tokens[:-1]]


def gates_picture(model: Translator, made: Translation) -> Any:
    """The gate that keeps the decoder's memory, and that memory, while a translation was written."""
    trace, steps = trace_decoder(model, made)
    top = len(next(iter(trace.states.values()))) - 1
    cell = model.decoder.layers.cell
    keeps, memory = cell.gate_with("keep"), list(cell.states)[-1]
    names = (keeps, memory) if keeps else (memory,)
    return pictures.gates(trace, names, layer=top, steps=steps)


def show_translations(model: Translator, page: Page, made: Sequence[Translation], references: Sequence[str]) -> None:
    """A table of translations; for the first few, where they looked; for the first, the decoder's gates."""
    rows = [[one.source, str(one), right] for one, right in zip(made, references, strict=True)]
    page.heading("Translations").text("Some lines of the dev set, by beam search.")
    page.table(["source", "translation", "reference"], rows)
    looked = [one for one in made if one.attention is not None and one.source_tokens][:3]
    for number, one in enumerate(looked, 1):
        says = (
            f"{one.source} → {one.text}",
            "A row for each token that was written, a column for each token of the source; the darker, the more of the "
            "attention.",
        )
        page.figure(one.attention_picture(), f"Attention, {number} of {len(looked)}", *says[: 3 - min(number, 2)])
    written = next((one for one in made if one.source_tokens), None)
    if written is not None and not model.decoder.feeding:
        page.figure(
            gates_picture(model, written),
            "Gates of the decoder",
            f"{written.source} → {written.text}",
            "The top layer, unit by unit, while it writes: what each step reads is below it.",
        )
