"""What the report of a language model shows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from ...metrics import perplexity
from ...report import Page
from ..shared.analysis import shorten, show_breakdown
from .predictor import LanguageModel, Scored

LINES = 300  # of the dev set that are scored one by one
EXTREMES = 6


def report(model: LanguageModel, page: Page) -> None:
    """Samples; the lines of the dev set that are hardest and easiest to predict."""
    page.heading("Samples").text("Sampled at temperature 1, the model's own distribution.")
    page.samples(*map(str, model.generate(num_return_sequences=4, seed=0).sequences))
    page.text("At temperature 0.7.")
    page.samples(*map(str, model.generate(num_return_sequences=4, temperature=0.7, seed=0).sequences))
    s = model.settings
    dev = s.sources().dev
    if dev is not None and s.layout != "running":  # the lines of running text are not sentences
        lines = [line for line in islice(dev, LINES) if line.strip()]
        show_lines(page, [one for one in model.score(lines) if one.tokens])


def show_lines(page: Page, scored: Sequence[Scored]) -> None:
    """The extremes by perplexity; perplexity by length."""
    order = sorted(scored, key=lambda one: -one.perplexity)
    if len(order) < 2:
        return
    page.heading("Lines by perplexity").text(
        f"The hardest and the easiest to predict of the first {len(scored):,} lines of the dev set, each on its own, "
        "with the tokens that were least expected."
    )
    half = len(order) // 2
    for title, some in (("hardest", order[: min(EXTREMES, half)]), ("easiest", order[-min(EXTREMES, half) :][::-1])):
        rows = [[shorten(one.line), shorten(_least_expected(one)), f"{one.perplexity:,.1f}"] for one in some]
        page.table([title, "least expected tokens", "perplexity"], rows)

    def group_perplexity(numbers: list[int]) -> list[str]:
        tokens = sum(len(scored[k].tokens) for k in numbers)
        return [f"{perplexity(-sum(scored[k].total for k in numbers) / tokens):,.1f}"]

    lengths = [len(one.tokens) for one in scored]
    show_breakdown(page, lengths, None, ["perplexity"], group_perplexity, unit="lines")


def _least_expected(scored: Scored) -> str:
    pairs = sorted(zip(scored.log_probs, scored.tokens, strict=True), key=lambda pair: pair[0])[:3]
    return ", ".join(token for _, token in pairs)
