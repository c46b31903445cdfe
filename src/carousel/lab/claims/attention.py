"""Six kinds of attention and three decoders on one small task, with their alignments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from ...errors import check_counts
from ...masks import length_mask
from ...networks.decoder import DecoderName
from ...report import figure
from ..claim import Claim, Numbers, Outcome, Verdict, by_case, exceeds, holds_for
from ..finding import Exercise, Step, Table
from ..fitting import fit, seeded
from ..measured import Clock, Measured
from ..options import Seed, Seeds, Updates, help_text, seed_numbers
from ..transduction import KINDS, SOURCE, TARGET, Translator, draw, spell
from ..words import listing, percent, percent_and_spread

ATTENTIONS = ("additive", "dot", "scaled-dot", "general", "content", "location", "none")
NETWORKS: dict[str, tuple[str, DecoderName]] = {
    **{f"{kind} (Luong)" if kind != "none" else "none": (kind, "luong") for kind in ATTENTIONS},
    "additive (input feeding)": ("additive", "input-feeding"),
    "additive (Bahdanau)": ("additive", "bahdanau"),
}
ALIGNED = [kind for kind, (_, target) in KINDS.items() if target]
UNITS, LONGER = 3, 6  # in a sentence, in training; twice as many in a test


def _forgetting(numbers: Numbers, tolerance: float) -> Verdict:
    without = numbers["right"]["none"]
    better = {name: exceeds(values, without, tolerance) for name, values in numbers["right"].items() if name != "none"}
    lines = listing(f"{name} {percent(fmean(values), 0)}" for name, values in numbers["right"].items())
    most = max(map(max, numbers["longer"].values()))
    text = (
        f"Sentences of {UNITS} units, as in training, translated without a fault: {lines}. Of sentences of {LONGER} "
        f"units, which no network has seen, none translates more than {percent(most, 0)} with any seed."
    )
    verdict = by_case(better, text)
    length = "sentences as long as in training"
    if verdict.outcome is Outcome.HOLDS:
        return holds_for(length, text)
    return replace(verdict, cases=f"{verdict.cases}, in {length}") if verdict.cases else verdict


def _learned(numbers: Numbers, tolerance: float) -> Verdict:
    rows = numbers["aligned"]
    right = {
        name: [min(values) > tolerance for values in zip(*kinds.values(), strict=True)] for name, kinds in rows.items()
    }
    lines = listing(
        f"{name} {percent(min(fmean(values) for values in kinds.values()), 0)}" for name, kinds in rows.items()
    )
    text = (
        f"The share of target tokens with the most attention at the right place, for the worst kind of unit: {lines}. "
        "The context vector does not control it: that is made from the alignment (equation 85)."
    )
    return by_case(right, text)


def _kinds(numbers: Numbers, tolerance: float) -> Verdict:
    aligned = numbers["aligned"]["additive (Bahdanau)"]
    rows = {kind: aligned[kind] for kind in ALIGNED if kind in aligned}
    right = {kind: [value > tolerance for value in values] for kind, values in rows.items()}
    lines = listing(f"{kind} {percent_and_spread(values)}" for kind, values in rows.items())
    text = f"Bahdanau's network puts the most attention at the right place: {lines} of the tokens."
    return by_case(right, text)


class AttentionKinds(Measured):
    """What :func:`run` gives."""

    name = "attention"
    title = "Six kinds of attention, three decoders, and alignments"
    trains = True
    claims = (
        Claim(
            "forgetting",
            "While the context vector has access to the entire input sequence, we don't need to worry about "
            "forgetting.",
            "003 §16.2",
            "of sentences as long as in training every seed translates more without a fault, by {tolerance}, than the "
            "network without attention.",
            _forgetting,
            tolerance=0.05,
            seeds=5,
        ),
        Claim(
            "learned",
            "The alignment between the source and target is learned and controlled by the context vector.",
            "003 §16.2",
            "that it is learned: with every seed, more than {tolerance} of the target tokens of every kind of unit "
            "have the most attention at the right place.",
            _learned,
            tolerance=0.6,
            seeds=5,
        ),
        Claim(
            "kinds",
            "There are many alignment types and some of them are complex. … one-to-one … many-to-one … one-to-many … "
            "many-to-many",
            "003 §16.1 and §16.3, equations 82–87",
            "the network of §16.3 aligns each type: more than {tolerance} of its tokens, with every seed.",
            _kinds,
            tolerance=0.6,
            seeds=5,
            printed=(
                r"\mathbf{s}_t = f(\mathbf{s}_{t-1}, y_{t-1}, \mathbf{c}_t), \quad "
                r"\mathbf{c}_t = \sum_{i=1}^n \alpha_{t,i} \mathbf{h}_i",
                r"\alpha_{t,i} = \text{align}(y_t, x_i) = \frac{\exp(\text{score}(\mathbf{s}_{t-1}, \mathbf{h}_i))}"
                r"{\sum_{j=1}^n \exp(\text{score}(\mathbf{s}_{t-1}, \mathbf{h}_j))}",
                r"\text{score}(\mathbf{s}_t, \mathbf{h}_i) = \mathbf{v}_a^\top \tanh(\mathbf{W}_a "
                r"[\mathbf{s}_t; \mathbf{h}_i])",
            ),
            corrected=(
                r"\text{score}(\mathbf{s}_{t-1}, \mathbf{h}_i) = \mathbf{v}_a^\top \tanh(\mathbf{W}_a "
                r"[\mathbf{s}_{t-1}; \mathbf{h}_i])",
            ),
        ),
    )
    derivation = (
        Step(
            "Weights of attention are a distribution over the source, whichever the kind. §16.3 calls "
            "\\(\\alpha_{t,i}\\) a score too; it is the weight, a softmax of the scores of equation 87. The run takes "
            "the sum of the weights of every step.",
            r"\sum_{i=1}^{n} \alpha_{t,i} = 1",
            "sums",
            1e-5,
        ),
    )
    exercises = (
        Exercise(
            "Location-based attention does not look at the source. How can it align anything?",
            "By the decoder's state. It begins as the encoder's last one and counts the tokens that were produced, so "
            "that it can say “the third place”, and know which places the spurious and the paired tokens have, as far "
            "as the encoder's last state holds them. Of a sentence longer than those of the training it knows neither.",
        ),
        Exercise(
            "Equation 86 has \\(s_{t-1}\\) and equation 87 \\(s_t\\). Which of them can be computed?",
            "\\(s_{t-1}\\): \\(s_t\\) depends on \\(c_t\\), which depends on the scores. With \\(s_t\\) it is Luong's "
            "decoder, where the step does not read the context.",
        ),
    )
    code = """
from carousel.lab.transduction import Translator, draw

network = Translator("additive", "bahdanau")
sentences = draw(2, units=3)
scores, weights = network(sentences)
print(weights[:, 0].argmax(1), sentences.aligned[0])
"""
    captions = {
        "aligned": ("Alignments", "The share of target tokens with the most attention at the right place, by kind of "
                    "unit; mean over the seeds."),
        "example": ("One sentence", "Bahdanau's network, first seed. Rows: target tokens. Columns: source tokens. "
                    "A letter is a kind of token, and its number one of four variants."),
    }  # fmt: skip

    @staticmethod
    def lead(numbers: Numbers) -> str:
        best = max(numbers["right"], key=lambda name: fmean(numbers["right"][name]))
        return (
            f"The network without attention translates {percent(fmean(numbers['right']['none']), 0)} of the sentences "
            f"without a fault, the best, {best}, {percent(fmean(numbers['right'][best]), 0)}; of sentences twice as "
            f"long as in training no network more than {percent(max(map(max, numbers['longer'].values())), 0)}."
        )

    @staticmethod
    def table(numbers: Numbers) -> Table:
        rows = []
        for name in NETWORKS:
            aligned = numbers["aligned"].get(name)
            rows.append([
                name,
                *(percent_and_spread(numbers[which][name]) for which in ("right", "longer")),
                *("–" if aligned is None else percent(fmean(aligned[kind]), 0) for kind in ALIGNED),
            ])  # fmt: skip
        return [
            "network",
            f"right, {UNITS} units",
            f"right, {LONGER} units",
            *(f"{kind}, mean" for kind in ALIGNED),
        ], rows

    def setup(self) -> Sequence[str]:
        n = self.measured
        return (
            "A language pair that has every kind of alignment: units of one source token and one target token; of two "
            "and one (many-to-one); of one and two (one-to-many, a fertile word); of two and two, crossed "
            "(many-to-many); and source tokens that have no counterpart (the notes call such a word “spurious”; on "
            "which side theirs stands, their text does not say). Each unit has four variants.",
            f"Sentences have {UNITS} such units. A bidirectional LSTM, 16 numbers for each direction, reads them, and "
            "an LSTM of 32 writes their translation: every kind of attention in Luong's decoder, additive attention in "
            f"all three; {n['updates']} updates of 32 sentences, {len(n['seeds'])} seeds. A sentence is right if "
            "all of its tokens are, to its end; steps read the model's own tokens. Additive attention has a bias "
            "inside the tanh, which equation 87 does not have.",
        )

    def figures(self) -> dict[str, Any]:
        n = self.measured
        aligned = figure(400, hovermode="closest")
        names = list(n["aligned"])
        aligned.add_heatmap(
            z=[[fmean(n["aligned"][name][kind]) for kind in ALIGNED] for name in names], x=ALIGNED, y=names, zmin=0,
            zmax=1, colorscale=[(0, "#ffffff"), (1, "#0072b2")],
        )  # fmt: skip
        aligned.update_yaxes(autorange="reversed")
        example, shown = figure(360, hovermode="closest"), n["example"]
        example.add_heatmap(
            z=shown["weights"], colorscale=[(0, "#ffffff"), (1, "#1c2430")], zmin=0, zmax=1, showscale=False
        )
        for axis, name in ((example.layout.yaxis, "target"), (example.layout.xaxis, "source")):
            axis.update(title_text=name, tickvals=list(range(len(shown[name]))), ticktext=shown[name])
        example.update_yaxes(autorange="reversed")
        return {"aligned": aligned, "example": example}


HELP = help_text(__doc__, "attention", "--updates 400 --out attention")
QUICK = {"updates": 60}


def run(
    updates: Updates = 100,
    *,
    seeds: Seeds = 5,
    seed: Seed = 0,
) -> AttentionKinds:
    """Train each network with each seed; translate sentences of the length of training and twice as long.

    >>> result = run(1, seeds=1)
    >>> "additive (Bahdanau)" in result.data["right"]
    True
    """
    check_counts(updates=updates, seeds=seeds)
    clock, numbers = Clock(), seed_numbers(seed, seeds)
    right: dict[str, list[float]] = {}
    longer: dict[str, list[float]] = {}
    aligned: dict[str, dict[str, list[float]]] = {}
    example: dict[str, Any] = {}
    sums = 0.0
    for name, (attention, kind) in NETWORKS.items():
        for number in numbers:
            with seeded(number):
                network = Translator(attention, kind)
                fit(network, partial(_loss, network), updates, lr=0.01)
                near, far = draw(100, UNITS), draw(100, LONGER)
                right.setdefault(name, []).append(network.accuracy(near))
                longer.setdefault(name, []).append(network.accuracy(far))
                for unit, hits in network.alignments(near).items():
                    aligned.setdefault(name, {}).setdefault(unit, []).append(sum(hits) / len(hits))
                with torch.no_grad():
                    weights = network(near)[1]
                if weights is not None:
                    steps = length_mask(near.lengths, len(weights))
                    sums = max(sums, float((weights.sum(2)[steps] - 1).abs().max()))
                    if kind == "bahdanau" and not example:
                        n, m = near.lengths[0], near.source_lengths[0]
                        example = {
                            "weights": weights[:n, 0, :m].tolist(),
                            "target": spell(near.targets[:n, 0].tolist(), TARGET),
                            "source": spell(near.source[:m, 0].tolist(), SOURCE),
                        }
    data = {
        "right": right, "longer": longer, "aligned": aligned, "example": example, "updates": updates, "seeds": numbers,
        "derivation": {"sums": sums},
    }  # fmt: skip
    return AttentionKinds(data, clock.seconds)


def _loss(network: Translator) -> Tensor:
    return network.loss(draw(32, UNITS))
