"""The figures of `check_text` against counting by hand."""

import dataclasses
import json
import statistics
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from carousel.data import Lines, RunningText, Vocabulary
from carousel.data.sources import lines
from carousel.tasks.lm.check import check_text

LINE = st.lists(st.sampled_from(["to", "be", "or", "不"]), max_size=6).map(" ".join)


@given(st.lists(LINE), st.lists(LINE), st.integers(1, 30))
def test_figures(tmp_path_factory, train, dev, chunk):
    folder = tmp_path_factory.mktemp("check")
    train, dev = [*train, "to be"], ["new words", *dev]
    for name, rows in (("train.txt", train), ("dev.txt", dev)):
        (folder / name).write_text("\n".join(rows) + "\n", "utf-8")
    readers = Lines(folder / "train.txt"), Lines(folder / "dev.txt")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "CHUNK", chunk)
        found = check_text(*readers, Vocabulary.train(readers[0], "word"))
    known = {word for row in train for word in row.split()}
    assert found.vocabulary_size == 4 + len(known)
    for info, rows in ((found.train, train), (found.dev, dev)):
        kept = [row for row in rows if row.strip()]
        lengths = sorted(len(row.split()) for row in kept)
        assert (info.lines, info.blank, info.tokens) == (len(kept), len(rows) - len(kept), sum(lengths))
        assert (info.shortest, info.longest) == (lengths[0], lengths[-1])
        assert info.median == statistics.median(lengths)
        assert sum(n <= info.most for n in lengths) >= 0.95 * len(lengths)
        assert info.longest_line == 1 + max(range(len(rows)), key=lambda i: len(rows[i].split()))
        assert info.unknown == sum(word not in known for row in rows for word in row.split())
        assert info.repeated == sum(n - 1 for n in Counter(kept).values())
    assert found.shared == sum(row in train for row in dev if row.strip())
    json.dumps(dataclasses.asdict(found))


def test_running_text(text_file, monkeypatch):
    monkeypatch.setattr(lines, "BLOCK", 16)
    path = text_file("a\n\n" + "ab " * 50 + "\na\n")
    found = check_text(RunningText(path, end_lines=True), None, Vocabulary.train(Lines(path), "word"))
    info = found.train
    assert (info.lines, info.tokens, info.longest, info.longest_line) == (4, 56, 51, 3)  # with [END]
    assert info.repeated is None and found.shared is None and found.dev is None


def test_warnings(text_file):
    train = Lines(text_file("to be\n" * 3 + "x y " * 600 + "\n", "train.txt"))
    dev = Lines(text_file("to be\nor not\n", "dev.txt"))
    vocabulary = Vocabulary.train(train, "word", min_frequency=3)
    said = "\n".join(check_text(train, dev, vocabulary, ["min_frequency=1"]).warnings)
    assert "train.txt: 2 of 4 lines repeat an earlier one" in said
    assert "dev.txt: 50.0% of the tokens are unknown; give min_frequency=1 or more training text" in said
    assert "dev.txt: 1 of 2 lines are in" in said
    chinese = Lines(text_file("床前明月光\n疑是地上霜\n"))
    (said,) = check_text(chinese, None, Vocabulary.train(chinese, "word")).warnings
    assert said.endswith("most lines are one word: the text has no spaces; give tokens='character'")
    assert check_text(chinese, None, Vocabulary.train(chinese)).warnings == []


def test_one_line_that_is_far_too_long(text_file):
    path = text_file("to be\nor\n" * 50 + "x y " * 600 + "\n")
    said = "\n".join(check_text(Lines(path), None, Vocabulary.train(Lines(path), "word")).warnings)
    assert f"{path}:101: 1,200 tokens in one line; cut it or set max_length" in said


def test_it_prints_as_a_table(text_file):
    train, dev = Lines(text_file("to be\nor not\n", "train.txt")), Lines(text_file("to\n", "dev.txt"))
    console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(check_text(train, dev, Vocabulary.train(train, "word")))
    text = console.export_text()
    assert "word vocabulary of 8 tokens" in text and "longest line" in text and "also in train" in text
    assert "dev.txt" in text and "0 (0.00%)" in text
