"""Span scores against seqeval's."""

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics import classification_report

from carousel.data.text.tags import all_tags
from carousel.metrics.spans import SpanScore

tag = st.sampled_from(all_tags(["PER", "LOC", "ORG"], "iob2"))
sentences = st.lists(st.lists(st.tuples(tag, tag), min_size=1, max_size=8), min_size=1, max_size=6)


@given(sentences)
def test_scores_are_those_of_seqeval(pairs):
    gold = [[a for a, _ in sentence] for sentence in pairs]
    said = [[b for _, b in sentence] for sentence in pairs]
    score = SpanScore()
    for right, guess in zip(gold, said, strict=True):
        score.add(right, guess)
    if not score.types():
        assert score.f1 == 0
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = classification_report(gold, said, output_dict=True, zero_division=0)
    names = {"precision": "precision", "recall": "recall", "f1": "f1-score", "count": "support"}
    for type, found in {**score.types(), "micro avg": score.overall()}.items():
        for ours, theirs in names.items():
            assert found[ours] == pytest.approx(expected[type][theirs])


def test_by_hand():
    score = SpanScore()
    score.add(["B-PER", "I-PER", "O", "B-LOC"], ["B-PER", "I-PER", "B-PER", "B-ORG"])
    assert score.types()["PER"] == {"precision": 0.5, "recall": 1.0, "f1": pytest.approx(2 / 3), "count": 1}
    assert score.types()["LOC"] == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "count": 1}
    assert score.f1 == pytest.approx(2 / 5)


def test_the_scheme_does_not_matter():
    score = SpanScore()
    score.add(["I-PER", "I-PER", "B-PER"], ["B-PER", "E-PER", "S-PER"])
    assert score.f1 == 1


def test_lengths_must_agree():
    with pytest.raises(ValueError, match="got 1 and 2"):
        SpanScore().add(["O"], ["O", "O"])
