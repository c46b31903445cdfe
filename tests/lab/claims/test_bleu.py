"""The explanation of a BLEU score against sacrebleu and against the example as worked by hand."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU

from carousel import lab
from carousel.lab.claims import bleu

sentence = st.lists(st.sampled_from("abcd"), min_size=1, max_size=12).map(" ".join)


@given(sentence, st.lists(sentence, min_size=1, max_size=3), st.integers(1, 5))
def test_it_is_sacrebleus_score(translation, references, longest):
    found = lab.bleu(translation, references, longest=longest)
    expected = BLEU(tokenize="none", max_ngram_order=longest, effective_order=True).sentence_score(
        translation, references
    )
    assert found.score == pytest.approx(expected.score)
    assert found.sacrebleu == expected.score
    assert found.brevity_penalty == pytest.approx(expected.bp)
    assert found.reference_length == expected.ref_len
    assert [order.matched for order in found.orders] == expected.counts[: len(found.orders)]
    assert [order.total for order in found.orders] == expected.totals[: len(found.orders)]
    assert not any(expected.totals[len(found.orders) :])
    for order in found.orders:
        fates = found.fates(order.n)
        assert fates.count(bleu.MATCHED) == order.matched
        assert fates.count(bleu.MISSED) == order.total - order.unclipped
        assert order.matched + sum(g.clipped + g.missed for g in order.grams) == order.total


def test_the_worked_example():
    """1-grams: the (2 of 3), cat (1 of 2), on, mat; 2-grams: the cat (1 of 2), cat on, on the, the mat; not cat the."""
    found = lab.bleu()
    assert [(o.matched, o.total) for o in found.orders[:2]] == [(5, 7), (4, 6)]
    assert [(o.unclipped, o.total) for o in found.orders[:2]] == [(7, 7), (5, 6)]  # as the notes print it
    the = found.orders[0].grams[0]
    assert (the.words, the.occurs, the.references, the.matched, the.clipped) == (("the",), 3, (2, 1), 2, 1)
    assert found.score == pytest.approx(100 * (5 / 7 * 4 / 6 * 2 / 5 * 1 / 4) ** 0.25)
    verdicts = found.verdicts()
    assert [verdicts[key].short for key in ("precision", "formula", "weights", "range")] == [
        "does not hold as printed", "holds", "does not hold as printed", "holds",
    ]  # fmt: skip
    assert "5/7 and 4/6, not 7/7 and 5/6" in str(verdicts["precision"])


def test_what_is_shown_as_printed():
    """The proof with its middle step; the sum of the weights to n, and corrected to N."""
    weights, proof = lab.finding_class("bleu").claims[2:]
    assert len(proof.printed) == 3 and r"\exp (\log p_n) \right]^{w_n}" in proof.printed[1]
    assert r"\sum_{i=1}^n w_i = 1" in weights.printed and r"\sum_{i=1}^N w_i = 1" in weights.corrected
    assert not [claim.quote for claim in lab.finding_class("bleu").claims if " ." in claim.quote]


def test_what_is_clipped_is_said_by_name():
    text = str(lab.bleu("a a b x", "a b c d e f"))
    assert "clipped:         a 1 of 2" in text
    assert "in no reference: x" in text
    assert "nothing matches" in text  # of the 3-grams
    assert "brevity penalty 0.607: 4 words against 6" in text


def test_nothing_in_common():
    found = lab.bleu("x y", "a b")
    assert found.score == found.sacrebleu == 0
    assert "BLEU = 1.000 · (0.000 · 0.000)^(1/2) = 0.0000" in str(found)


def test_of_another_sentence_the_claim_says_nothing():
    found = lab.bleu("a a b", "a b b")
    verdict = found.verdicts()["precision"]
    assert verdict.short == "not decided by this run"
    assert "clipping takes away 1 of 3 1-grams and 0 of 1 2-grams" in verdict.reason


def test_the_picture_has_a_block_for_each_ngram():
    found = lab.bleu()
    figure = found.plot()
    assert {bar.name: len(bar.x) for bar in figure.data} == {"matched": 12, "clipped": 3, "in no reference": 7}
    clipped = next(bar for bar in figure.data if bar.name == "clipped")
    assert list(zip(clipped.x, clipped.text, strict=True)) == [(3, "cat"), (5, "the"), (2.5, "the<br>cat")]


def test_it_writes_a_page_figures_and_numbers(tmp_path):
    found = lab.bleu("an <b> & b", ["an <i> & b"])
    page = found.write(tmp_path / "deep" / "bleu", "carousel lab bleu")
    names = ["index.html", "ngrams.png", "ngrams.svg", "numbers.json", "precisions.png", "precisions.svg"]
    assert sorted(p.name for p in page.parent.iterdir()) == names
    html = page.read_text("utf-8").split("<main>")[1]
    for part in ("The claims", "What was run", "The n-grams", "hold?", "lecture notes (source 003), §15.2"):
        assert part in html
    cells = re.sub("<td[^>]*>", "<td>", html)
    assert "<td>an &lt;b&gt;</td><td>1</td><td>0</td><td>0</td><td>0</td>" in cells
    numbers = json.loads((page.parent / "numbers.json").read_text("utf-8"))
    assert numbers["bleu"] == found.score
    assert [o["matched"] for o in numbers["orders"]] == [3, 1, 0, 0]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("", ["a"]), "the translation has no words"),
        (("a", ["b", " "]), "reference 2 has no words"),
        (("a", []), "references is empty"),
    ],
)
def test_what_cannot_be_explained(arguments, complaint):
    with pytest.raises(ValueError, match=complaint):
        lab.bleu(*arguments)
    with pytest.raises(ValueError, match="longest must be a whole number from 1, got 0"):
        lab.bleu(longest=0)
