"""What the report of a language model shows."""

from __future__ import annotations

from ...report import Page
from .predictor import LanguageModel


def report(model: LanguageModel, page: Page) -> None:
    """Samples."""
    page.heading("Samples").text("Sampled from the model's own distribution, then with temperature 0.7.")
    for temperature in (1.0, 0.7):
        page.text(*map(str, model.generate(num_return_sequences=4, temperature=temperature, seed=0).sequences))
