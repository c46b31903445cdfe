"""Which cells remember one bit through noise, and which forget.

    x_t = s + ε_t    for the first L steps, which say the class: s = +1 or −1
    x_t = ε_t        for the T steps that follow, which say nothing;  ε_t ~ N(0, noise²)

and the class is asked after the last step. One tanh unit can hold it: `h = tanh(w h₋ + x)` with `w > 1` has two stable
states. The claim is that gradient descent does not find them once T is long, because the gradient that should teach
the first steps has vanished on its way back to them, and that a gated cell lets it through.

    result = carousel.lab.latch()
    print(result)                            # a table
    result.plot().show()                     # accuracy against length
    result.write("latch")                    # the page, with all figures
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from typing import Any

import torch

from ... import report
from ...errors import check_counts
from ...threads import threads
from ...wording import counted
from ..cells import CELLS
from ..claim import Claim, Numbers, Verdict, by_case, by_seed, fails, holds, undecided
from ..finding import Exercise, Finding, Table
from ..latching import Outcome, Setting, cost, fixed_points, make, train, turning_input
from ..measured import Clock
from ..options import Seeds
from ..progress import Bar
from ..words import listing, percent, percent_and_spread, power, span

CHANCE = 0.5
LEARNED = 0.95  # the accuracy from which the page says that a cell knows the answer
MARK = {"color": report.INK, "width": 1.2, "dash": "dot"}


def _rows(numbers: Numbers, **wanted: Any) -> list[dict[str, Any]]:
    return [one for one in numbers["outcomes"] if all(one[key] == value for key, value in wanted.items())]


def _accuracies(rows: Sequence[Numbers], key: str = "accuracy") -> str:
    return percent_and_spread([one[key] for one in rows], 1)


def _long(numbers: Numbers, tolerance: float) -> Verdict:
    rows = _rows(numbers, cell="rnn", role="compared")
    if not rows:
        return undecided("No plain RNN was trained.")
    text = (
        f"After T = {numbers['setting']['irrelevant']} steps of noise the plain RNN answers {_accuracies(rows)} of new "
        f"sequences correctly, over {counted(len(rows), 'random seed')}; guessing gives 50 %."
    )
    if short := _rows(numbers, cell="rnn", role="shorter"):
        text += (
            f" Trained with T = {short[0]['irrelevant']}, it answers {_accuracies(short)} at that length and "
            f"{_accuracies(short, 'at_longest')} at T = {numbers['setting']['longest']}."
        )
        if kept := sum(one["at_longest"] >= tolerance for one in short):
            text += f" {kept} of {len(short)} hold the bit that long, so an RNN can."
    return by_seed([one["accuracy"] < tolerance for one in rows], text)


def _default(numbers: Numbers, tolerance: float) -> Verdict:
    chrono, default = _rows(numbers, cell="lstm", role="compared"), _rows(numbers, cell="lstm", role="default")
    if not chrono or not default:
        return undecided("It takes an LSTM with the biases that it has by default, and one with those of the task.")
    t = numbers["setting"]["irrelevant"]
    text = (
        f"At T = {t} an LSTM with forget bias 1, the default, answers {_accuracies(default)} correctly; with biases "
        f"drawn for that length (chrono) {_accuracies(chrono)}; over {counted(len(default), 'random seed')}."
    )
    able = {
        label: [one["accuracy"] >= tolerance for one in rows]
        for rows, label in ((default, "an LSTM with forget bias 1"), (chrono, "an LSTM whose biases suit the length"))
    }
    return by_case(able, text)


def _easy(numbers: Numbers, tolerance: float) -> Verdict:
    own, short = (_rows(numbers, cell="lstm", role=role) for role in ("default", "default, shorter"))
    if not own or not short:
        return undecided("It takes an LSTM as it is by default, trained with two lengths.")
    parts, able = [], {}
    for rows in (short, own):
        t = rows[0]["irrelevant"]
        parts.append(f"T = {t}, {_accuracies(rows)} after {span([one['updates'] for one in rows])} updates")
        able[f"this task with T = {t}"] = [one["accuracy"] >= tolerance for one in rows]
    text = f"An LSTM with forget bias 1, the default, answers correctly: with {listing(parts)}."
    return by_case(able, f"{text} That is over {counted(len(own), 'random seed')}, and about this task only.")


def _trivial(numbers: Numbers, tolerance: float) -> Verdict:
    unit = numbers["unit"]
    text = (
        f"h = tanh(w h₋ + x) with w = {unit['w']:g}, set by hand, has stable states at ±{unit['stable']:.4f} and "
        f"answers {percent(unit['accuracy'])} of the sequences with T = {unit['irrelevant']:,} correctly."
    )
    return holds(text) if unit["accuracy"] >= tolerance else fails(text)


def _steps(numbers: Numbers, tolerance: float) -> Verdict:
    s = numbers["setting"]
    text = (
        f"L = {s['relevant']} steps are relevant and T = {s['irrelevant']} follow: what was read must be kept for T "
        "steps, until the answer is due. To keep it for L steps is not enough."
    )
    return holds(text) if s["relevant"] >= s["irrelevant"] else fails(text)


@dataclass
class Latch(Finding):
    """What :func:`run` gives. An outcome that does not share `setting` is there for comparison."""

    name = "latch"
    title = "The latch task: which cell remembers?"
    trains = True
    claims = (
        Claim(
            "long",
            "RNNs are awful at learning long-term patterns.",
            "004 RNNs are awful at learning long-term patterns",
            "with every random seed the plain RNN answers less than {tolerance} of new sequences correctly.",
            _long,
            tolerance=LEARNED,
            seeds=5,
        ),
        Claim(
            "default",
            "Remembering information for long periods of time is practically their default behavior, not something "
            "they struggle to learn!",
            "003 §11",
            "with every random seed an LSTM, as it is by default, answers {tolerance} or more correctly; if only one "
            "whose biases suit the length does, it holds for that one.",
            _default,
            tolerance=LEARNED,
            seeds=5,
        ),
        Claim(
            "easy",
            "Above all: easy to train.",
            "004 Success stories of LSTMs",
            "with every random seed an LSTM, as it is by default, learns the task at both lengths: it answers "
            "{tolerance} or more correctly.",
            _easy,
            tolerance=LEARNED,
            seeds=5,
        ),
        Claim(
            "trivial",
            "Trivial solution: using only one tanh neuron! … Latch to ±1",
            "004 A hard task for this, with the equations of Dynamics and failure",
            "one unit with a weight set by hand answers {tolerance} or more of the longest sequences correctly.",
            _trivial,
            tolerance=LEARNED,
            printed=(r"x_t = f(a_t) = \tanh(a_t)", r"a_t = wx_{t-1} + h_t"),
        ),
        Claim(
            "steps",
            "Intuition: figure out relevant information. Then keep it for L steps.",
            "004 A hard task for this",
            "L steps are as many as there are between the relevant part and the answer.",
            _steps,
            printed=(r"\text{keep it for } L \text{ steps}",),
            corrected=(r"\text{keep it for } T \text{ steps}",),
        ),
    )
    exercises = (
        Exercise(
            "For which w has \\(h = \\tanh(w h)\\) more than one solution?",
            "For \\(w > 1\\): the curve leaves 0 with the slope w and must meet the diagonal again before 1.",
        ),
        Exercise(
            "How much does a forget gate of \\(\\sigma(1) = 0.73\\), the default, keep after 100 steps? Which bias "
            "keeps half?",
            "\\(0.73^{100} \\approx 2 \\cdot 10^{-14}\\). Half after 100 steps is \\(f = 0.993\\), a bias of about 5: "
            "the chrono biases, \\(\\log u\\) with u up to 109, go up to 4.7.",
        ),
    )
    code = """
import math
import torch
from carousel.lab.latching import make

x, label = make(batch=500, relevant=10, irrelevant=3000, noise=0.5)
h = torch.zeros(500, 1)
for step in x:
    h = torch.tanh(5.0 * h + step)                # one unit, w = 5
print(((h[:, 0] > 0) == (label == 1)).float().mean())
"""

    setting: Setting
    outcomes: list[Outcome]
    unit: dict[str, float] = field(default_factory=dict)  # the single unit
    seconds: float = 0.0

    @property
    def first(self) -> list[Outcome]:
        """Those of the first seed, which the figures show."""
        return [o for o in self.outcomes if o.setting.seed == self.setting.seed]

    @property
    def compared(self) -> list[Outcome]:
        """The cells of one setting, with the first seed."""
        return [o for o in self.first if o.setting == self.setting]

    @property
    def others(self) -> list[Outcome]:
        return [o for o in self.first if o.setting != self.setting]

    def label(self, outcome: Outcome) -> str:
        """The cell, and what it does not share with the others."""
        parts = [CELLS[outcome.cell].label]
        for part in fields(Setting):
            if part.name == "seed" or (value := getattr(outcome.setting, part.name)) == getattr(
                self.setting, part.name
            ):
                continue
            if part.name == "irrelevant":
                parts.append(f"trained with T = {value}")
            elif part.name == "gates" and outcome.layer.forget_bias is not None and value != "chrono":
                parts.append(f"forget bias {outcome.layer.forget_bias:g}")
            else:
                parts.append(f"{part.name} {value}")
        return ", ".join(parts)

    def role(self, outcome: Outcome) -> str:
        """How an outcome is compared with the others: alike, at a shorter length, or with other biases."""
        own = outcome.setting
        if replace(own, seed=self.setting.seed) == self.setting:
            return "compared"
        role = {"layer": "default", "zero": "zero", self.setting.gates: ""}.get(own.gates, "other")
        shorter = "shorter" if own.irrelevant != self.setting.irrelevant else ""
        return ", ".join(filter(None, (role, shorter))) or "other"

    def head(self) -> str:
        """The head of the table of progress."""
        last = f"at {self.setting.longest}"
        return f"{'cell':41}{'seed':>5}{'parameters':>11}{'updates':>8}{'accuracy':>9}{last:>9}{'seconds':>9}"

    def row(self, o: Outcome) -> str:
        accuracies = f"{percent(o.where_trained):>9}{percent(o.accuracy[self.setting.longest]):>9}"
        counts = f"{o.setting.seed:>5}{o.parameters:>11}{len(o.curve):>8}"
        return f"{self.label(o):41}{counts}{accuracies}{o.seconds:>9.1f}"

    def numbers(self) -> dict[str, Any]:
        return {
            "setting": asdict(self.setting),
            "seeds": sorted({o.setting.seed for o in self.outcomes}),
            "seconds": self.seconds,
            "unit": self.unit,
            "outcomes": [
                {
                    "cell": o.cell, "label": self.label(o), "role": self.role(o), "seed": o.setting.seed,
                    "irrelevant": o.setting.irrelevant, "accuracy": o.where_trained,
                    "at_longest": o.accuracy[self.setting.longest], "gradient_kept": o.gradient_kept,
                    "updates": len(o.curve), "solved": o.solved, "parameters": o.parameters, "seconds": o.seconds,
                    "training_accuracy": o.curve,
                    "test_accuracy_by_irrelevant_steps": {
                        str(t): o.accuracy[t] for t in spread(1, self.setting.longest)
                    },
                    "gradient_by_step": o.gradient,
                }
                for o in self.outcomes
            ],
        }  # fmt: skip

    @staticmethod
    def table(numbers: Numbers) -> Table:
        rows = []
        for label in dict.fromkeys(one["label"] for one in numbers["outcomes"]):
            own = _rows(numbers, label=label)
            rows.append(
                [
                    label, own[0]["parameters"], span([one["updates"] for one in own]),
                    _accuracies(own), _accuracies(own, "at_longest"),
                    power(min(one["gradient_kept"] for one in own)),
                ]
            )  # fmt: skip
        last = f"at T = {numbers['setting']['longest']}"
        return ["cell", "parameters", "updates", "accuracy", last, "gradient kept, least"], rows

    @staticmethod
    def lead(numbers: Numbers) -> str:
        parts = []
        for cell, role, text in (
            ("rnn", "compared", "a plain RNN"),
            ("lstm", "default", "an LSTM as it is by default"),
            ("lstm", "compared", "an LSTM whose biases suit the length"),
        ):
            if rows := _rows(numbers, cell=cell, role=role):
                parts.append(f"{text} answers {_accuracies(rows)} correctly")
        task = f"Remember one bit through {numbers['setting']['irrelevant']} steps of noise"
        return f"{task}: after the same training, {listing(parts)}." if parts else f"{task}."

    def figures(self) -> dict[str, Any]:
        """`accuracy`, `gradient`, `unit` and, if an LSTM took part, `gate`."""
        drawn = {"accuracy": plot_accuracy(self), "gradient": plot_gradient(self)}
        if (lstm := self.lstm) is not None:
            drawn["gate"] = plot_gate(lstm)
        return {**drawn, "unit": plot_unit()}

    @property
    def lstm(self) -> Outcome | None:
        """The LSTM among the cells of one setting: the one that is looked into."""
        return next((o for o in self.compared if o.cell == "lstm"), None)

    def paths(self) -> str:
        """Which code ran the layers."""
        batch = torch.empty(self.setting.steps, self.setting.batch, 1)
        return "; ".join(sorted({repr(o.layer.path(batch)) for o in self.first}))

    def facts(self) -> dict[str, str]:
        return {"Layers": self.paths()}

    def setup(self) -> list[str]:
        return [describe_task(self.setting), *describe_training(self)]

    def render(self, page: report.Page) -> None:
        render(self, page)


TINY = Setting(irrelevant=30, longest=300, tests=100, updates=60)
QUICK = {"setting": TINY, "seeds": 1}
HELP = """Train every cell to remember one bit through noise, and see which ones do.

The first steps of a sequence say which class it belongs to, the rest is
noise. The page shows accuracy against length, the gradient that reaches
the first step, and the forget gate over time.

\b
carousel lab latch --out latch
carousel lab latch --seeds 1            # a fifth of the time
"""


def run(
    setting: Setting | None = None,
    cells: Sequence[str] | None = None,
    compare: Iterable[tuple[str, Setting]] | None = None,
    seeds: Seeds = 5,
    bar: Bar | None = None,
) -> Latch:
    """Train every one of `cells` with the same `setting`, and then each (cell, setting) to `compare` them with.

    By default, `cells` are all that are registered, and those to compare with are the RNN and the LSTM with forget
    bias 1 at a tenth of the length, and the LSTM with forget bias 1 and 0. All of them with `seeds` random seeds, from
    that of the setting on.

    >>> result = run(Setting(irrelevant=5, longest=20, updates=1), cells=["rnn", "lstm"], compare=[], seeds=1)
    >>> [outcome.cell for outcome in result.outcomes]
    ['rnn', 'lstm']
    """
    check_counts(seeds=seeds)
    result = Latch(setting or Setting(), [])
    own = result.setting
    if compare is None:
        short = replace(own, irrelevant=max(1, own.irrelevant // 10))
        compare = [
            ("rnn", short), ("lstm", replace(short, gates="layer")),
            *(("lstm", replace(own, gates=start)) for start in ("layer", "zero")),
        ]  # fmt: skip
    once = [*((cell, own) for cell in (CELLS if cells is None else cells)), *compare]
    trainings = [(cell, replace(its, seed=its.seed + k)) for k in range(seeds) for cell, its in once]
    costs = [cost(*training) for training in trainings]
    bar = bar or Bar(quiet=True)
    clock = Clock()
    # Networks this small gain nothing from a second thread, and lose much by it where cores are shared.
    with threads(1), bar.over(result.head(), sum(costs), "accuracy {:.0%}"):
        for (cell, its), whole in zip(trainings, costs, strict=True):
            bar.start(CELLS[cell].label)
            outcome = train(cell, its, partial(bar.advance, whole / its.updates))
            result.outcomes.append(outcome)
            bar.finish(result.row(outcome), unused=whole * (1 - len(outcome.curve) / its.updates))
        result.unit = single_unit(own)
    result.seconds = clock.seconds
    return result


def single_unit(setting: Setting, w: float = 5.0) -> dict[str, float]:
    """One unit, h = tanh(w h₋ + x), with its weight set by hand, on the longest sequences of the task."""
    generator = torch.Generator().manual_seed(setting.seed)
    x, label = make(setting.tests, setting.relevant, setting.longest, setting.noise, generator)
    h = torch.zeros(setting.tests, 1)
    for step in x:
        h = torch.tanh(w * h + step)
    right = ((h[:, 0] > 0) == (label == 1)).float().mean().item()
    return {"w": w, "stable": fixed_points(w, 0.0)[-1][0], "accuracy": right, "irrelevant": setting.longest}


# ---- figures ----


def plot_accuracy(result: Latch) -> Any:
    """Accuracy against T, one panel a cell, filled from chance; the length of training is marked."""
    longest, shown = result.setting.longest, result.first
    ends = [(percent(o.where_trained, 0), percent(o.accuracy[longest], 0)) for o in shown]
    labels = [result.label(o).replace("trained with ", "") for o in shown]  # short, for small screens
    titles = [f"<b>{label}</b>  {start} → {end}" for label, (start, end) in zip(labels, ends, strict=True)]
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
    compared = [result.label(o) for o in shown if o.setting != setting]
    dashes = dict(zip(compared, itertools.cycle(("dot", "longdash", "dashdot")), strict=False))
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
                line={"color": kind.colour, "dash": dashes.get(label, kind.dash)},
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
        "no input: two stable states if w > 1",
        "w = 2: an input above 0.53 turns the bit",
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
    return [o for o in result.first if o.setting.steps == result.setting.steps]


# ---- sentences, made from the numbers ----


def render(result: Latch, page: report.Page) -> None:
    figures = result.figures()
    page.figure(figures["accuracy"], "Accuracy against length", *describe_accuracy(result))
    page.text(f"The figures of this page, and the sentences beside them, are of seed {result.setting.seed}.")
    page.figure(figures["gradient"], "The gradient on its way back", *describe_gradient(result))
    if result.lstm is not None:
        page.figure(figures["gate"], "Inside the LSTM: the forget gate over time", *describe_gate(result.lstm))
    page.figure(
        figures["unit"], "How one unit holds a bit",
        "The lecture's single unit, h = tanh(w h₋ + x), where the lecture has x for the state and h for the input. "
        "Where its curve meets the dashed line, h stays as it is. "
        f"With w above 1 there are two such states that are stable, and the unit is a switch; with w = 2 it takes "
        f"an input above {turning_input(2.0):.2f}, for long enough, to turn it, so that smaller noise does no harm. "
        "But where the bit is held the curve is flat: its slope, w (1 − h²), is "
        f"{2 * (1 - fixed_points(2.0, 0.0)[-1][0] ** 2):.2f} there, and a gradient is multiplied by that at each step.",
    )  # fmt: skip
    page.heading("Over all random seeds").text(
        f"*Accuracy* is that on {result.setting.tests} new sequences of the length of training: the mean, and the "
        "smallest and largest. *Gradient kept* is the gradient at step 1 divided by that at the last step, before "
        "training, in c or, where there is none, in h; the least of all seeds."
    )
    page.table(*result.table(result.measured))


def describe_task(setting: Setting) -> str:
    return (
        f"The first {setting.relevant} inputs are all +1 or all −1: that is the class. The T = {setting.irrelevant} "
        f"that follow are 0. Gaussian noise with standard deviation {setting.noise:g} is added to every one. The "
        "network reads one number at a time, nothing marks where the irrelevant part begins, and the class is asked "
        "after the last step."
    )


def describe_accuracy(result: Latch) -> list[str]:
    setting = result.setting
    able, unable = divide(result.compared, lambda o: o.where_trained)
    texts = [
        f"Each cell was trained with the T at its dotted line and is tested with T from 1 to {setting.longest}. Its "
        f"accuracy is given where trained → at T = {setting.longest}; the dashed line is chance."
    ]
    if able:
        who, answer = listing(map(result.label, able)), "answers" if len(able) == 1 else "answer"
        texts.append(f"At T = {setting.irrelevant}, {who} {answer} at least {percent(LEARNED, 0)} correctly.")
    if unable:
        got = listing(f"{result.label(o)} with {percent(o.where_trained)}" for o in unable)
        texts.append(f"Below that: {got}.")
    if able:
        lasting, fallen = divide(able, lambda o: o.accuracy[setting.longest])
        times = f"{setting.longest / setting.irrelevant:.3g} times the length of training"
        texts.append(f"At T = {setting.longest}, {times}, {len(lasting)} of these {len(able)} still do.")
        if fallen:
            got = listing(f"{result.label(o)} with {percent(o.accuracy[setting.longest])}" for o in fallen)
            texts.append(f"Not any more: {got}.")
    if any(o.accuracy[t] < 1 - LEARNED for o in result.first for t in range(1, setting.longest + 1)):
        texts.append("Where a line is near zero the bit is still there, with its sign turned.")
    return [" ".join(texts), *compare(result)]


def compare(result: Latch) -> list[str]:
    """What the last rows show."""
    texts, setting = [], result.setting
    for o in result.others:
        if o.setting.irrelevant != setting.irrelevant:
            texts.append(
                f"{result.label(o)}, answers {percent(o.where_trained)} correctly at "
                f"that length, {percent(o.accuracy[setting.irrelevant])} at T = {setting.irrelevant} and "
                f"{percent(o.accuracy[setting.longest])} at T = {setting.longest}."
            )
        elif o.setting.gates == "layer":
            texts.append(
                f"{result.label(o)}, which is the layer's default, instead of the biases that the others start "
                f"with, answers {percent(o.where_trained)} correctly."
            )
        else:
            texts.append(f"{result.label(o)}, answers {percent(o.where_trained)} correctly.")
    return [f"For comparison, in the last rows: {' '.join(texts)}"] if texts else []


def describe_gradient(result: Latch) -> list[str]:
    shown = same_length(result)
    able, unable = divide(shown, lambda o: o.where_trained)
    parts = listing(f"{power(o.gradient_kept)} in {result.label(o)}" for o in shown)
    texts = [f"As a part of the gradient at the last step, the gradient at step 1 is {parts}."]
    if able and unable:
        low, high = min(o.gradient_kept for o in able), max(o.gradient_kept for o in unable)
        texts.append(
            f"Those that learned the task started with {power(low)} or more, the others with {power(high)} or less."
            if low > high
            else "In this run, that alone does not tell which cells learned the task."
        )
    return [
        "How strongly the loss at the end depends on the state at step t, before the first update: on the output h, "
        "and on the cell c that LSTMs carry along beside it. A weight can learn what to do with the relevant steps "
        "(shaded) only from the gradient that gets back to them. A line that breaks off has left the figure, or what "
        "float32 can hold.",
        " ".join(texts),
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
        f"{start} {less if any(o.cell == 'layernorm' for o in result.first) else ''}",
    ]


def divide(outcomes: list[Outcome], accuracy: Callable[[Outcome], float]) -> tuple[list[Outcome], list[Outcome]]:
    """Those that know the answer, and those that do not."""
    return [o for o in outcomes if accuracy(o) >= LEARNED], [o for o in outcomes if accuracy(o) < LEARNED]
