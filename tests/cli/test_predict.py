"""`carousel predict`: columns or JSON, to a file or not, and what it refuses."""

import io
import json
import sys

import pytest

import carousel as package

OPTIONS = {"hidden": 4, "embedding": 4, "epochs": 1, "threads": 1, "min_frequency": 1, "quiet": True, "report": False}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    texts = [("a fine film", "good"), ("a dull one", "bad")] * 6
    pairs = [("a man runs", "a man moves", "yes"), ("a dog sits", "a cat runs", "no")] * 6
    package.train("classify", texts, out=folder / "classify", dev_split="none", **OPTIONS)
    package.train("encode", pairs, out=folder / "encode", dev_split="none", **OPTIONS)
    return folder


@pytest.fixture
def typed(monkeypatch):
    """Standard input with this text."""
    return lambda text: monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def test_classes_come_with_their_confidence(carousel, runs, typed):
    for run, item, columns in (
        ("classify", "a fine film", "label\tconfidence\ttext"),
        ("encode", "a man runs\ta man moves", "label\tconfidence\tfirst\tsecond"),
    ):
        typed(f"{item}\n")
        code, out, _ = carousel("predict", runs / run)
        header, row = out.splitlines()
        assert (code, header) == (0, columns) and row.endswith(item)
        typed(f"{item}\n")
        found = json.loads(carousel("predict", runs / run, "--json")[1])
        assert row.split("\t")[:2] == [found["label"], str(found["confidence"])]
        assert found["confidence"] == max(found["probabilities"].values())


def test_a_name_that_ends_in_jsonl_gets_json(carousel, runs, text_file, tmp_path):
    file = text_file("a fine film\n\na dull one\n")
    assert carousel("predict", runs / "classify", file, "--out", tmp_path / "a.jsonl") == (0, "", "")
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [row["text"] for row in rows] == ["a fine film", "", "a dull one"] and rows[1]["label"] is None


def test_nothing_to_predict_is_an_error_and_writes_nothing(carousel, runs, typed, tmp_path):
    typed("")
    code, out, err = carousel("predict", runs / "classify", "--out", tmp_path / "a.tsv")
    assert (code, out) == (1, "") and not list(tmp_path.iterdir())
    assert err == "error: standard input: there is no text in it; give one item per line, or name a file\n"
