"""Verdicts of labs that compare trainings, from numbers made by hand, each way; and what formulas a claim shows."""

import numpy as np
import pytest

from carousel import lab
from carousel.lab import finding_class
from carousel.lab.claim import Outcome
from carousel.lab.claims import agreement, hyperparameters, overfitting, working_memory
from carousel.lab.claims.vanishing import counterexamples

SEEDS = [0, 1, 2, 3, 4]
HOLDS, FAILS, UNDECIDED = Outcome.HOLDS, Outcome.FAILS, Outcome.UNDECIDED


def verdict(name, key, numbers):
    claims = {claim.key: claim for claim in finding_class(name).claims}
    return claims[key].verdict({"seeds": SEEDS, **numbers})


def same(value):
    """What every seed measured."""
    return [value] * len(SEEDS)


def recall(at_once, long, later):
    """Every cell recalls so much of 3 words at once, of 10 at once, and of 3 after the most distractors."""
    near, far = (str(working_memory.DISTRACTORS[k]) for k in (0, -1))
    rows = {near: {"3": same(at_once), "7": same(at_once), "10": same(long)}, far: {"3": same(later)}}
    return {"recall": {cell: rows for cell in working_memory.CELLS}}


def agreeing(alike, misleading, near=1.0):
    phrases = {str(p): same(misleading) for p in agreement.PHRASES} | {"1": same(near)}
    rows = {"alike": {str(p): same(alike) for p in agreement.PHRASES}, "misleading": phrases}
    return {"accuracy": {cell: rows for cell in agreement.CELLS}}


def forcing(teacher, free):
    paths = {"teacher forcing": [teacher] * 5, "free running": [free] * 5, "scheduled sampling": [free] * 5}
    return {"paths": paths}


def sizes(small, base):
    rows = {str(size): same(base) for size in hyperparameters.SIZES} | {"2": same(small)}
    return {"sizes": rows, "updates": 9}


def rates(slow, good):
    rows = {"0.001": slow, "0.01": good, "0.1": good}
    return {"rates": {rate: {"beginning": same(value), "dev": same(value)} for rate, value in rows.items()}}


def fitted(one, most, many=(2.0, 2.0)):
    """Training and dev perplexity of one layer and of the most, on few lines, and of one layer on many."""
    pairs = {f"{layers} 50": most if layers > 1 else one for layers in overfitting.LAYERS}
    pairs |= {f"1 {lines}": many for lines in overfitting.LINES[1:]}
    return {"trained": {name: {"train": same(a), "dev": same(b)} for name, (a, b) in pairs.items()}}


def tagged(one, two):
    """Accuracy of one and of two directions, alike for the three tags."""
    rows = {"one direction": same(one), "two directions": same(two)}
    return {"accuracy": dict.fromkeys(("past", "future", "both"), rows)}


def halved(one, two):
    rows = {"one direction": same(one), "two directions": same(two)}
    return {"updates_to": dict.fromkeys(("past", "future", "both"), rows), "updates": 99}


def written(argmax, random_k):
    keys = ("distinct", "self_bleu", "copied", "perplexity")
    rows = {k: {key: same(value) for key, value in zip(keys, each, strict=True)} for k, each in
            (("1", argmax), ("5", random_k))}  # fmt: skip
    return {"measured": rows, "k": 5}


def translated(networks):
    return {"right": {name: same(value) for name, value in networks.items()},
            "longer": {name: same(0.0) for name in networks}}  # fmt: skip


def embedded(one_hot, learned, within, across):
    return {"perplexity": {"one-hot": same(one_hot), "learned": same(learned)}, "updates": 9, "lines": 9, "best": 12.0,
            "parameters": {"one-hot": 9, "learned": 4},
            "cosine": {"within": same(within), "across": same(across)}}  # fmt: skip


def escaping(rmsprop, sgd):
    return {"escapes": [{"distance": 1e-3, "steps": {"RMSprop, torch": same(rmsprop), "SGD": same(sgd)}}]}


def stored(before, after):
    return {"binary": {"before": same(before), "after": same(after)}}


CASES = [
    ("working-memory", "length", recall(0.9, 0.5, 0.9), HOLDS),
    ("working-memory", "length", recall(0.9, 0.9, 0.9), FAILS),
    ("working-memory", "persistence", recall(0.9, 0.9, 0.85), HOLDS),
    ("working-memory", "persistence", recall(0.9, 0.9, 0.5), FAILS),
    ("working-memory", "persistence", recall(0.3, 0.3, 0.3), FAILS),  # nothing was there to be kept
    ("agreement", "recency", agreeing(1.0, 0.4), HOLDS),
    ("agreement", "recency", agreeing(1.0, 0.98), FAILS),
    ("agreement", "growing", agreeing(1.0, 0.4), HOLDS),
    ("agreement", "growing", agreeing(1.0, 1.0), FAILS),
    ("teacher-forcing", "helps", forcing([0.5, 0.9], [0.1, 0.9]), HOLDS),
    ("teacher-forcing", "helps", forcing([0.1, 0.9], [0.5, 0.9]), FAILS),
    ("teacher-forcing", "helps", forcing([0.5, 0.9], [0.5, 0.9]), UNDECIDED),
    ("teacher-forcing", "own_words", forcing([0.1, 0.9], [0.1, 0.2]), HOLDS),
    ("teacher-forcing", "own_words", forcing([0.1, 0.3], [0.1, 0.2]), FAILS),
    ("hyperparameters", "hidden", sizes(30.0, 10.0), HOLDS),
    ("hyperparameters", "hidden", sizes(10.5, 10.0), FAILS),
    ("hyperparameters", "rate", rates(3.0, 2.0), Outcome.HOLDS_FOR),
    ("hyperparameters", "rate", rates(2.0, 2.0), FAILS),
    ("overfitting", "layers", fitted((2.0, 5.0), (1.5, 9.0)), HOLDS),
    ("overfitting", "layers", fitted((2.0, 5.0), (1.5, 5.0)), FAILS),
    ("overfitting", "layers", fitted((2.0, 5.0), (2.5, 9.0)), UNDECIDED),  # not fitted to its own lines
    ("overfitting", "enough", fitted((2.0, 5.0), (2.0, 5.0)), Outcome.HOLDS_FOR),
    ("overfitting", "enough", fitted((2.0, 5.0), (2.0, 5.0), (2.0, 4.0)), FAILS),
    ("bidirectional", "effective", tagged(0.5, 1.0), HOLDS),
    ("bidirectional", "effective", tagged(1.0, 1.0), FAILS),
    ("bidirectional", "faster", halved(40, 30), HOLDS),
    ("bidirectional", "faster", halved(27, 36), FAILS),
    ("random-k", "diverse", written((0.2, 0.8, 0.1, 3), (0.8, 0.3, 0.0, 9)), HOLDS),
    ("random-k", "diverse", written((0.2, 0.3, 0.1, 3), (0.8, 0.3, 0.0, 9)), FAILS),  # as alike as before
    ("random-k", "overfitting", written((0.2, 0.8, 0.2, 3), (0.8, 0.3, 0.0, 9)), Outcome.HOLDS_FOR),
    ("random-k", "overfitting", written((0.2, 0.8, 0.0, 3), (0.8, 0.3, 0.0, 9)), FAILS),
    ("attention", "forgetting", translated({"dot": 0.9, "none": 0.3}), Outcome.HOLDS_FOR),  # no longer sentences
    ("attention", "forgetting", translated({"dot": 0.3, "none": 0.3}), FAILS),
    ("embedding", "better", embedded(20.0, 15.0, 0.9, 0.0), HOLDS),
    ("embedding", "better", embedded(16.8, 17.2, 0.3, 0.0), Outcome.HOLDS_FOR),
    ("embedding", "better", embedded(16.8, 17.2, 0.1, 0.0), FAILS),
    ("saddle", "escape", escaping(27, 650), HOLDS),
    ("saddle", "escape", escaping(400, 650), FAILS),
    ("coupled", "binary", stored(0.1, 0.8), HOLDS),
    ("coupled", "binary", stored(0.1, 0.4), Outcome.HOLDS_FOR),
    ("coupled", "binary", stored(0.1, 0.1), FAILS),
]


@pytest.mark.parametrize(("name", "key", "numbers", "expected"), CASES, ids=[f"{c[0]}-{c[1]}-{c[3]}" for c in CASES])
def test_a_verdict_follows_from_the_numbers(name, key, numbers, expected):
    assert verdict(name, key, numbers).outcome is expected
    claim = next(claim for claim in finding_class(name).claims if claim.key == key)
    if expected in (HOLDS, FAILS):
        assert claim.verdict({**numbers, "seeds": SEEDS[:4]}).outcome is UNDECIDED  # it takes five


def test_formulas_as_printed_and_corrected():
    """Softmax, equations 36, 37, 40 and 45; the chain rule; coupled gates; the derivative of the forget gate."""
    shorts = {key: one.outcome for key, one in lab.softmax(4, hidden=3, seeds=2).verdicts().items()}
    some = Outcome.HOLDS_FOR
    assert shorts == {"chain": HOLDS, "jacobian": HOLDS, "sum": FAILS, "gradient": some, "outer": FAILS}
    decay = lab.coupled(6, hidden=2, updates=1, seeds=1).verdicts()["decay"]
    assert decay.outcome is FAILS and "it is 2⁻ᵗ exactly" in decay.reason


def test_what_is_shown_as_printed_is_printed():
    """No formula of this package stands under a source's name, and no erratum is corrected silently."""
    claims = {(name, claim.key): claim for name in lab.LABS for claim in finding_class(name).claims}
    forget = claims["jacobian", "forget"]
    assert forget.printed[0].endswith(r"= U_f \cdot \sigma'(W_f x_t + U_f h_{t-1})")
    assert r"\text{diag}" in forget.corrected[0]
    own = ("H_x", "P^{+}", "H[", "relu", "|h|", r"\partial^{+}")  # of hankel, compile-dfa, languages and bptt
    shown = [(key, tex) for key, claim in claims.items() for tex in claim.printed]
    assert not [(key, tex) for key, tex in shown if any(part in tex for part in own)]
    assert all(claim.printed for claim in claims.values() if claim.corrected and claim.key != "value")
    assert r"\sqrt{v_t + \epsilon}" in claims["saddle", "formula"].printed[1]
    assert r"\sqrt{v_t} + \epsilon" in claims["saddle", "formula"].corrected[0]


def test_no_eigenvalue_above_one_and_the_norm_grows_for_137_steps():
    """0.9 on the diagonal and ones above it, 16 units: the largest norm of a power, by numpy."""
    shear = 0.9 * np.eye(16) + np.triu(np.ones((16, 16)), 1)
    norms = [np.linalg.norm(np.linalg.matrix_power(shear, k), 2) for k in range(1, 200)]
    found = counterexamples(199, 16, 2)[1].h
    assert found == pytest.approx(np.log10(norms), abs=1e-6)
    assert int(np.argmax(norms)) + 1 == 137 and max(norms) == pytest.approx(4.1e14, rel=0.01)
    measured, claim = lab.vanishing(25, hidden=3, seeds=1).measured, finding_class("vanishing").claims[4]
    for gain, said in ((1.07, True), (0.98, False)):  # below 1 it shows nothing
        reason = claim.verdict({**measured, "fresh": {**measured["fresh"], "gain": gain, "last": -9.0}}).reason
        assert "sufficient" in reason and ("It is not necessary" in reason) is said


def test_two_routes_that_share_a_forward_pass_say_so():
    text, _ = lab.bptt(2, hidden=2, inputs=2, seeds=1).setup()
    assert "The last two share that forward pass" in text
