"""Readers against `str.split` and `bytes.decode`, and every file they must refuse."""

import os
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carousel.data import Lines, RunningText, check_file, read_lines
from carousel.data.sources import lines
from carousel.errors import DataError

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


def write(folder, data, name="poems.txt"):
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def complaint(path, reader=Lines):
    with pytest.raises(DataError) as error:
        list(reader(path))
    message = str(error.value)
    assert "\n" not in message
    return message.replace(str(path), "poems.txt")


@given(TEXT)
def test_lines_are_those_of_split(tmp_path_factory, text):
    path = write(tmp_path_factory.mktemp("lines"), "x" + text)
    unix = ("x" + text).replace("\r\n", "\n")
    assert list(Lines(path)) == [line for line in unix.split("\n") if line.strip()]
    assert [line for _, line in read_lines(path)] == unix.removesuffix("\n").split("\n")
    assert "".join(RunningText(path)) == unix
    assert list(RunningText(path, end_lines=True)) == unix.removesuffix("\n").split("\n")


def test_blank_lines_are_skipped_and_counted(tmp_path):
    reader = Lines(write(tmp_path, "\none\n  \n\u3000\ntwo\n\n"))
    assert [(piece.line, piece.text) for piece in reader.pieces()] == [(2, "one"), (5, "two")]
    assert reader.blank == 4
    assert list(reader) == ["one", "two"] and reader.blank == 4  # a second reading does not count on


def test_spaces_and_odd_separators_stay(tmp_path):
    odd = " a \u2028b\x0b\x85c\r d "
    assert list(Lines(write(tmp_path, odd))) == [odd]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_line_ends_and_byte_order_mark(tmp_path, end, bom):
    path = write(tmp_path, bom + end.join(["one", "two \ufeff", ""]))
    assert list(Lines(path)) == ["one", "two \ufeff"]
    assert "".join(RunningText(path)) == "one\ntwo \ufeff\n"


def test_one_line_is_enough(tmp_path):
    assert list(Lines(write(tmp_path, "only"))) == ["only"]
    assert list(RunningText(write(tmp_path, "only"), end_lines=True).pieces()) == [(1, "only", True)]


@pytest.mark.parametrize("unit", ["word ", "x", "詩", "a b\u3000", "🙂"])
@pytest.mark.parametrize("extra", range(5))
def test_long_lines_come_in_pieces(tmp_path, monkeypatch, unit, extra):
    monkeypatch.setattr(lines, "BLOCK", 64)
    long = (unit * 300)[: 700 + extra] + "\r\nnext"
    path = write(tmp_path, long)
    pieces = list(RunningText(path, end_lines=True).pieces())
    assert len(pieces) > 5 and max(len(piece.text.encode()) for piece in pieces) <= 128
    assert "".join(piece.text for piece in pieces[:-1]) == long.split("\r")[0]
    assert [piece.end for piece in pieces] == [False] * (len(pieces) - 2) + [True, True]
    assert [piece.line for piece in pieces] == [1] * (len(pieces) - 1) + [2]
    assert "".join(RunningText(path)) == long.replace("\r", "")
    if unit == "word ":  # no word is cut
        assert {word for piece in pieces[:-2] for word in piece.text.split()} == {"word"}


def test_ten_megabytes_in_a_line(tmp_path):
    path = write(tmp_path, "first\n" + "to be " * 1_700_000 + "\nlast")
    assert [len(text) for text in Lines(path)] == [5, 10_200_000, 4]
    assert sum(map(len, RunningText(path))) == 10_200_011
    assert max(map(len, RunningText(path))) <= 2 * lines.BLOCK


def test_bad_files(tmp_path):
    assert complaint(write(tmp_path, "")) == "poems.txt: the file is empty; give a file with text in it"
    assert complaint(write(tmp_path, "\n \n\n")) == "poems.txt: all 3 lines are blank; give a file with text in it"
    assert complaint(write(tmp_path, "\ufeff")) == "poems.txt: its only line is blank; give a file with text in it"
    assert complaint(write(tmp_path, " \n"), RunningText).startswith("poems.txt: its only line is blank;")
    assert complaint(tmp_path) == "poems.txt: is a directory; give a file of text"
    near = write(tmp_path, "x", "poem.txt")
    assert complaint(tmp_path / "poemm.txt") == f"poems.txt: no such file; did you mean {near}?"
    assert complaint(tmp_path / "zzz").endswith("no such file; check the path")
    assert complaint(tmp_path / "missing.txt").endswith("check the path")  # `.txt` alone makes it like no other
    other = write(tmp_path, "x", "missing.conllu")
    assert complaint(tmp_path / "missing.tsv").endswith(f"did you mean {other}?")
    assert "there is no directory" in complaint(tmp_path / "no" / "where")


@pytest.mark.parametrize("reader", [Lines, RunningText])
def test_bytes_that_are_not_utf8_are_named(tmp_path, reader):
    path = write(tmp_path, "one\n詩二三四".encode() + b"\xffx\n")
    expected = "poems.txt:2: byte 0xff at column 5 is not UTF-8; convert the file with iconv -f ENCODING -t utf-8"
    assert complaint(path, reader) == expected
    assert "poems.txt:1: byte 0xe8 at column 4 is not UTF-8" in complaint(write(tmp_path, b"abc\xe8\xa9"), reader)
    assert "poems.txt:1: byte 0xed at column 1" in complaint(write(tmp_path, b"\xed\xa0\x80"), reader)  # a surrogate
    assert "poems.txt:1: byte 0xff at column 1" in complaint(write(tmp_path, "詩\n".encode("utf-16")), reader)
    assert complaint(write(tmp_path, "詩\n".encode("utf-16")), reader).endswith("iconv -f utf-16 -t utf-8")
    assert "poems.txt:2: zero byte at column 3;" in complaint(write(tmp_path, b"a\nbc\0d\n"), reader)


def test_the_column_counts_from_the_line_not_the_piece(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "BLOCK", 64)
    path = write(tmp_path, b"one\n" + b"abcd " * 100 + b"\xfe\n")
    assert "poems.txt:2: byte 0xfe at column 501 " in complaint(path, RunningText)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert "is not a regular file" in complaint(tmp_path / "pipe")


def test_a_file_that_may_not_be_read(tmp_path, monkeypatch):
    path = write(tmp_path, "x")

    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(path), "open", refuse)
    with pytest.raises(DataError, match="permission denied; make the file readable"):
        check_file(path)


def test_errors_survive_pickling():
    error = pickle.loads(pickle.dumps(DataError("a.txt", 3, "bad", "fix it")))
    assert str(error) == "a.txt:3: bad; fix it" and error.line == 3
    assert str(DataError(None, None, "bad", "fix it")) == "bad; fix it"
    assert str(DataError(None, 7, "bad", "fix it")) == "line 7: bad; fix it"
