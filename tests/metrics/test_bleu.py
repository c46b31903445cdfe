"""BLEU and chrF against sacrebleu's own functions and an example worked by hand."""

import math

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from carousel.metrics import bleu, chrf
from carousel.metrics.bleu import TOKENIZERS

WORDS = ["the", "The", "cat", "sat", "on", "mat", ".", "Don't", "mat.", "貓坐", "café"]
text = st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join)
corpora = st.lists(st.tuples(text, text, text), min_size=1, max_size=5)


@given(corpora, st.sampled_from(list(TOKENIZERS)), st.booleans())
def test_bleu_is_sacrebleus(corpus, tokenize, lowercase):
    said, *streams = (list(column) for column in zip(*corpus, strict=True))
    options = {"tokenize": tokenize, "lowercase": lowercase}
    expected = sacrebleu.corpus_bleu(said, streams, **options)
    found = bleu(said, [list(row) for row in zip(*streams, strict=True)], **options)
    assert float(found) == found.score == expected.score
    assert (list(found.matched), list(found.total)) == (expected.counts, expected.totals)
    assert (list(found.precisions), found.brevity_penalty) == (expected.precisions, expected.bp)
    assert (found.length, found.reference_length) == (expected.sys_len, expected.ref_len)
    for k, alone in enumerate(found.sentences):
        assert alone == sacrebleu.sentence_bleu(said[k], [s[k] for s in streams], **options).score


@given(corpora, st.sampled_from([0, 2]))
def test_chrf_is_sacrebleus(corpus, words):
    said, right, _ = (list(column) for column in zip(*corpus, strict=True))
    found = chrf(said, right, words=words)
    assert found.score == sacrebleu.corpus_chrf(said, [right], word_order=words).score
    assert found.name == ("chrF++" if words else "chrF")
    for k, alone in enumerate(found.sentences):
        assert alone == sacrebleu.sentence_chrf(said[k], [right[k]], word_order=words).score


def test_worked_by_hand():
    """Two sentences of 5 and 3 words against 6 and 3: 7 of 8 words, 4 of 6 pairs, 2 of 4 triples, 1 of 2 fours."""
    found = bleu(["a b c d e", "f g g"], ["a b c d x e", "f h g"], tokenize="none")
    # a b c d e | f g (the second g is clipped);  ab bc cd | none of fg, gg;  abc bcd;  abcd
    assert found.matched == (7, 3, 2, 1)
    assert found.total == (8, 6, 4, 2)
    penalty = math.exp(1 - 9 / 8)
    assert found.brevity_penalty == pytest.approx(penalty)
    assert found.score == pytest.approx(100 * penalty * (7 / 8 * 3 / 6 * 2 / 4 * 1 / 2) ** 0.25)


def test_a_sentence_may_have_more_references_than_another():
    found = bleu(["x y z w", "a b c d"], [["x y z w"], ["a b c", "a b c d"]])
    assert found.score == pytest.approx(100)
    assert (found.length, found.reference_length) == (8, 8)


def test_it_says_how_it_was_made():
    found = bleu(["a b c d"], ["a b c d"], tokenize="none", lowercase=True)
    assert found.signature == f"nrefs:1|case:lc|eff:no|tok:none|smooth:exp|version:{sacrebleu.__version__}"
    assert str(found).startswith("BLEU 100.00  100.0/100.0/100.0/100.0  brevity penalty 1.000")
    assert found.signature in repr(found)
    assert "nc:6|nw:0" in chrf(["a"], ["a"]).signature


def test_tokenised_text_is_no_cause_for_a_warning(caplog):
    bleu(["so it is ."] * 120, ["so it is ."] * 120)
    assert not caplog.records


@pytest.mark.parametrize(
    ("said", "right", "options", "error", "complaint"),
    [
        (["a", "b"], ["a"], {}, ValueError, "2 translations, but references for 1"),
        ([], [], {}, ValueError, "translations is empty"),
        (["a"], [[]], {}, ValueError, r"references\[0\] is empty"),
        ("a", ["a"], {}, TypeError, "translations must be a list of texts, got one text: 'a'"),
        (["a"], [None], {}, TypeError, "'NoneType'"),
        (["a", None], ["a", "b"], {}, TypeError, r"translations\[1\] must be text, got NoneType"),
        (["a"], ["a"], {"tokenize": "14a"}, ValueError, "tokenize must be one of '13a', 'none'.*got '14a'"),
    ],
)
def test_what_cannot_be_scored_is_named(said, right, options, error, complaint):
    with pytest.raises(error, match=complaint):
        bleu(said, right, **options)


def test_chrf_complains_too():
    with pytest.raises(ValueError, match="words must be 0, 1 or 2, got 3"):
        chrf(["a"], ["a"], words=3)
    with pytest.raises(ValueError, match="1 translations, but references for 2"):
        chrf(["a"], ["a", "b"])
