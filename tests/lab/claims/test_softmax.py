"""What the page on softmax shows of the notes' errors: the printed form, and the corrected one beside it."""

from carousel import lab


def claims():
    return {claim.key: claim for claim in lab.finding_class("softmax").claims}


def test_equations_23_and_24_are_shown_as_printed_and_corrected():
    outer, total = claims()["outer"], claims()["sum"]
    assert r"\partial V_{ij}" in outer.printed[0]
    assert r"\partial V" not in outer.corrected[0] and r"\partial q_l^t}{\partial U_{ij}}" in outer.corrected[0]
    assert total.printed[0] == r"L^t = -y_k^t \log \hat{y}_k^t"
    assert total.corrected[0] == r"L^t = -\sum_k y_k^t \log \hat{y}_k^t"


def test_what_is_one_hot_is_the_target():
    found = lab.softmax(4, hidden=3, seeds=2)
    verdict = found.verdicts()["gradient"]
    assert verdict.short == "holds for y^t in the place of t^t"
    assert "The notes define no t^t" in verdict.reason and "exactly 1" in verdict.reason
    numbers = {**found.measured, "apart": {**found.measured["apart"], "target_sum": [0.1, 0.0]}}
    assert claims()["gradient"].verdict(numbers).short == "does not hold as printed"
