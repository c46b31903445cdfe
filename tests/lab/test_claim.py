"""Claims and verdicts, by hand."""

from carousel.lab.claim import SOURCES, Claim, Outcome, by_case, by_seed, fails, holds, holds_for, undecided


def largest(numbers, tolerance):
    text = f"The largest is {max(numbers['values'])}."
    return holds(text) if max(numbers["values"]) <= tolerance else fails(text)


def test_a_claim_by_hand():
    claim = Claim("small", "all are small", "003 §1", "none is above {tolerance}.", largest, tolerance=0.5, seeds=5)
    assert claim.criterion == "none is above 0.5. At least 5 random seeds."
    assert claim.source == f"{SOURCES['003']} (source 003), §1"
    five = {"seeds": [0, 1, 2, 3, 4]}
    assert claim.verdict({"values": [0.1, 0.5], **five}) == holds("The largest is 0.5.")
    assert claim.verdict({"values": [0.1, 0.6], **five}).outcome is Outcome.FAILS
    few = claim.verdict({"values": [0.1], "seeds": [3, 4]})
    assert few == undecided("The largest is 0.1. This run has 2 random seeds; it takes 5.")
    assert str(few).startswith("Not decided by this run. The largest")
    assert str(holds_for("a GRU", "It is bounded.")) == "Holds for a GRU. It is bounded."
    assert Claim("exact", "", "003 §1", "to {tolerance}.", largest, tolerance=1e-9).criterion == "to 1·10⁻⁹."


def test_seeds_that_disagree_decide_nothing():
    yes, no, some = [True] * 5, [False] * 5, [True, True, False, True, True]
    assert by_seed(yes, "It is.") == holds("It is.")
    assert by_seed(yes, "It is.", "a GRU") == holds_for("a GRU", "It is.")
    assert by_seed(no, "It is not.", "a GRU") == fails("It is not.")
    assert by_seed(some, "It varies.") == undecided("It varies. Seeds that show it: 4 of 5.")
    assert by_case({"RNN": yes, "GRU": yes}, "It is.") == holds("It is.")
    assert by_case({"RNN": no, "GRU": no}, "It is not.") == fails("It is not.")
    assert by_case({"RNN": yes, "GRU": no}, "Some.") == holds_for("RNN", "Some.")
    assert by_case({"RNN": yes, "GRU": some}, "Some.") == holds_for("RNN", "Some. Seeds that show it: GRU 4 of 5.")
    assert by_case({"RNN": no, "GRU": some}, "Some.") == undecided("Some. Seeds that show it: GRU 4 of 5.")
