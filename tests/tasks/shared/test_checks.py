"""What checks of data print: lengths, warnings, names of files."""

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from carousel.tasks import find
from carousel.tasks.shared.checks import (
    FilesCheck,
    TextFacts,
    length_facts,
    length_rows,
    short_names,
    table_of_files,
    unknown_remedies,
)


def facts(file="a.txt", unknown=0, lengths=(2, 4, 3)):
    numbers = np.array(lengths)
    return TextFacts(file, **length_facts(numbers, np.arange(1, len(numbers) + 1)), unknown=unknown)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=30))
def test_lengths_against_sorted_lists(lengths):
    found = facts(lengths=lengths)
    ranked = sorted(lengths)
    assert (found.tokens, found.shortest, found.longest) == (sum(lengths), ranked[0], ranked[-1])
    assert found.longest_line == lengths.index(ranked[-1]) + 1
    assert found.median == (ranked[(len(ranked) - 1) // 2] + ranked[len(ranked) // 2]) / 2
    assert sum(length <= found.most for length in lengths) >= 0.95 * len(lengths) and found.most in lengths


def test_many_unknown_tokens_are_a_warning():
    assert facts(unknown=0).unknown_warning([]) == []
    (warning,) = facts(unknown=3).unknown_warning(["tokens='bpe'", "tokens='character'"])
    assert warning.startswith("a.txt: 33.3% of the tokens are unknown; ")


@pytest.mark.parametrize(
    "task, given, remedies",
    [
        ("classify", {}, ["vectors='glove'", "tokens='bpe'", "tokens='character'"]),
        ("classify", {"vectors": "glove", "vocabulary_size": 99},
         ["a larger vocabulary_size", "tokens='bpe'", "tokens='character'"]),
        ("classify", {"tokens": "bpe"}, []),
        ("bilm", {}, ["min_frequency=1"]),
        ("lm", {"tokens": "word"}, ["min_frequency=1", "tokens='bpe'", "tokens='character'"]),
        ("lm", {"tokens": "word", "min_frequency": 1}, ["tokens='bpe'", "tokens='character'"]),
    ],
)  # fmt: skip
def test_only_what_helps_is_proposed(task, given, remedies):
    """Once an unlimited vocabulary was to be enlarged, and a bilm to read BPE."""
    assert unknown_remedies(find(task).Settings.read({"train": "a.tsv", **given})) == remedies


class Both(FilesCheck[TextFacts]):
    warnings = ()


def test_what_both_files_have():
    both = Both(facts("train.txt"), facts("dev.txt"), 5, "text")
    assert both.shared_warning("tokens") == ["dev.txt: 5 of 9 tokens are in train.txt too"]
    assert both.shared_warning("tokens", 0.6) == []
    alone = Both(facts("train.txt"), None, None, "text")
    assert alone.shared_warning("tokens") == [] and len(alone.files) == 1
    assert alone.as_dict()["train"]["longest"] == 4


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["a/b.txt"], ["b.txt"]),
        (["a/x", "b/x"], ["a/x", "b/x"]),
        (["a/x", "a/x"], ["x", "x"]),
        (["x", "a/x"], ["x", "a/x"]),
    ],
)
def test_names_that_can_be_told_apart(paths, expected):
    assert short_names(paths) == expected


def test_a_column_for_each_file():
    out = io.StringIO()
    Console(file=out, width=100).print(
        table_of_files("Texts", [facts("d/train.txt"), facts("d/dev.txt", 1)], length_rows("line"), shared=2)
    )
    lines = [line.strip("│┃ ").split("│") for line in out.getvalue().splitlines()]
    cells = {line[0].strip(): [cell.strip() for cell in line[1:]] for line in lines if len(line) == 3}
    assert cells["longest line"] == ["4 (line 2)", "4 (line 2)"]
    assert cells["unknown tokens"] == ["0 (0.00%)", "1 (11.11%)"]
    assert cells["also in train"] == ["", "2"]
