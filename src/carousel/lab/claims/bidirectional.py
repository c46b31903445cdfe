"""Reading in both directions: what the second one adds, and what it must not see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import torch
from torch import Tensor

from ...errors import check_counts
from ...layers import LSTM
from ..claim import Claim, Numbers, Verdict, by_case, exceeds, fails, holds, undecided
from ..drawing import Line, line_figure
from ..finding import Exercise, Step, Table
from ..fitting import Reader, fit, mean_path, seeded
from ..measured import Clock, Measured
from ..options import Option, Seed, Seeds, Updates, help_text, seed_numbers
from ..words import listing, mean_and_spread, percent, percent_and_spread

SYMBOLS, LENGTH, APART = 4, 12, 2  # a token's tag is the symbol so many places away
TAGS = {"past": "the symbol two places before", "future": "the symbol two places after",
        "both": "whether one of these two is the first symbol"}  # fmt: skip
COLOURS = {"one direction": "#d55e00", "two directions": "#0072b2"}
BETTER = 0.02  # by how much an accuracy must be higher


def _effective(numbers: Numbers, tolerance: float) -> Verdict:
    better, lines = {}, []
    for tag, rows in numbers["accuracy"].items():
        one, two = rows["one direction"], rows["two directions"]
        lines.append(f"{mean_and_spread(one)} and {mean_and_spread(two)} for {TAGS[tag]}")
        better[TAGS[tag]] = exceeds(two, one, tolerance)
    return by_case(better, f"Accuracy with one and with two directions: {listing(lines)}.")


def _faster(numbers: Numbers, tolerance: float) -> Verdict:
    better, lines = {}, []
    for tag, rows in numbers["updates_to"].items():
        one, two = rows["one direction"], rows["two directions"]
        lines.append(f"{mean_and_spread(one, 0)} and {mean_and_spread(two, 0)} for {TAGS[tag]}")
        faster = [b < tolerance * a for a, b in zip(one, two, strict=True)]
        accuracy = numbers["accuracy"][tag]
        right = exceeds(accuracy["two directions"], accuracy["one direction"], BETTER)
        better[TAGS[tag]] = [a and b for a, b in zip(faster, right, strict=True)]
    text = (
        f"Updates with one and with two directions (of about as many parameters) until the loss is half of the first "
        f"({numbers['updates']} if never): {listing(lines)}."
    )
    return by_case(better, text)


def _last(numbers: Numbers, tolerance: float) -> Verdict:
    seen = numbers["listing"]
    text = (
        f"In out[:, -1, :] the forward half depends on {seen['forward']} of {LENGTH} inputs, the reverse half on "
        f"{seen['reverse']}. The final states depend on {seen['forward final']} and {seen['reverse final']}."
    )
    return holds(text) if seen["reverse"] == LENGTH else fails(text)


def _modelling(numbers: Numbers, tolerance: float) -> Verdict:
    loss = numbers["leak"]
    text = (
        f"On random text, where nothing can be predicted, the loss of a model in one direction ends at "
        f"{mean_and_spread(loss['one direction'])} nats and that of one in two at "
        f"{mean_and_spread(loss['two directions'])}; chance is {numbers['chance']:.2f}. The second reads the very "
        "token that it is to predict. A model of the next word needs two models, one for each direction, as equation "
        "62 has."
    )
    return fails(text) if max(loss["two directions"]) < numbers["chance"] * tolerance else undecided(text)


class Bidirectional(Measured):
    """What :func:`run` gives."""

    name = "bidirectional"
    title = "Reading in both directions"
    trains = True
    claims = (
        Claim(
            "effective",
            "any property of the current word can be predicted more effectively using this approach, because it uses "
            "the context on both sides",
            "003 §7.1",
            "with every seed the accuracy is more than {tolerance} above that of one direction, for every property.",
            _effective,
            tolerance=BETTER,
            seeds=5,
        ),
        Claim(
            "faster",
            "In practice, performs better and trains faster than vanilla LSTM",
            "004 BiLSTM performance",
            "for every property and with every seed the loss is halved in fewer than {tolerance} times the updates, "
            f"and the accuracy is more than {BETTER} above that of one direction.",
            _faster,
            tolerance=0.95,
            seeds=5,
        ),
        Claim(
            "modelling",
            "In certain applications like language modelling, the results are vastly improved with knowledge about "
            "both past and future states.",
            "003 §7",
            "the statement falls if a bidirectional model of random text comes below {tolerance} of the loss of "
            "chance: then it has seen what it predicts.",
            _modelling,
            tolerance=0.5,
            seeds=5,
        ),
        Claim(
            "last",
            "Decode the hidden state of the last time step … out = self.fc(out[:, -1, :])",
            "004 biLSTM, listing",
            "both halves of the vector depend on every input (a derivative that is not zero).",
            _last,
        ),
    )
    derivation = (
        Step(
            "The final state of the reverse direction is its output at the first step, where it has read all inputs; "
            "at the last step it has read one.",
            r"\overleftarrow{h}_{\text{final}} = \overleftarrow{h}_1",
            "final",
            1e-12,
        ),
    )
    exercises = (
        Exercise(
            "Which pooling of a bidirectional layer has read everything in both halves?",
            "The final states, \\([\\overrightarrow{h}_T; \\overleftarrow{h}_1]\\), or the mean or maximum over all "
            "steps. `--pooling last` of `carousel train classify` takes the final states.",
        ),
        Exercise(
            "Why can a decoder not be bidirectional?",
            "Its reverse direction would have to read words that have not been generated yet.",
        ),
    )
    code = """
import torch, carousel

layer = carousel.LSTM(3, 5, bidirectional=True, batch_first=True)
x = torch.randn(1, 12, 3, requires_grad=True)
layer(x)[0][:, -1, 5:].sum().backward()                # the reverse half at the last step
print((x.grad.abs().sum(2) > 0)[0])                    # depends on the last input alone
"""
    captions = {
        "loss": ("The loss in training", "Mean over the seeds, for tags that only one or both directions know.")
    }

    @staticmethod
    def lead(numbers: Numbers) -> str:
        rows = numbers["accuracy"]
        means = {tag: {name: sum(v) / len(v) for name, v in each.items()} for tag, each in rows.items()}
        return (
            f"For what lies ahead, two directions are right in {percent(means['future']['two directions'])} and one in "
            f"{percent(means['future']['one direction'])} of the cases; for what lies behind, in "
            f"{percent(means['past']['two directions'])} and {percent(means['past']['one direction'])}."
        )

    @staticmethod
    def table(numbers: Numbers) -> Table:
        rows = [
            [TAGS[tag], *(percent_and_spread(values, 1) for values in each.values())]
            for tag, each in numbers["accuracy"].items()
        ]
        return ["tag", *COLOURS], rows

    def setup(self) -> Sequence[str]:
        n = self.measured
        return (
            f"Random sequences of {LENGTH} symbols out of {SYMBOLS}; each symbol has a tag: {listing(TAGS.values())}. "
            f"LSTMs with {n['sizes']['one direction']} units in one direction or {n['sizes']['two directions']} in "
            f"each of two, which have {n['parameters']['one direction']:,} and {n['parameters']['two directions']:,} "
            f"parameters, learn for {n['updates']} updates of 32 sequences, with {len(n['seeds'])} seeds each.",
            "The same networks learn to predict the next symbol of random text. Of the listing, the derivative of its "
            "output by each input is taken.",
        )

    def figures(self) -> dict[str, Any]:
        curves = [
            Line(f"{tag}, {name}", self.measured["losses"][tag][name], colour, dash)
            for tag, dash in zip(TAGS, ("dot", "solid", "dash"), strict=True)
            for name, colour in COLOURS.items()
        ]
        return {"loss": line_figure(curves, titles=("update", "loss"), rangemode="tozero")}


HELP = help_text(__doc__, "bidirectional", "--updates 400 --out bidirectional")
QUICK = {"updates": 80}


def run(
    updates: Updates = 150,
    *,
    hidden: Annotated[int, Option("Units of each of two directions.", "H", minimum=2)] = 16,
    seeds: Seeds = 5,
    seed: Seed = 0,
) -> Bidirectional:
    """Train networks with one and with two directions on three kinds of tags, and on random text.

    >>> result = run(2, hidden=4, seeds=1)
    >>> result.data["listing"]
    {'forward': 12, 'reverse': 1, 'forward final': 12, 'reverse final': 12}
    """
    check_counts(updates=updates, hidden=hidden, seeds=seeds)
    clock, numbers = Clock(), seed_numbers(seed, seeds)
    sizes = {"one direction": round(hidden * 1.5), "two directions": hidden}
    accuracy: dict[str, Any] = {tag: {name: [] for name in COLOURS} for tag in TAGS}
    steps: dict[str, Any] = {tag: {name: [] for name in COLOURS} for tag in TAGS}
    losses: dict[str, Any] = {tag: {name: [] for name in COLOURS} for tag in TAGS}
    leak: dict[str, list[float]] = {name: [] for name in COLOURS}
    parameters = {}
    for name, size in sizes.items():
        two = name == "two directions"
        parameters[name] = sum(p.numel() for p in network(size, two, SYMBOLS).parameters())
        for number in numbers:
            for tag in TAGS:
                right, path = train(tag, size, two, updates, number)
                accuracy[tag][name].append(right)
                losses[tag][name].append(path)
                steps[tag][name].append(next((k for k, v in enumerate(path, 1) if v < path[0] / 2), updates))
            leak[name].append(train("next", size, two, updates, number)[1][-1])
    data = {
        "accuracy": accuracy, "updates_to": steps, "leak": leak, "parameters": parameters, "sizes": sizes,
        "losses": {tag: {name: mean_path(v) for name, v in each.items()}
                   for tag, each in losses.items()},
        "chance": float(torch.tensor(SYMBOLS).log()), "listing": listed_output(), "updates": updates, "seeds": numbers,
        "derivation": {"final": final_apart()},
    }  # fmt: skip
    return Bidirectional(data, clock.seconds)


def network(size: int, two: bool, classes: int) -> Reader:
    return Reader(LSTM(8, size, bidirectional=two), SYMBOLS, classes)


def draw(tag: str, rows: int = 32) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens (T, B), their tags (T, B), and where they have one (T, B)."""
    tokens = torch.randint(SYMBOLS, (LENGTH, rows))
    before, after = tokens.roll(APART, 0), tokens.roll(-APART, 0)
    place = torch.arange(LENGTH).unsqueeze(1).expand(-1, rows)
    has_past, has_future = place >= APART, place < LENGTH - APART
    if tag == "past":
        return tokens, before, has_past
    if tag == "future":
        return tokens, after, has_future
    if tag == "both":
        return tokens, ((before == 0) | (after == 0)).long(), has_past & has_future
    return tokens, tokens.roll(-1, 0), place < LENGTH - 1  # the next symbol


def train(tag: str, size: int, two: bool, updates: int, seed: int) -> tuple[float, list[float]]:
    """The accuracy on fresh sequences, and the loss of each update."""
    with seeded(seed):
        reader = network(size, two, SYMBOLS)

        def loss() -> Tensor:
            tokens, tags, there = draw(tag)
            return torch.nn.functional.cross_entropy(reader(tokens)[there], tags[there])

        path = fit(reader, loss, updates, lr=0.02)
        with torch.no_grad():
            tokens, tags, there = draw(tag, 300)
            right = (reader(tokens).argmax(2) == tags)[there]
        return float(right.double().mean()), path


def listed_output() -> dict[str, int]:
    """On how many of the inputs each half of `out[:, -1, :]` depends, and the final state of each direction."""
    with seeded(0):
        layer = LSTM(3, 5, bidirectional=True, batch_first=True)
        x = torch.randn(1, LENGTH, 3, requires_grad=True)
        out, (h, _) = layer(x)
        last = out[:, -1, :]
        parts = {
            "forward": last[:, :5], "reverse": last[:, 5:], "forward final": h[0], "reverse final": h[1],
        }  # fmt: skip
        slopes = {name: torch.autograd.grad(part.sum(), x, retain_graph=True)[0] for name, part in parts.items()}
    return {name: int((slope.abs().sum(2) > 0).sum()) for name, slope in slopes.items()}


def final_apart() -> float:
    """How far the final state of the reverse direction is from its output at the first step."""
    with seeded(0), torch.no_grad():
        layer = LSTM(3, 5, bidirectional=True, dtype=torch.float64)
        output, (h, _) = layer(torch.randn(LENGTH, 2, 3, dtype=torch.float64))
    return float((output[0, :, 5:] - h[1]).abs().max())
