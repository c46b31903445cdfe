"""`carousel predict`: columns or JSON, to a file or not, and what it refuses."""

import io
import json
import os
import sys
import threading

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


def test_a_hyphen_is_standard_input_and_pipes_are_read(carousel, runs, typed, tmp_path):
    typed("a fine film\n\n")
    expected = carousel("predict", runs / "classify")
    typed("a fine film\n\n")
    assert carousel("predict", runs / "classify", "-") == expected and expected[0] == 0
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("a fine film\n\n",))
    writer.start()
    assert carousel("predict", runs / "classify", pipe) == expected
    writer.join()


def test_a_row_without_a_text_is_like_a_blank_line(carousel, runs, text_file):
    table = text_file("text\tlabel\na fine film\tgood\n\tbad\n", "t.tsv")
    rows = carousel("predict", runs / "classify", table)[1].split("\n")
    assert rows[1].endswith("a fine film") and rows[2] == "\t\t"
    pairs = text_file("first\tsecond\na man runs\ta dog\n\ta dog\n", "p.tsv")
    assert carousel("predict", runs / "encode", pairs)[1].split("\n")[2] == "\t\t\ta dog"


def test_predictions_of_long_texts_are_short_in_a_repr(runs):
    classifier, encoder = (package.load(runs / name) for name in ("classify", "encode"))
    long = "film " * 100_000
    assert len(repr(classifier.predict(long))) < 300 and len(repr(classifier.predict([long]))) < 300
    assert len(repr(encoder.predict(long, long))) < 300
