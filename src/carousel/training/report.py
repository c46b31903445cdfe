"""report.html of a run: metrics over the epochs, results, and the command that repeats it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..report import Page, duration, emphasis, figure, verbatim
from ..wording import capitalized, counted, either
from .baselines import Baselines
from .csv_logger import read_metrics
from .network import Trainable
from .run import Run
from .settings import shown


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
    name = model.network.metric().label(metric)
    dev_value = result[f"dev_{metric}"]
    time = duration(result["minutes"])
    ensemble = "members" in result
    kind = f"Ensemble of {result['seeds']}: {model.kind}" if ensemble else capitalized(model.kind)
    lead = f"{kind} with {model.size:,} parameters, {counted(result['epochs'], 'epoch')} in {time}."
    if dev_value is not None:
        reached = f"ev {name}: *{dev_value:.4g}*"
        lead += f" D{reached}." if ensemble else f" Best d{reached}, after epoch {result['best_epoch']}."
    page = Page(f"{run.folder.resolve().name}: {task.name}", lead)
    if ensemble:
        _members(page, result, name)
    else:
        _curves(page, run, metric, name)
    if baselines is not None and baselines.best is not None:
        _compare(page, baselines, result, name)
    if "learning_curve" in result:
        _learning_curve(page, result, name)
    task.report(model, page)
    if info:
        page.heading("Data").table(["", ""], [[name, verbatim(value)] for name, value in info.items()])
    settings, usual = model.settings, _defaults(model.settings)
    page.heading("Settings").text("All settings, as in `config.yaml`; those that differ from the default are *marked*.")
    rows = []
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        text = "" if value is None else shown(value)
        rows.append([f"`{name}`", emphasis(text) if value != usual[name] else verbatim(text)])
    page.table(["key", "value"], rows)
    page.footer(command=result["command"], seed=result["seed"], minutes=result["minutes"])
    page.write(run.report)


def _defaults(settings: Any) -> dict[str, Any]:
    """The defaults of all keys; with a file for validation nothing is held out."""
    fields = type(settings).model_fields
    defaults = {name: field.default for name, field in fields.items()}
    if getattr(settings, "dev", None) is not None and "dev_split" in fields:
        defaults["dev_split"] = "none"
    return defaults


def _members(page: Page, result: dict[str, Any], name: str) -> None:
    """The members of an ensemble; `name` is the metric's."""
    key = f"dev_{result['metric']}"
    lead = "Models that differ by their seed only; the ensemble averages their predictions."
    if result[key] is not None:
        each = result[f"members_{key}"]
        lead += f" Dev {name}: ensemble *{result[key]:.4g}*, members {each['mean']:.4g} ± {each['sd']:.2g}."
    rows = [
        [str(one["seed"]), "" if one[key] is None else f"{one[key]:.4g}", str(one["best_epoch"]),
         f"{60 * one['minutes']:.0f}"]
        for one in result["members"]
    ]  # fmt: skip
    page.heading("Members").text(lead).table(["seed", f"dev {name}", "best epoch", "seconds"], rows)


def _learning_curve(page: Page, result: dict[str, Any], name: str) -> None:
    """The dev metric by share of the training data; `name` is the metric's."""
    points = [(100 * one["share"], one[f"dev_{result['metric']}"]) for one in result["learning_curve"]]
    shares, values = zip(*points, strict=True)
    drawn = figure(300, showlegend=False)
    drawn.add_scatter(x=shares, y=values, mode="lines+markers", name=name)
    drawn.update_xaxes(title_text="% of the training data").update_yaxes(title_text=f"dev {name}")
    page.figure(drawn, "Learning curve", "One model for each share of the data, with the same settings and seed.")
    page.table(["% of the training data", f"dev {name}"], [[f"{share:g}", f"{value:.4g}"] for share, value in points])


def _compare(page: Page, baselines: Baselines, result: dict[str, Any], name: str) -> None:
    """The baselines beside the model; `name` is the metric's."""
    how = "Simple methods, fitted to the same training data and measured on the same dev set."
    page.heading("Baselines").text(how, f"The model's {result['verdict']}.")
    if result.get("suggestions"):
        page.text(f"*The model does not beat its baseline.* Worth trying: {either(result['suggestions'])}.")
    value = result[f"dev_{baselines.metric}"]
    model = [emphasis("this model"), emphasis(f"{value:.4g}"), f"{60 * result['minutes']:.1f}"]
    page.table(["", f"dev {name}", "seconds"], [*baselines.rows(), model])


def _curves(page: Page, run: Run, metric: str, name: str) -> None:
    rows = read_metrics(run.metrics)
    dev = f"dev_{metric}"
    losses = [(r["step"], r["loss"]) for r in rows if "loss" in r]
    dev_results = [(r["step"], r[dev]) for r in rows if dev in r]
    rates = [(r["step"], r["lr"]) for r in rows if "lr" in r]
    panels = [("training loss", losses), (f"dev {name}", dev_results), ("learning rate", rates)]
    panels = [(title, points) for title, points in panels if points]
    drawn = figure(160 + 180 * len(panels), [title for title, _ in panels], showlegend=False)
    for row, (title, points) in enumerate(panels, 1):
        steps, values = zip(*points, strict=True)
        mode = "lines+markers" if len(points) < 40 else "lines"
        drawn.add_scatter(x=steps, y=values, mode=mode, name=title, row=row, col=1)
        drawn.update_yaxes(range=constant_range(values), row=row, col=1)
    drawn.update_xaxes(title_text="step", row=len(panels), col=1)
    page.figure(drawn, "Training", "The values in `metrics.csv`.")


def constant_range(values: Sequence[float]) -> list[float] | None:
    """The axis of values that are all the same, from 0; None for others, whose axis plotly finds. Its own choice, 1 to
    either side, would show a learning rate of 0.001 as 0.

    >>> constant_range([0.002, 0.002]), constant_range([0.0]), constant_range([1, 2])
    ([0, 0.003], [0, 1], None)
    """
    value = values[0]
    if any(other != value for other in values):
        return None
    return [0, 1] if value == 0 else sorted([0, 1.5 * value])
