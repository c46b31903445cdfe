"""Loading a run, and the lines that a command on a run reads."""

import gc
import io
import sys

import pytest

from carousel.cli.runs import lines_of, load
from carousel.errors import DataError, RunError
from carousel.tasks import runs


@pytest.fixture
def given(monkeypatch):
    """Standard input with these bytes."""

    def give(data):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    return give


def test_garbage_is_not_collected_while_a_run_is_loaded(tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "load_run", lambda folder: gc.isenabled())
    assert load(tmp_path) is False
    assert gc.isenabled()
    monkeypatch.undo()
    with pytest.raises(RunError):
        load(tmp_path / "none")
    assert gc.isenabled()


def test_lines_of_a_file_with_blank_ones_or_without(text_file):
    path = text_file("a\n\n b \n")
    assert list(lines_of(path)) == ["a", " b "]
    assert list(lines_of(path, blank=True)) == ["a", "", " b "]


def test_lines_of_standard_input(given):
    given("ä\r\n\nlast".encode())
    assert list(lines_of(None)) == ["ä", "last"]
    given("ä\r\n\nlast".encode())
    assert list(lines_of(None, blank=True)) == ["ä", "", "last"]
    given(b"\n")
    assert list(lines_of(None, blank=True)) == [""]


@pytest.mark.parametrize(("data", "blank"), [(b"", False), (b"", True), (b" \n\n", False)])
def test_nothing_on_standard_input_is_an_error_as_an_empty_file_is(given, data, blank):
    given(data)
    with pytest.raises(DataError, match=r"^standard input: there is no text in it; give one item per line"):
        list(lines_of(None, blank=blank))


def test_bytes_that_are_no_text_are_named_with_their_line(given):
    given(b"good\n\xff\n")
    lines = lines_of(None)
    assert next(lines) == "good"
    with pytest.raises(DataError, match=r"^standard input:2: "):
        next(lines)
