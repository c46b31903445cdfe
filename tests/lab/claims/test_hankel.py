"""Weighted automata from Hankel matrices: one that is known is found again, and a trained network's."""

from carousel import lab
from carousel.lab.finding import _emphasised
from carousel.report import prose


def test_a_trained_network(tmp_path):
    found = lab.hankel(["(a|b)*ab"], units=8, steps=250, unseen=100, seeds=1)
    [one] = found.extracted
    assert (one.known, one.rank) == (3, 3)
    assert one.agreement > 0.95 and one.automaton_right > 0.95
    assert found.verdicts()["path"].short == "holds"
    few = found.verdicts()["approximate"]
    assert few.short == "not decided by this run" and "the rank in 1 of 1 network," in few.reason
    page = found.write(tmp_path / "page").read_text("utf-8")
    assert "The automaton inside a network" in page and "1 small GRU was trained" in page
    assert "λᵀ A(x₁) … A(x_t) ρ" in found.verdicts()["path"].reason  # as in the derivation
    assert found.plot().layout.yaxis.exponentformat == "power"  # not 100µ, of a number without a unit


def test_the_stars_of_a_pattern_are_no_emphasis():
    """A verdict that holds for patterns, as a page shows it."""
    every = {"rank": 2, "known": 2, "agreement": 1.0}
    rows = [{"pattern": pattern, **every} for pattern in ("b*(ab*ab*)*", "(a|b)*ab") for _ in range(5)]
    claim = next(claim for claim in lab.finding_class("hankel").claims if claim.key == "approximate")
    verdict = claim.verdict({"languages": rows, "seeds": [0, 1, 2, 3, 4]})
    assert prose(_emphasised(verdict)).startswith(
        "<em>Holds for the languages <code>b*(ab*ab*)*</code> and <code>(a|b)*ab</code>.</em> "
        "<code>b*(ab*ab*)*</code>: the rank"
    )


def test_the_verdict_says_what_the_run_does_not_show():
    found, missed = {"rank": 2, "known": 2, "agreement": 1.0}, {"rank": 3, "known": 2, "agreement": 1.0}
    claim = next(claim for claim in lab.finding_class("hankel").claims if claim.key == "approximate")
    assert claim.corrected == (r"\text{approximate a function from strings to numbers}",)  # as the errata have it

    def verdict(second):
        rows = [{"pattern": "a*", **found}, {"pattern": "b*", **second}] * 5
        return claim.verdict({"languages": rows, "seeds": [0, 1, 2, 3, 4]})

    assert verdict(found).short == "holds for the languages `a*` and `b*`"
    assert verdict(missed).short == "holds for the language `a*`"
    assert "nothing of functions with other values" in verdict(found).reason
