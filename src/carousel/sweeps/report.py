"""report.html of a sweep: the trials, parallel coordinates, importance of the settings, history."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..report import Page, emphasis, figure
from ..training.report import constant_range
from ..training.settings import shown
from ..wording import counted, label_of
from .results import Sweep, Trial
from .space import Choices, Range

if TYPE_CHECKING:
    import optuna

FEWEST = 4  # complete trials below which importance is not computed


def write_sweep_report(sweep: Sweep, study: optuna.Study, command: str) -> None:
    """Write the page."""
    states = [trial.state for trial in sweep.trials]
    each = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    lead = f"Sweep of {sweep.task} over {', '.join(sweep.space)}: {counted(len(states), 'trial')} ({each})."
    best, name = sweep.best, label_of(sweep.metric)
    if best is not None:
        lead += f" Best dev {name}: *{best.value:.4g}*, {sweep.name_of_best}."
    page = Page(f"{sweep.folder.resolve().name}: sweep", lead)
    columns, rows = sweep.rows()
    page.heading("Trials").text("The best first; each trial is a run directory in `trials/`.")
    page.table(columns, [[emphasis(cell) for cell in row] if k == 0 and best else row for k, row in enumerate(rows)])
    for trial in sweep.trials:
        if trial.error:
            page.text(f"Trial {trial.number} failed: {trial.error}")
    if sweep.complete:
        _coordinates(page, sweep, name)
        _importance(page, sweep, study, name)
        _history(page, sweep, name)
    page.footer(command=command, minutes=sum(trial.minutes or 0.0 for trial in sweep.trials))
    page.write(sweep.folder / "report.html")


def position(one: Choices | Range, value: Any) -> float:
    """Where a value is on the axis of its key, from 0 to 1.

    >>> position(Range(1e-4, 1e-2, log=True), 1e-3), position(Choices((128, 256, 512)), 256)
    (0.5, 0.5)
    """
    if isinstance(one, Choices):
        return one.values.index(value) / (len(one.values) - 1)
    low, high, at = (math.log(x) if one.log else x for x in (one.low, one.high, value))
    return round((at - low) / (high - low), 6)


def _ticks(one: Choices | Range) -> list[Any]:
    if isinstance(one, Choices):
        return list(one.values)
    middle = (one.low * one.high) ** 0.5 if one.log else (one.low + one.high) / 2
    return [one.low, middle, one.high]


def _coordinates(page: Page, sweep: Sweep, name: str) -> None:
    """One line per trial through the values it had, coloured by where its dev metric lies among them all."""
    from plotly.colors import sample_colorscale

    values = [trial.value for trial in sweep.complete if trial.value is not None]
    low, high = min(values), max(values)
    axes = [*sweep.space, f"dev {name}"]

    def place(value: float) -> float:
        return 0.5 if low == high else (value - low) / (high - low)

    drawn = figure(440, showlegend=False, hovermode="closest")
    for trial in reversed(sweep.complete):  # the best on top
        assert trial.value is not None
        good = place(trial.value) if not sweep.lower_is_better else 1 - place(trial.value)
        heights = [position(one, trial.values[key]) for key, one in sweep.space.items()]
        first = trial is sweep.best
        drawn.add_scatter(
            x=list(range(len(axes))), y=[*heights, place(trial.value)], mode="lines+markers", text=_describe(trial),
            hoverinfo="text", opacity=1 if first else 0.7,
            line={"color": sample_colorscale("Viridis", [1 - good])[0], "width": 4 if first else 1.5},
        )  # fmt: skip
    for x, one in enumerate(sweep.space.values()):
        for tick in _ticks(one):
            text = f"{tick:.3g}" if isinstance(tick, float) else shown(tick)
            drawn.add_annotation(x=x, y=position(one, tick), text=text, showarrow=False, xanchor="right", xshift=-6)
    for at in {low, high}:
        drawn.add_annotation(x=len(axes) - 1, y=place(at), text=f"{at:.4g}", showarrow=False, xanchor="left", xshift=8)
    drawn.update_xaxes(tickvals=list(range(len(axes))), ticktext=axes, range=[-0.4, len(axes) - 0.6])
    drawn.update_yaxes(visible=False, range=[-0.05, 1.05])
    page.figure(
        drawn, "Parallel coordinates",
        "One line per complete trial: the values of its settings and its dev metric. Dark is good; the thick line is "
        "the best trial.",
    )  # fmt: skip


def _describe(trial: Trial) -> str:
    own = ", ".join(f"{name} {shown(value)}" for name, value in trial.values.items())
    return f"trial {trial.number}: {trial.value:.4g} ({own})"


def _importance(page: Page, sweep: Sweep, study: optuna.Study, name: str) -> None:
    """Bars of Optuna's PED-ANOVA: how much a key tells good trials from others."""
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    if len(sweep.complete) < FEWEST or len({trial.value for trial in sweep.complete}) < 2:
        return
    shares = get_param_importances(study, evaluator=PedAnovaImportanceEvaluator())
    keys = sorted(shares, key=lambda key: shares[key])
    drawn = figure(110 + 34 * len(keys), showlegend=False)
    drawn.add_bar(x=[shares[key] for key in keys], y=keys, orientation="h")
    drawn.update_xaxes(title_text="share of importance", range=[0, 1])
    few = " There are few trials: take it as a hint." if len(sweep.complete) < 20 else ""
    page.figure(
        drawn, "Importance",
        f"How much each setting decided dev {name} among the {len(sweep.complete)} complete trials (PED-ANOVA).{few}",
    )  # fmt: skip


def _history(page: Page, sweep: Sweep, name: str) -> None:
    """The dev metric of each trial in order, and the best until then."""
    drawn = figure(380)
    for state in ("complete", "pruned"):
        own = [trial for trial in sweep.trials if trial.state == state]
        if own:
            drawn.add_scatter(
                x=[trial.number for trial in own], y=[trial.value for trial in own], mode="markers", name=state,
                text=[_describe(trial) for trial in own], hoverinfo="text",
            )  # fmt: skip
    numbers: list[int] = []
    best: list[float] = []
    for trial in sweep.trials:
        if trial.state == "complete" and trial.value is not None:
            numbers.append(trial.number)
            choose = min if sweep.lower_is_better else max
            best.append(trial.value if not best else choose(best[-1], trial.value))
    drawn.add_scatter(x=numbers, y=best, mode="lines", name="best so far", line={"shape": "hv"})
    drawn.update_xaxes(title_text="trial", dtick=1 if len(sweep.trials) <= 10 else None).update_yaxes(
        title_text=f"dev {name}"
    )
    reached = [
        trial.value for trial in sweep.trials if trial.state in ("complete", "pruned") and trial.value is not None
    ]
    drawn.update_yaxes(range=constant_range(reached))
    page.figure(drawn, "History", "The dev metric of each trial; of a pruned one, after its last epoch.")
