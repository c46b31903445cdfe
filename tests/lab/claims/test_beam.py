"""Greedy, beam and exhaustive search against a loop over all sequences."""

import itertools
import json
import math
from dataclasses import replace

import pytest
import torch

from carousel import lab
from carousel.lab.claim import Outcome, holds
from carousel.lab.claims import beam


@pytest.fixture(scope="module")
def found():
    return lab.beam(24, vocabulary=4, longest=4, widths=(1, 2), seed=3)


def brute_force(model, vocabulary, longest):
    """The best mean log-probability of a complete sequence, by asking the model about every one of them."""
    best = -math.inf
    for length in range(1, longest + 1):
        for body in itertools.product(range(1, vocabulary), repeat=length - 1):
            state, token, total = model.start(1), beam.END, 0.0
            for after in (*body, beam.END):
                log_probs, state = model.step(torch.tensor([token]), state)
                total += log_probs[0, after].item()
                token = after
            best = max(best, total / length)
    return best


def test_exhaustive_search_finds_the_best_there_is(found):
    torch.manual_seed(3)
    models = [beam.small_model(4) for _ in range(24)]
    for model, score in zip(models[:6], found.exhaustive.scores, strict=False):
        assert score == pytest.approx(brute_force(model, 4, 4))


def test_a_beam_of_one_is_greedy_and_the_widest_is_exhaustive(found):
    assert found.beams[0].tokens == found.greedy.tokens
    assert found.patient[-1].tokens == found.exhaustive.tokens
    assert found.successes(found.exhaustive) == found.models == 24
    for line in found.lines:
        assert all(s <= best + 1e-9 for s, best in zip(line.scores, found.exhaustive.scores, strict=True))


def test_the_costs_are_those_of_the_searches(found):
    assert found.exhaustive.rows == 24 * (1 + 3 + 9 + 27)  # every beginning is read once
    assert found.greedy.rows == found.beams[0].rows <= 24 * 4


def test_rows_of_ended_sequences_are_counted_apart(found):
    """A beam that drops nothing, by hand: 1, 4 and 16 rows, of which 1, 3 and 9 go on."""
    asked = beam.Counting(beam.StepFunction(lambda tokens, state: (torch.full((len(tokens), 4), 0.25).log(), state), 4))
    everything = beam.Beam(64, wide=True, n_best=64, completed=math.inf)
    beam.search(asked, 1, everything, start=beam.END, end=beam.END, max_length=3)
    assert (asked.rows, asked.unused) == (1 + 4 + 16, 0 + 1 + 7)
    assert found.exhaustive.unused == found.greedy.unused == 0
    for line in found.lines:  # no search asks more about what goes on than the one that asks about all
        assert line.rows - line.unused <= found.exhaustive.rows
    widest = found.beams[-1]
    assert widest.unused > 0
    columns, rows = found.table(found.measured)
    assert columns[-1] == "of them after an end" and rows[len(found.beams)][-1] == f"{widest.unused / 24:,.0f}"
    assert f"{widest.unused / 24:,.0f} of them after an end" in found.setup()[1]


def test_the_verdicts_follow_from_the_numbers(found):
    missed = 24 - found.successes(found.greedy)
    verdicts = found.verdicts()
    assert missed > 0
    assert verdicts["greedy"] == holds(f"Greedy search misses the best sequence in {missed} of 24 models.")
    assert [verdicts[key].outcome for key in ("exhaustive", "guarantee", "length")] == [Outcome.HOLDS] * 3
    assert verdicts["example"].outcome is Outcome.UNDECIDED  # the notes do not print its probabilities
    ended = sum(score > -math.inf for score in found.greedy.scores)
    worse = missed - 24 + ended
    assert verdicts["ended"] == holds(
        f"Greedy search finds an end in {ended} of 24 models, and in {worse} of them not the best sequence."
    )
    lucky = replace(found, greedy=replace(found.exhaustive, label="greedy"))  # models that show nothing refute nothing
    assert [lucky.verdicts()[key].outcome for key in ("greedy", "ended")] == [Outcome.UNDECIDED] * 2


def test_greedy_search_is_endless_where_a_state_comes_back(found):
    assert found.verdicts()["endless"].outcome is Outcome.HOLDS
    unknown = replace(found, continuations=["ended"] * 20 + ["open"] * 4)
    assert unknown.verdicts()["endless"].outcome is Outcome.UNDECIDED
    assert "it ends in 20; in 0 a token" in unknown.verdicts()["endless"].reason


def test_what_greedy_search_comes_to(found):
    """Against the search itself, which compares no states."""
    torch.manual_seed(3)
    models = [beam.small_model(4) for _ in found.continuations]
    for model, come_to in zip(models, found.continuations, strict=True):
        [[best]] = beam.search(model, 1, beam.Greedy(), start=beam.END, end=beam.END, max_length=beam.FURTHER)
        assert best.finished is (come_to == "ended")
        if come_to == "repeated":  # the last tokens are periodic
            last = best.tokens[-400:]
            assert any(last[period:] == last[:-period] for period in range(1, 200))
    assert "repeated" in found.continuations and "ended" in found.continuations
    assert beam.continued(beam.small_model(4), 0) == "open"


def test_the_page_says_how_often_a_wider_beam_found_less(found):
    assert f"In {found.worse()} of 24 models some wider beam" in found.page().html()


def test_a_wider_beam_can_find_less():
    """The scores by hand: “a best” has 0.51 · 0.4, and after two steps “b c” and “b d” have 0.49 · 0.5 each."""
    one, two, three = beam.pushed_out()
    assert (one["text"], two["text"], three["text"]) == ("a best", "b c e", "a best")
    assert one["score"] == pytest.approx(math.log(0.51 * 0.4) / 3)
    assert two["score"] == pytest.approx(math.log(0.49 * 0.5 * 0.25) / 4)


def test_the_notes_sentence_is_found_with_the_notes_score(found):
    greedy, two, best = (found.example[name][0] for name in ("greedy", "beam of 2", "exhaustive"))
    assert found.spell(greedy) == "hayatın yaşamak için bir anlamı yok"
    assert greedy.log_prob == pytest.approx(-3.9, abs=0.005)
    assert found.spell(two) == found.spell(best) == "hayatın yaşamak için bir sebebi yok"
    assert two.log_prob == pytest.approx(math.log(0.5 * 0.6 * 0.7 * 0.6 * 0.4 * 0.9 * 0.918))
    for word, line in beam.FOLLOWS.items():
        assert sum(line.values()) == pytest.approx(1), word


def test_the_same_seed_gives_the_same_numbers_and_leaves_the_random_numbers_alone(found):
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    again = lab.beam(24, vocabulary=4, longest=4, widths=(1, 2), seed=3)
    assert torch.equal(torch.rand(1), expected)
    ours, theirs = ({k: v for k, v in f.numbers().items() if k != "seconds"} for f in (again, found))
    assert ours == theirs
    json.dumps(ours)


def test_the_page(found):
    html = found.page("carousel lab beam --seed 3").html().split("<main>")[1]
    for part in (
        "003), §15.1",
        "carousel lab beam --seed 3",
        "Wider beams",
        "hayatın",
        "<em>Holds.</em>",
    ):
        assert part in html
    assert len(str(found).splitlines()) == 1 + 8 + 5


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"models": 0}, "models must be a whole number from 1, got 0"),
        ({"vocabulary": 30, "longest": 9}, "more than 200,000"),
        ({"widths": (0, 2)}, r"widths must be whole numbers from 1, got \[0, 2\]"),
    ],
    ids=["models", "vocabulary", "widths"],
)
def test_what_cannot_be_run(options, complaint):
    with pytest.raises(ValueError, match=complaint):
        lab.beam(**options)
