"""report.html of a run: how it went, what came out, and how to get it again."""

from __future__ import annotations

from typing import Any

from ..report import Page, figure
from ..wording import an, counted
from .journal import read_journal
from .run import Run
from .task import Task


def write_report(run: Run, network: Task, facts: dict[str, str], result: dict[str, Any]) -> None:
    """Write the page; `facts` are what the data is like, `result` where the run ended."""
    found = result[f"dev_{network.metric}"]
    epochs, minutes = result["epochs"], result["minutes"]
    kind = an(network.name).capitalize()
    lead = f"{kind} model of {network.size:,} parameters, {counted(epochs, 'epoch')} in {minutes:.1f} minutes."
    if found is not None:
        lead += f" Best dev {network.metric}: *{found:.4g}*, after epoch {result['best_epoch']}."
    page = Page(f"{run.folder.resolve().name}: {network.name}", lead)
    _curves(page, run, network)
    network.show(page)
    if facts:
        page.heading("Data").table(["", ""], list(facts.items()))
    settings = network.settings
    page.heading("Settings").text("All of them, as in `config.yaml`; those that are not the default are *marked*.")
    rows = []
    for name, field in type(settings).model_fields.items():
        value = getattr(settings, name)
        shown = "" if value is None else str(value)
        rows.append([f"`{name}`", f"*{shown}*" if value != field.default and shown else shown])
    page.table(["key", "value"], rows)
    page.footer(command=result["command"], seed=result["seed"], minutes=result["minutes"])
    page.write(run.report)


def _curves(page: Page, run: Run, network: Task) -> None:
    rows = read_journal(run.metrics)
    dev = f"dev_{network.metric}"
    losses = [(r["step"], r["loss"]) for r in rows if "loss" in r]
    found = [(r["step"], r[dev]) for r in rows if dev in r]
    rates = [(r["step"], r["lr"]) for r in rows if "lr" in r]
    panels = [("training loss", losses), (f"dev {network.metric}", found), ("learning rate", rates)]
    panels = [(title, points) for title, points in panels if points]
    drawn = figure(160 + 180 * len(panels), [title for title, _ in panels], showlegend=False)
    for row, (title, points) in enumerate(panels, 1):
        steps, values = zip(*points, strict=True)
        mode = "lines+markers" if len(points) < 40 else "lines"
        drawn.add_scatter(x=steps, y=values, mode=mode, name=title, row=row, col=1)
    drawn.update_xaxes(title_text="step", row=len(panels), col=1)
    page.figure(drawn, "Training", "What `metrics.csv` holds, step by step.")
