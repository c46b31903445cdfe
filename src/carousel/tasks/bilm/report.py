"""What the report of a bidirectional language model shows."""

from __future__ import annotations

from ...report import Page
from .data import open_data
from .predictor import BiLanguageModel


def report(model: BiLanguageModel, page: Page) -> None:
    """The perplexity of each direction on the dev set."""
    sources = open_data(model.settings)
    if sources.dev is None:
        return
    result = model.evaluate(sources.dev)
    names = {"forward": "perplexity_forward", "backward": "perplexity_backward", "both": "perplexity"}
    page.heading("Directions").text(f"`{sources.name}`, words and the mark at the end of each sentence.")
    page.table(["", "perplexity"], [[label, f"{result[name]:.2f}"] for label, name in names.items()])
