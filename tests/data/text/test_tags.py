"""Schemes of spans: told apart, turned into one another, and what each allows; seqeval is the independent reference."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import get_entities

from carousel.data.text.tags import Span, all_tags, are_spans, convert, illegal, legal, recognise, spans, write

SCHEMES = ("iob1", "iob2", "bioes")


@st.composite
def spanned(draw, most=8):
    """A length and spans that do not overlap."""
    length = draw(st.integers(0, most))
    found, at = [], 0
    while at < length:
        if draw(st.booleans()):
            end = draw(st.integers(at + 1, length))
            found.append(Span(draw(st.sampled_from(["PER", "LOC"])), at, end))
            at = end
        else:
            at += 1
    return length, found


@pytest.mark.parametrize("scheme", SCHEMES)
@given(spanned())
def test_spans_survive_being_written(scheme, case):
    length, found = case
    tags = write(found, length, scheme)
    assert spans(tags) == found
    assert illegal(tags, scheme) == []
    for other in SCHEMES:
        assert spans(convert(tags, other)) == found


any_tags = st.lists(st.sampled_from(all_tags(["PER", "LOC"], "bioes")), max_size=8)


@given(any_tags)
def test_any_tags_are_read_as_seqeval_reads_them(tags):
    assert spans(tags) == [Span(type, start, end + 1) for type, start, end in get_entities(tags)]


@pytest.mark.parametrize("scheme", SCHEMES)
@given(any_tags)
def test_conversion_is_always_legal_and_changes_no_span(scheme, tags):
    made = convert(tags, scheme)
    assert illegal(made, scheme) == [] and spans(made) == spans(tags)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_legal_sequences_are_those_that_spans_can_make(scheme):
    """Of all sequences of four tags, the masks let exactly those through that conversion leaves as they are."""
    tags = all_tags(["A", "B"], scheme)[:5] if scheme == "bioes" else all_tags(["A", "B"], scheme)
    mask = legal(tags, scheme)
    for length in range(1, 5):
        for numbers in itertools.product(range(len(tags)), repeat=length):
            said = [tags[k] for k in numbers]
            allowed = bool(mask.starts[numbers[0]] and mask.ends[numbers[-1]])
            allowed = allowed and all(mask.pairs[pair] for pair in itertools.pairwise(numbers))
            assert allowed == (convert(said, scheme) == said) == (illegal(said, scheme) == []), said


def test_without_a_scheme_everything_is_legal():
    assert all(mask.all() for mask in legal(["NOUN", "VERB"], None))


@pytest.mark.parametrize(
    ("sentences", "scheme"),
    [
        ([["I-PER", "I-PER", "O", "I-LOC", "B-LOC"]], "iob1"),
        ([["B-PER", "I-PER", "O", "B-LOC"]], "iob2"),
        ([["B-PER", "O"]], "iob2"),
        ([["B-PER", "E-PER", "O", "S-LOC"]], "bioes"),
        ([["B-PER", "L-PER", "O", "U-LOC"]], "bioes"),
        ([["B-PER", "I-PER"]] * 9 + [["O", "I-LOC"]], "iob2"),  # one slip does not change the scheme
        ([["O", "I-LOC"]] * 9 + [["B-LOC", "O"]], "iob1"),
    ],
)
def test_recognition(sentences, scheme):
    assert recognise(sentences) == scheme


@given(st.lists(spanned(), min_size=1, max_size=5))
def test_recognition_of_bioes_needs_one_span(cases):
    sentences = [write(found, length, "bioes") for length, found in cases]
    assert (recognise(sentences) == "bioes") == any(found for _, found in cases)


def test_bilou_is_read_as_bioes():
    assert convert(["B-PER", "I-PER", "L-PER", "U-LOC"], "bioes") == ["B-PER", "I-PER", "E-PER", "S-LOC"]


def test_tags_that_are_no_spans():
    assert not are_spans({"NOUN", "VERB", "X"})
    with pytest.raises(ValueError, match="'NOUN' is not written like a part of a span"):
        spans(["O", "NOUN"])
