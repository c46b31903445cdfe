"""The lines that a command on a run reads."""

import io
import sys

import pytest

from carousel.cli.runs import lines_of
from carousel.errors import DataError


@pytest.fixture
def given(monkeypatch):
    """Standard input with these bytes."""

    def give(data):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    return give


def test_lines_of_a_file_with_blank_ones_or_without(text_file):
    path = text_file("a\n\n b \n")
    assert list(lines_of(path)) == ["a", " b "]
    assert list(lines_of(path, blank=True)) == ["a", "", " b "]


def test_lines_of_standard_input(given):
    given("ä\r\n\nlast".encode())
    assert list(lines_of(None)) == ["ä", "", "last"]
    given(b"")
    assert list(lines_of(None)) == []


def test_bytes_that_are_no_text_are_named_with_their_line(given):
    given(b"good\n\xff\n")
    lines = lines_of(None)
    assert next(lines) == "good"
    with pytest.raises(DataError, match=r"^standard input:2: "):
        next(lines)
