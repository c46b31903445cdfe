"""report.html of a run: how it went, what came out, and how to get it again."""

from __future__ import annotations

from typing import Any

from ..report import Page, figure
from ..wording import an, counted
from .baselines import Baselines
from .csv_logger import read_metrics
from .network import Trainable
from .run import Run


def write_report(
    run: Run,
    task: type[Trainable],
    model: Any,
    info: dict[str, str],
    result: dict[str, Any],
    baselines: Baselines | None = None,
) -> None:
    """Write the page; `info` describes the data, `result` is where the run ended."""
    metric = result["metric"]
    found = result[f"dev_{metric}"]
    epochs, minutes = result["epochs"], result["minutes"]
    kind = an(task.name).capitalize()
    lead = f"{kind} model of {model.size:,} parameters, {counted(epochs, 'epoch')} in {minutes:.1f} minutes."
    if found is not None:
        lead += f" Best dev {metric}: *{found:.4g}*, after epoch {result['best_epoch']}."
    page = Page(f"{run.folder.resolve().name}: {task.name}", lead)
    _curves(page, run, metric)
    if baselines is not None and baselines.best is not None:
        _compare(page, baselines, result)
    task.report(model, page)
    if info:
        page.heading("Data").table(["", ""], list(info.items()))
    settings = model.settings
    page.heading("Settings").text("All of them, as in `config.yaml`; those that are not the default are *marked*.")
    rows = []
    for name, field in type(settings).model_fields.items():
        value = getattr(settings, name)
        shown = "" if value is None else str(value)
        rows.append([f"`{name}`", f"*{shown}*" if value != field.default and shown else shown])
    page.table(["key", "value"], rows)
    page.footer(command=result["command"], seed=result["seed"], minutes=result["minutes"])
    page.write(run.report)


def _compare(page: Page, baselines: Baselines, result: dict[str, Any]) -> None:
    """The baselines beside the model."""
    how = "Simple methods, fitted to the same training data and measured on the same dev set."
    page.heading("Baselines").text(how, f"The model's {result['verdict']}.")
    if result.get("suggestions"):
        page.text(f"*The model does not beat its baseline.* Worth trying: {', '.join(result['suggestions'])}.")
    value = result[f"dev_{baselines.metric}"]
    model = ["*this model*", f"*{value:.4g}*", f"{60 * result['minutes']:.0f}"]
    page.table(["", f"dev {baselines.metric}", "seconds"], [*baselines.rows(), model])


def _curves(page: Page, run: Run, metric: str) -> None:
    rows = read_metrics(run.metrics)
    dev = f"dev_{metric}"
    losses = [(r["step"], r["loss"]) for r in rows if "loss" in r]
    found = [(r["step"], r[dev]) for r in rows if dev in r]
    rates = [(r["step"], r["lr"]) for r in rows if "lr" in r]
    panels = [("training loss", losses), (f"dev {metric}", found), ("learning rate", rates)]
    panels = [(title, points) for title, points in panels if points]
    drawn = figure(160 + 180 * len(panels), [title for title, _ in panels], showlegend=False)
    for row, (title, points) in enumerate(panels, 1):
        steps, values = zip(*points, strict=True)
        mode = "lines+markers" if len(points) < 40 else "lines"
        drawn.add_scatter(x=steps, y=values, mode=mode, name=title, row=row, col=1)
    drawn.update_xaxes(title_text="step", row=len(panels), col=1)
    page.figure(drawn, "Training", "What `metrics.csv` holds, step by step.")
