"""Baselines of the tagger, by hand."""

import pytest

import carousel

pytestmark = pytest.mark.usefixtures("own_cache")


def test_most_frequent_tag_and_crf(tmp_path):
    """`run` is a noun after `the`, else a verb, which only a neighbour tells; of each word alone, a verb."""
    lines = {
        "a": "the/DET run/NOUN ends/VERB",
        "b": "they/PRON run/VERB",
        "c": "we/PRON run/VERB",
        "d": "the/DET end/NOUN",
    }

    def write(name, keys):
        text = "\n\n".join("\n".join(pair.replace("/", "\t") for pair in lines[key].split()) for key in keys)
        (tmp_path / name).write_text(text + "\n")
        return tmp_path / name

    found = carousel.baseline("tag", write("train.conll", "aabbbccd"), dev=write("dev.conll", "ab"))
    frequent, perceptron, crf = found.results
    assert found.metric == "accuracy" and frequent.value == 4 / 5
    assert crf.name == "CRF on hand-made features" and (perceptron.value, crf.value) == (1.0, 1.0)


def test_spans_are_scored_by_f1(tmp_path):
    train = "Ada\tB-PER\nLee\tI-PER\nsat\tO\n\nin\tO\nRome\tB-LOC\n\nLee\tB-PER\nsat\tO\n\nLee\tB-PER\nran\tO\n"
    (tmp_path / "train.conll").write_text(train)
    (tmp_path / "dev.conll").write_text("Ada\tB-PER\nLee\tI-PER\nsat\tO\nin\tO\nRome\tB-LOC\n")
    found = carousel.baseline("tag", tmp_path / "train.conll", dev=tmp_path / "dev.conll", train_scheme="iob2")
    # Ada is B-PER, Lee mostly B-PER too: spans Ada, Lee, Rome for Ada Lee, Rome; one right of 3 found, 2 there
    assert found.metric == "span_f1" and found.results[0].value == pytest.approx(2 * 1 / (3 + 2))
