"""Which cells remember one bit through noise, and which forget.

    x_t = s + ε_t    for the first L steps, which say the class: s = +1 or −1
    x_t = ε_t        for the T steps that follow, which say nothing;  ε_t ~ N(0, noise²)

and the class is asked after the last step. One tanh unit can hold it: `h = tanh(w h₋ + x)` with `w > 1` has two stable
states. The claim is that gradient descent does not find them once T is long, because the gradient that should teach
the first steps has vanished on its way back to them, and that a gated cell lets it through.

    result = carousel.lab.latch()
    print(result)                            # a table
    result.plot().show()                     # accuracy against length
    result.write("latch")                    # all figures, with words
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from typing import Any

import torch

from ... import report
from ...threads import threads
from ..cells import CELLS
from ..latching import Outcome, Setting, cost, fixed_points, train, turning_input
from ..old_finding import Claim, Finding, Verdict
from ..progress import Bar
from ..words import listing, percent, power

CHANCE = 0.5
LEARNED = 0.95  # the accuracy from which the page says that a cell knows the answer
MARK = {"color": report.INK, "width": 1.2, "dash": "dot"}


@dataclass
class Latch(Finding):
    """What :func:`run` found. An outcome that does not share `setting` is there for comparison."""

    name = "latch"
    title = "The latch task: which cell remembers?"
    claim = Claim(
        "A single tanh unit can hold one bit for as long as one likes, but gradient descent has trouble finding out "
        "how: the more firmly the bit is held, the less gradient gets back to where it was written. A gated cell lets "
        "the gradient through (Bengio, Simard and Frasconi, 1994; Hochreiter and Schmidhuber, 1997).",
        "004 “Learning Long-Term Dependencies”",
        ("h = tanh(w h₋ + x), which has two stable states for w > 1", "c = f∘c₋ + i∘g, so that ∂c/∂c₋ = f"),
    )

    setting: Setting
    outcomes: list[Outcome]
    seconds: float = 0.0

    @property
    def seed(self) -> int:  # type: ignore[override]
        return self.setting.seed

    @property
    def contenders(self) -> list[Outcome]:
        return [o for o in self.outcomes if o.setting == self.setting]

    @property
    def comparisons(self) -> list[Outcome]:
        return [o for o in self.outcomes if o.setting != self.setting]

    def label(self, outcome: Outcome) -> str:
        """What a page calls it: the cell, and what it does not share with the others."""
        says = [CELLS[outcome.cell].label]
        for part in fields(Setting):
            if (value := getattr(outcome.setting, part.name)) != getattr(self.setting, part.name):
                if part.name == "irrelevant":
                    says.append(f"trained with T = {value}")
                elif part.name == "gates" and outcome.layer.forget_bias is not None and value != "chrono":
                    says.append(f"forget bias {outcome.layer.forget_bias:g}")
                else:
                    says.append(f"{part.name} {value}")
        return ", ".join(says)

    def head(self) -> str:
        """The head of the table that `print` gives."""
        last = f"at {self.setting.longest}"
        return f"{'cell':31}{'parameters':>11}{'updates':>8}{'accuracy':>9}{last:>9}{'seconds':>9}"

    def row(self, o: Outcome) -> str:
        accuracies = f"{percent(o.where_trained):>9}{percent(o.accuracy[self.setting.longest]):>9}"
        return f"{self.label(o):31}{o.parameters:>11}{len(o.curve):>8}{accuracies}{o.seconds:>9.1f}"

    def __str__(self) -> str:
        return "\n".join([self.head(), *map(self.row, self.outcomes)])

    def figures(self) -> dict[str, Any]:
        """`accuracy`, `gradient`, `unit` and, if an LSTM took part, `gate`."""
        found = {"accuracy": plot_accuracy(self), "gradient": plot_gradient(self)}
        if (lstm := self.lstm) is not None:
            found["gate"] = plot_gate(lstm)
        return {**found, "unit": plot_unit()}

    @property
    def lstm(self) -> Outcome | None:
        """The LSTM among the contenders: the one that is looked into."""
        return next((o for o in self.contenders if o.cell == "lstm"), None)

    def paths(self) -> str:
        """Which code ran the layers."""
        batch = torch.empty(self.setting.steps, self.setting.batch, 1)
        return "; ".join(sorted({repr(o.layer.path(batch)) for o in self.outcomes}))

    def facts(self) -> dict[str, str]:
        return {"Layers": self.paths()}

    def lead(self) -> str:
        return lead(self)

    def ran(self) -> list[str]:
        return [describe_task(self.setting), *describe_training(self)]

    def tell(self, page: report.Page) -> None:
        tell(self, page)

    def verdict(self) -> Verdict:
        return judge(self)

    def numbers(self) -> dict[str, Any]:
        return {
            "setting": asdict(self.setting),
            "seconds": self.seconds,
            "outcomes": [
                {
                    "cell": o.cell,
                    "setting": asdict(o.setting),
                    "parameters": o.parameters,
                    "solved": o.solved,
                    "seconds": o.seconds,
                    "training_accuracy": o.curve,
                    "test_accuracy_by_irrelevant_steps": o.accuracy,
                    "gradient_by_step": o.gradient,
                }
                for o in self.outcomes
            ],
        }


HELP = """Train every cell to remember one bit through noise: a plain RNN forgets, an LSTM does not. Two minutes.

The first steps of a sequence say which class it belongs to, the rest is
noise. The page shows accuracy against length, the gradient that reaches
the first step, and the forget gate over time.

\b
carousel lab latch --out latch
carousel lab latch --seed 3
"""


def run(
    setting: Setting | None = None,
    cells: Sequence[str] | None = None,
    compare: Iterable[tuple[str, Setting]] | None = None,
    bar: Bar | None = None,
) -> Latch:
    """Train every one of `cells` with the same `setting`, and then each (cell, setting) to `compare` them with.

    By default, `cells` are all that are registered, and those to compare with are the RNN at a length it can learn and
    the LSTM with forget bias 1 and 0.

    >>> result = run(Setting(irrelevant=5, longest=20, updates=1), cells=["rnn", "lstm"], compare=[])
    >>> [outcome.cell for outcome in result.outcomes]
    ['rnn', 'lstm']
    """
    result = Latch(setting or Setting(), [])
    if compare is None:
        short = replace(result.setting, irrelevant=max(1, result.setting.irrelevant // 10))
        compare = [("rnn", short), *(("lstm", replace(result.setting, gates=start)) for start in ("layer", "zero"))]
    trainings = [*((cell, result.setting) for cell in (CELLS if cells is None else cells)), *compare]
    costs = [cost(*training) for training in trainings]
    bar = bar or Bar(quiet=True)
    start = time.perf_counter()
    # Networks this small gain nothing from a second thread, and lose much by it where cores are shared.
    with threads(1), bar.over(result.head(), sum(costs), "accuracy {:.0%}"):
        for (cell, its), whole in zip(trainings, costs, strict=True):
            bar.start(CELLS[cell].label)
            outcome = train(cell, its, partial(bar.advance, whole / its.updates))
            result.outcomes.append(outcome)
            bar.finish(result.row(outcome), unused=whole * (1 - len(outcome.curve) / its.updates))
    result.seconds = time.perf_counter() - start
    return result


# ---- figures ----


def plot_accuracy(result: Latch) -> Any:
    """Accuracy against T, one panel a cell, filled from chance; the length of training is marked."""
    longest, shown = result.setting.longest, result.outcomes
    titles = [f"<b>{result.label(o)}</b>  {percent(o.where_trained)} → {percent(o.accuracy[longest])}" for o in shown]
    figure = report.figure(height=90 + 82 * len(shown), titles=titles, hovermode="x", showlegend=False)
    lengths = spread(1, longest)
    for row, outcome in enumerate(shown, 1):
        chance = {"color": report.QUIET, "width": 1, "dash": "dash"}
        figure.add_scatter(x=lengths, y=[CHANCE] * len(lengths), line=chance, hoverinfo="skip", row=row, col=1)
        figure.add_scatter(
            x=lengths,
            y=[outcome.accuracy[t] for t in lengths],
            name=result.label(outcome),
            line={"color": CELLS[outcome.cell].colour},
            fill="tonexty",
            fillcolor=pale(CELLS[outcome.cell].colour),
            hovertemplate="T = %{x}: %{y:.1%}<extra></extra>",
            row=row,
            col=1,
        )
        figure.add_vline(outcome.setting.irrelevant, line=MARK, row=row, col=1)
    figure.update_xaxes(type="log", dtick=1, showgrid=False)
    figure.update_xaxes(title_text="irrelevant steps T before the answer", row=len(shown), col=1)
    figure.update_yaxes(range=[-0.05, 1.08], tickvals=[0, CHANCE, 1], tickformat=".0%", showgrid=False)
    return figure


def plot_gradient(result: Latch) -> Any:
    """‖∂L/∂h_t‖ and ‖∂L/∂c_t‖ against t on a log scale, one panel a state."""
    setting, shown = result.setting, same_length(result)
    names = {"h": "through the output h", "c": "through the cell c"}
    states = list(dict.fromkeys(name for o in shown for name in o.gradient))
    titles = [names.get(state, f"through the state {state}") for state in states]
    figure = report.figure(height=170 + 250 * len(states), titles=titles, hovermode="x")
    for row, state in enumerate(states, 1):
        for outcome in shown:
            if state not in outcome.gradient:
                continue
            kind, label = CELLS[outcome.cell], result.label(outcome)
            figure.add_scatter(
                x=list(range(1, setting.steps + 1)),
                y=[size or None for size in outcome.gradient[state]],  # an underflow has no place on a log scale
                name=label,
                legendgroup=label,
                showlegend=state == outcome.layer.cell.output,
                line={"color": kind.colour, "dash": kind.dash if outcome.setting == setting else "dot"},
                hovertemplate="%{y:.1e}",
                row=row,
                col=1,
            )
        title = f"‖∂L/∂{state}<sub>t</sub>‖"
        figure.update_yaxes(
            type="log", range=[-16, 1], dtick=4, exponentformat="power", title_text=title, row=row, col=1
        )
    mark_relevant(figure, setting)
    figure.update_xaxes(title_text="step t; the answer is read at the last", row=len(states), col=1)
    return figure


def plot_gate(outcome: Outcome) -> Any:
    """One sequence of each class through a trained LSTM: input, forget gate and cell, units against steps."""
    x, forget, cell = look(outcome)
    steps = list(range(1, outcome.setting.steps + 1))
    titles = [
        "input x: class + dark, class − light",
        "forget gate f, class +",
        "cell tanh c, class −",
        "cell tanh c, class +",
    ]
    figure = report.figure(height=860, titles=titles, row_heights=[0.16, 0.28, 0.28, 0.28], showlegend=False)
    for k, colour in enumerate(("#98a2ae", report.INK)):
        figure.add_scatter(x=steps, y=x[:, k].tolist(), line={"color": colour, "width": 1.3}, row=1, col=1)
    # f = 0.9 and f = 0.99 are ten steps and a hundred: the colour goes with log 1/(1 − f), so that one sees it.
    ticks = [0.5, 0.9, 0.97, 0.99, 0.997, 0.999]
    figure.add_heatmap(
        x=steps,
        z=(-(1 - forget[:, 1]).clamp(min=1e-4).log10()).T.tolist(),
        customdata=forget[:, 1].T.tolist(),
        hovertemplate="step %{x}, unit %{y}: f = %{customdata:.4f}<extra></extra>",
        colorscale="Viridis",
        colorbar=colour_bar(figure, 2, [-math.log10(1 - f) for f in ticks], [f"{f:g}" for f in ticks]),
        row=2,
        col=1,
    )
    for row, k in ((3, 0), (4, 1)):
        figure.add_heatmap(
            x=steps,
            z=cell[:, k].tanh().T.tolist(),
            zmin=-1,
            zmax=1,
            customdata=cell[:, k].T.tolist(),
            hovertemplate="step %{x}, unit %{y}: c = %{customdata:.2f}<extra></extra>",
            colorscale="RdBu",
            colorbar=colour_bar(figure, row, [-1, 0, 1], ["−1", "0", "1"]),
            row=row,
            col=1,
        )
    mark_relevant(figure, outcome.setting)
    figure.update_yaxes(title_text="unit", showgrid=False).update_yaxes(title_text="", row=1, col=1)
    figure.update_xaxes(showgrid=False).update_xaxes(title_text="step t", row=4, col=1)
    return figure


def plot_unit() -> Any:
    """The single unit h = tanh(w h₋ + x): the next h against h, for some w and for some x, with its fixed points."""
    h = [k / 100 for k in range(-100, 101)]
    titles = [
        "no input: with w above 1 there are two stable states",
        "w = 2: an input below 0.53 does not turn the bit",
    ]
    figure = report.figure(height=720, titles=titles, hovermode="closest")
    panels = [[(0.8, 0.0), (1.2, 0.0), (2.0, 0.0)], [(2.0, 0.3), (2.0, turning_input(2.0)), (2.0, 0.8)]]
    for row, settings in enumerate(panels, 1):
        figure.add_scatter(
            x=[-1, 1], y=[-1, 1], name="h = h₋", legendgroup="same", showlegend=row == 1, hoverinfo="skip",
            mode="lines", line={"color": report.QUIET, "width": 1, "dash": "dash"}, row=row, col=1,
        )  # fmt: skip
        for k, (w, x) in enumerate(settings):
            colour = report.LAYOUT["colorway"][3 * (row - 1) + k]
            figure.add_scatter(
                x=h, y=[math.tanh(w * value + x) for value in h], name=f"w = {w:g}, x = {x:.2g}", mode="lines",
                line={"color": colour}, row=row, col=1,
            )  # fmt: skip
            for stable, symbol in ((True, "circle"), (False, "x")):
                points = [value for value, held in fixed_points(w, x) if held is stable]
                figure.add_scatter(
                    x=points, y=points, mode="markers", name="stable" if stable else "not stable",
                    legendgroup=symbol, showlegend=(row, k) == (1, 2),
                    marker={"color": colour, "size": 9, "symbol": symbol}, row=row, col=1,
                )  # fmt: skip
    figure.update_yaxes(title_text="h").update_xaxes(title_text="h₋", row=2, col=1)
    return figure


def mark_relevant(figure: Any, setting: Setting) -> None:
    """Mark the relevant steps in every panel."""
    figure.add_vrect(0.5, setting.relevant + 0.5, fillcolor="#e9edf1", line_width=0, layer="below")
    figure.add_vline(setting.relevant + 0.5, line=MARK)
    figure.update_xaxes(range=[0.5, setting.steps + 0.5])


def colour_bar(figure: Any, row: int, values: list[float], texts: list[str]) -> dict[str, Any]:
    """A colour bar beside the panel in `row`, as high as it."""
    bottom, top = figure.get_subplot(row, 1).yaxis.domain
    place = {"y": bottom, "yanchor": "bottom", "len": top - bottom, "ypad": 0}
    return {**place, "thickness": 12, "outlinewidth": 0, "tickvals": values, "ticktext": texts}


def pale(colour: str) -> str:
    """The same colour, for an area."""
    red, green, blue = (int(colour[k : k + 2], 16) for k in (1, 3, 5))
    return f"rgba({red}, {green}, {blue}, 0.22)"


def spread(first: int, last: int, count: int = 160) -> list[int]:
    """Whole numbers from `first` to `last`, evenly on a log scale."""
    return sorted({round(first * (last / first) ** (k / (count - 1))) for k in range(count)})


def look(outcome: Outcome) -> tuple[Any, Any, Any]:
    """Input (T, 2), forget gate and cell (T, 2, H) of one sequence of each class, units sorted by what they keep."""
    x, trace = outcome.trace()
    forget, cell = trace.gates["f"][0], trace.c[0]
    units = forget.mean((0, 1)).argsort()
    return x[..., 0], forget[..., units].detach(), cell[..., units].detach()


def same_length(result: Latch) -> list[Outcome]:
    """Those whose gradients go the same number of steps."""
    return [o for o in result.outcomes if o.setting.steps == result.setting.steps]


# ---- words: what they say is decided by the numbers ----


def tell(result: Latch, page: report.Page) -> None:
    figures = result.figures()
    page.figure(figures["accuracy"], "Accuracy against length", *describe_accuracy(result))
    page.figure(figures["gradient"], "The gradient on its way back", *describe_gradient(result))
    if result.lstm is not None:
        page.figure(figures["gate"], "Inside the LSTM: the forget gate over time", *describe_gate(result.lstm))
    page.figure(
        figures["unit"], "How one unit holds a bit",
        "The text's single unit, h = tanh(w h₋ + x). Where its curve meets the dashed line, h stays as it is. With w "
        f"above 1 there are two such states that are stable, and the unit is a switch; with w = 2 it takes an input "
        f"above {turning_input(2.0):.2f}, for long enough, to turn it, so that smaller noise does no harm. But where "
        "the bit is held the curve is flat: its slope, w (1 − h²), is "
        f"{2 * (1 - fixed_points(2.0, 0.0)[-1][0] ** 2):.2f} there, and a gradient is multiplied by that at each step.",
    )  # fmt: skip
    page.heading("Numbers").text(
        f"*Accuracy* is that on {result.setting.tests} new sequences of the length of training. *Gradient kept* is the "
        "gradient at step 1 divided by that at the last step, before training, in c or, where there is none, in h."
    )
    page.table(*tabulate(result))


def judge(result: Latch) -> Verdict:
    """The claim is about an RNN and gated cells of one training: without both of them there is nothing to say."""
    plain = [o for o in result.contenders if o.cell == "rnn"]
    gated = [o for o in result.contenders if o.cell != "rnn"]
    if not plain or not gated:
        return Verdict(None, "It takes a plain RNN and a gated cell to compare.")
    able, _ = divide(gated, lambda o: o.where_trained)
    rnn = plain[0].where_trained
    says = (
        f"At T = {result.setting.irrelevant}, {len(able)} of {len(gated)} gated cells answer at least "
        f"{percent(LEARNED, 0)} correctly, and the RNN {percent(rnn)}."
    )
    return Verdict(rnn < LEARNED and len(able) > len(gated) / 2, says)


def lead(result: Latch) -> str:
    says = f"Remember one bit through {result.setting.irrelevant} steps of noise."
    accuracy = {o.cell: o.where_trained for o in result.contenders}
    if "rnn" in accuracy and "lstm" in accuracy:
        says += (
            f" After the same training, a plain RNN answers {percent(accuracy['rnn'])} of new sequences correctly and "
            f"an LSTM {percent(accuracy['lstm'])}; guessing gives {percent(CHANCE, 0)}."
        )
    return says


def describe_task(setting: Setting) -> str:
    return (
        f"The first {setting.relevant} inputs are all +1 or all −1: that is the class. The T = {setting.irrelevant} "
        f"that follow are 0. Gaussian noise with standard deviation {setting.noise:g} is added to every one. The "
        "network reads one number at a time, nothing marks where the irrelevant part begins, and the class is asked "
        "after the last step."
    )


def describe_accuracy(result: Latch) -> list[str]:
    setting = result.setting
    able, unable = divide(result.contenders, lambda o: o.where_trained)
    says = [
        f"Each cell was trained with the T at its dotted line and is tested with T from 1 to {setting.longest}. Its "
        f"accuracy is given where trained → at T = {setting.longest}; the dashed line is chance."
    ]
    if able:
        who, answer = listing(map(result.label, able)), "answers" if len(able) == 1 else "answer"
        says.append(f"At T = {setting.irrelevant}, {who} {answer} at least {percent(LEARNED, 0)} correctly.")
    if unable:
        got = listing(f"{result.label(o)} with {percent(o.where_trained)}" for o in unable)
        says.append(f"Below that: {got}.")
    if able:
        lasting, fallen = divide(able, lambda o: o.accuracy[setting.longest])
        times = f"{setting.longest / setting.irrelevant:.3g} times the length of training"
        says.append(f"At T = {setting.longest}, {times}, {len(lasting)} of these {len(able)} still do.")
        if fallen:
            got = listing(f"{result.label(o)} with {percent(o.accuracy[setting.longest])}" for o in fallen)
            says.append(f"Not any more: {got}.")
    if any(o.accuracy[t] < 1 - LEARNED for o in result.outcomes for t in range(1, setting.longest + 1)):
        says.append("Where a line is near zero the bit is still there, with its sign turned.")
    return [" ".join(says), *compare(result)]


def compare(result: Latch) -> list[str]:
    """What the rows below the contenders show."""
    says, setting = [], result.setting
    for o in result.comparisons:
        if o.setting.irrelevant != setting.irrelevant:
            says.append(
                f"{result.label(o)} instead of {setting.irrelevant}, answers {percent(o.where_trained)} correctly at "
                f"that length, {percent(o.accuracy[setting.irrelevant])} at T = {setting.irrelevant} and "
                f"{percent(o.accuracy[setting.longest])} at T = {setting.longest}."
            )
        elif o.setting.gates == "layer":
            says.append(
                f"{result.label(o)}, which is the layer's default, instead of the biases described below, answers "
                f"{percent(o.where_trained)} correctly."
            )
        else:
            says.append(f"{result.label(o)}, answers {percent(o.where_trained)} correctly.")
    return [f"For comparison, in the last rows: {' '.join(says)}"] if says else []


def describe_gradient(result: Latch) -> list[str]:
    shown = same_length(result)
    able, unable = divide(shown, lambda o: o.where_trained)
    parts = listing(f"{power(o.gradient_kept)} in {result.label(o)}" for o in shown)
    says = [f"As a part of the gradient at the last step, the gradient at step 1 is {parts}."]
    if able and unable:
        low, high = min(o.gradient_kept for o in able), max(o.gradient_kept for o in unable)
        says.append(
            f"Those that learned the task started with {power(low)} or more, the others with {power(high)} or less."
            if low > high
            else "In this run, that alone does not tell which cells learned the task."
        )
    return [
        "How strongly the loss at the end depends on the state at step t, before the first update: on the output h, "
        "and on the cell c that LSTMs carry along beside it. A weight can learn what to do with the relevant steps "
        "(shaded) only from the gradient that gets back to them. A line that breaks off has left the figure, or what "
        "float32 can hold.",
        " ".join(says),
    ]


def describe_gate(lstm: Outcome) -> list[str]:
    _, forget, cell = look(lstm)
    kept = forget[:, 1].mean(0)  # (H)
    low, high = float(kept.min()), float(kept.max())
    opposite = int((cell[-1, 0] * cell[-1, 1] < 0).sum())
    return [
        f"The trained LSTM ({percent(lstm.where_trained)} correct) reads one sequence of each class; its units are "
        "sorted by how much they keep, and the relevant steps end at the dotted line. A forget gate at f keeps what it "
        f"holds for about 1/(1 − f) steps: on average over the sequence, from {memory(low)} to "
        f"{memory(high)}.",
        "The two lower panels are the cells, as the output gate sees them. After the last step, "
        f"{opposite} of the {len(kept)} have opposite signs in the two sequences.",
    ]


def memory(f: float) -> str:
    return f"{1 / max(1 - f, 1e-6):.0f} steps (f = {f:.3f})"


def describe_training(result: Latch) -> list[str]:
    setting = result.setting
    less = (
        "With one input, LN(W x) keeps little more than the sign of x: the layer-norm LSTM is shown less than others."
    )
    start = {
        "chrono": "The gates that keep the past (f, and z in the GRUs) start with the *chrono* biases of Tallec and "
        f"Ollivier (2018): log u with u drawn between 1 and {setting.steps - 1}, so that the units begin with memories "
        "of all lengths up to the task's; an input gate starts with the negated bias. The RNN has no such gate. All "
        "other weights start as in PyTorch.",
        "layer": "All weights start as the layers themselves start them: as in PyTorch, with forget bias 1.",
        "zero": "All weights start as in PyTorch, and the forget gate's bias is 0.",
    }[setting.gates]
    return [
        f"Every cell has {setting.hidden} units and the same training: Adam with learning rate {setting.rate:g}, "
        f"gradients clipped to norm {setting.clip:g}, the same batches of {setting.batch} new sequences, at most "
        f"{setting.updates} updates, and an end as soon as {setting.solved} batches in a row are without a mistake. "
        f"{start} {less if any(o.cell == 'layernorm' for o in result.outcomes) else ''}",
    ]


def tabulate(result: Latch) -> tuple[list[str], list[list[str]]]:
    longest = result.setting.longest
    columns = [
        "Cell",
        "Parameters",
        "Updates",
        "Accuracy",
        f"at T = {longest}",
        "Gradient kept",
        "Seconds",
        "ms/update",
    ]
    rows = [
        [
            result.label(o),
            f"{o.parameters}",
            f"{len(o.curve)}" if o.solved else f"{len(o.curve)} (all)",
            percent(o.where_trained),
            percent(o.accuracy[longest]),
            power(o.gradient_kept),
            f"{o.seconds:.1f}",
            f"{1000 * o.seconds / len(o.curve):.0f}",
        ]
        for o in result.outcomes
    ]
    return columns, rows


def divide(outcomes: list[Outcome], accuracy: Callable[[Outcome], float]) -> tuple[list[Outcome], list[Outcome]]:
    """Those that know the answer, and those that do not."""
    return [o for o in outcomes if accuracy(o) >= LEARNED], [o for o in outcomes if accuracy(o) < LEARNED]
