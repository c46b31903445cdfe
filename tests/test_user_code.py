"""Objects named as FILE.py:NAME: which names are such, what is run, and what a user can put right."""

import os
import sys

import pytest

from carousel.errors import ArgumentError, CarouselError
from carousel.user_code import is_place, load_place, mistake


@pytest.fixture
def file(tmp_path, monkeypatch):
    """Writes a module of a user; modules that were loaded are forgotten afterwards."""
    monkeypatch.setattr(sys, "modules", dict(sys.modules))

    def write(text, name="mine.py"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a.py:B", True), ("C:/a.py:B", True), ("a.py", False), ("a.py:", False), ("a.txt:B", False), ("", False)],
)
def test_what_is_a_place(text, expected):
    assert is_place(text) == expected


def test_a_file_is_run_once_until_it_changes(file):
    path = file("values = []\nvalues.append(1)\n")
    first = load_place(f"{path}:values", "a list")
    first.append(2)
    assert load_place(f"{path}:values", "a list") is first
    file("values = [3]\n")
    os.utime(path, ns=(1, 1))  # another time, however coarse the clock of the file system is
    assert load_place(f"{path}:values", "a list") == [3]


def test_files_of_one_name_are_kept_apart_and_hide_no_module(file, tmp_path):
    (tmp_path / "other").mkdir()
    one, two = file("x = 1", "json.py"), file("x = 2", "other/json.py")
    assert (load_place(f"{one}:x", "a number"), load_place(f"{two}:x", "a number")) == (1, 2)
    import json

    assert json.loads("[1]") == [1]


def test_what_is_wrong_is_an_argument_error(file, tmp_path):
    with pytest.raises(ArgumentError, match=r"^Sensor: a task is named FILE\.py:CLASS$"):
        load_place("Sensor", "a task")
    with pytest.raises(FileNotFoundError, match="no such file"):
        load_place(f"{tmp_path / 'none.py'}:Sensor", "a task")
    path = file("Sensor = 1")
    with pytest.raises(ArgumentError, match=r"mine\.py: it defines no Sensr; did you mean Sensor\?$"):
        load_place(f"{path}:Sensr", "a task")


def test_a_file_that_fails_is_run_again(file):
    path = file("raise KeyError('gone')")
    for _ in range(2):
        with pytest.raises(ArgumentError, match=r"mine\.py: it cannot be imported \(KeyError: 'gone'\)"):
            load_place(f"{path}:x", "a number")
    assert not any("carousel_user_mine" in name for name in sys.modules)
    path = file("from carousel.errors import CarouselError\nraise CarouselError('as it is')", "own.py")
    with pytest.raises(CarouselError, match=r"^as it is$"):
        load_place(f"{path}:x", "a number")


def test_the_place_of_a_mistake(file, monkeypatch, tmp_path):
    """It is the deepest in a file of the user's, by the name it has from here; others have none."""
    path = file("def inner():\n    return {}['gone']\n\n\ndef outer(call):\n    return call()\n")
    inner, outer = (load_place(f"{path}:{name}", "a function") for name in ("inner", "outer"))
    monkeypatch.chdir(tmp_path)
    for call, expected in (
        (inner, "mine.py:2: KeyError: 'gone'"),
        (lambda: outer(inner), "mine.py:2: KeyError: 'gone'"),
        (lambda: outer(lambda: int("x")), "mine.py:6: ValueError: invalid literal for int() with base 10: 'x'"),
        (lambda: int("x"), None),
    ):
        with pytest.raises((KeyError, ValueError)) as error:
            call()
        assert mistake(error.value) == expected
