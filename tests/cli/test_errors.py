"""What a user can put right is one line; anything else is a bug, with a file that shows where."""

import errno
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import typer

from carousel.__main__ import main as shell
from carousel.cli import main as cli
from carousel.cli.errors import BUG, check_output
from carousel.data import corpora
from carousel.errors import ArgumentError, CarouselError, DataError, RunError


@pytest.fixture
def raising(monkeypatch, capsys, tmp_path):
    """Run the command line with a command that raises: exit code and standard error; temporary files in `tmp_path`."""
    monkeypatch.delenv("CAROUSEL_TRACEBACK", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def run(error):
        def app(*args, **options):
            raise error

        monkeypatch.setattr(cli, "application", lambda args: app)
        with pytest.raises(SystemExit) as stop:
            cli.main(["check", "a file"])
        return stop.value.code, capsys.readouterr().err

    return run


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (CarouselError("no kernels; build them"), "no kernels; build them"),
        (ArgumentError("beam must be 1 or more, got 0"), "beam must be 1 or more, got 0"),
        (DataError("a.txt", 3, "is not UTF-8", "convert it"), "a.txt:3: is not UTF-8; convert it"),
        (RunError("run: no weights\nyet"), "run: no weights yet"),
        (PermissionError(errno.EACCES, "Permission denied", "a.txt"), "a.txt: Permission denied"),
        (OSError(errno.ENOSPC, "No space left on device"), "standard output: No space left on device; free some space"),
        (OSError(errno.ENOSPC, "No space left on device", "a.txt"), "a.txt: No space left on device; free some space"),
        (MemoryError(), "not enough memory; use smaller batches or a smaller model, or close other programs"),
        (UnicodeEncodeError("ascii", "a詩", 1, 2, ""), "'詩' cannot be printed as ascii; set PYTHONIOENCODING=utf-8"),
    ],
)
def test_what_a_user_can_put_right_is_one_line(raising, tmp_path, error, text):
    assert raising(error) == (1, f"error: {text}\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("shape", [(2**60,), (2**31, 2**31)])
def test_torch_has_its_own_way_to_run_out_of_memory(raising, shape):
    with pytest.raises(RuntimeError) as caught:
        torch.empty(shape)
    code, line = raising(caught.value)
    assert code == 1 and line.startswith("error: not enough memory")


@pytest.mark.parametrize(
    "error",
    [ValueError("x" * 900 + "\nlong"), KeyError("詩"), RuntimeError(), OSError("a library's"), AssertionError()],
)
def test_anything_else_is_a_bug_with_a_traceback_file(raising, tmp_path, error):
    code, line = raising(error)
    assert code == BUG == 70
    (file,) = tmp_path.iterdir()
    kind = type(error).__name__
    assert re.fullmatch(rf"error: this is a bug in Carousel \({kind}(: .*)?\); please report it with (.*)\n", line)
    assert line.endswith(f"report it with {file}\n") and line.count("\n") == 1 and len(line) < 500
    text = file.read_text("utf-8")
    assert text.startswith("carousel check 'a file'\nCarousel ") and f"PyTorch {torch.__version__}" in text
    assert "Traceback (most recent call last)" in text and "raise error" in text and kind in text


def test_without_a_place_for_the_file_the_traceback_is_printed(raising, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    code, lines = raising(ValueError("ours"))
    assert code == BUG
    assert "Traceback (most recent call last)" in lines
    assert lines.endswith("this is a bug in Carousel (ValueError: ours); please report it with the traceback above\n")


@pytest.mark.parametrize("error", [ValueError("ours"), ArgumentError("theirs")])
def test_the_traceback_can_be_asked_for(raising, monkeypatch, error):
    monkeypatch.setenv("CAROUSEL_TRACEBACK", "1")
    with pytest.raises(type(error)):
        raising(error)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), typer.Abort()])
def test_an_interruption_is_one_line(raising, tmp_path, error):
    assert raising(error) == (130, "error: interrupted\n")
    assert not list(tmp_path.iterdir())


def test_an_interruption_of_a_command_is_one_line(monkeypatch, capsys):
    """Ctrl-C while a command runs, and while the command line is still being imported."""

    def interrupted(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("carousel.tasks.find_for", interrupted)
    with pytest.raises(SystemExit) as end:
        cli.main(["check", "a.txt"])
    assert (end.value.code, capsys.readouterr().err) == (130, "error: interrupted\n")

    monkeypatch.delitem(sys.modules, "carousel.cli.main")
    monkeypatch.setattr(sys, "meta_path", [SimpleNamespace(find_spec=interrupted), *sys.meta_path])
    with pytest.raises(SystemExit) as end:
        shell()
    assert (end.value.code, capsys.readouterr().err) == (130, "error: interrupted\n")


def test_a_bug_is_not_taken_for_a_wrong_option(monkeypatch, capsys, tmp_path):
    """A ValueError from inside a command, where an ArgumentError would be a wrong option."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def find(name):
        raise ValueError("ours")

    for action, expected in ((find, BUG), (corpora.find, 2)):
        monkeypatch.setattr(corpora, "find", action)
        with pytest.raises(SystemExit) as stop:
            cli.main(["data", "get", "nothing"])
        assert stop.value.code == expected, capsys.readouterr().err


def test_from_the_shell(tmp_path):
    (tmp_path / "bad.txt").write_bytes(b"a\n\xff\n")
    command = [sys.executable, "-m", "carousel.cli.main", "check", "bad.txt"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "COLUMNS": "80"})
    assert done.returncode == 1
    assert done.stderr.startswith("error: bad.txt:2: byte 0xff") and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "words, text",
    [
        (["similar", "run", "--to", "a", "-n", "x"], "'--n' / '-n': should be a whole number, got 'x'"),
        (["similar", "run", "--to", "a", "-n", "0"], "'--n' / '-n': should be greater than or equal to 1, got '0'"),
        (["predict", "run", "--out", "."], "--out: .: is a directory; give a file"),
        (
            ["predict", "run", "--out", "a.conllu"],
            "--out: predictions are columns of their own, no CoNLL-U; give a name",
        ),
        (["train", "lm", "--config", ".", "--out", "run"], ".: is a directory; give a file of settings"),
    ],
)
def test_a_wrong_option_is_explained_in_plain_words(carousel, tmp_path, monkeypatch, words, text):
    monkeypatch.chdir(tmp_path)
    code, out, err = carousel(*words)
    assert code in (1, 2) and not out and err.startswith("error: ") and len(err.splitlines()) == 1
    assert text.replace("'", "") in err.replace("'", "")


def test_a_file_is_not_written_into_a_directory_that_may_be_misspelt(tmp_path):
    (tmp_path / "in.txt").write_text("x")
    check_output("--out", None)
    check_output("--out", tmp_path / "new.tsv", tmp_path / "in.txt", None)
    with pytest.raises(typer.BadParameter, match=r"there is no directory .*typo; create it first"):
        check_output("--out", tmp_path / "typo" / "new.tsv")
    with pytest.raises(typer.BadParameter, match=r"in.txt is read from; give another name"):
        check_output("--out", tmp_path / "in.txt", tmp_path / "in.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]


@pytest.mark.parametrize(
    "args",
    [
        ["predict", "run", "--out", "typo/a.tsv"],
        ["embed", "run", "--out", "typo/a.npy"],
        ["translate", "run", "--out", "typo/a.txt"],
        ["translate", "run", "--alignment", "typo/a.txt"],
        ["translate", "run", "--attention", "typo/a.png"],
        ["translate", "run", "--tree", "typo/a.svg"],
        ["compare", "run", "--out", "typo/a.html"],
    ],
    ids=" ".join,
)
def test_every_command_that_writes_a_file_refuses_it_before_it_works(carousel, tmp_path, monkeypatch, args):
    monkeypatch.chdir(tmp_path)
    code, out, err = carousel(*args)
    assert (code, out) == (2, "") and f"{args[-2]}: {args[-1]}: there is no directory typo; create it first" in err
    assert not list(tmp_path.iterdir())


def test_a_complaint_that_names_its_option_has_one_prefix(raising):
    code, line = raising(typer.BadParameter("--top-p: must be 0 to 1"))
    assert code == 2 and line.startswith("error: --top-p: must be 0 to 1 (see carousel")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("args", [["--version"], ["data", "list"], ["train", "--help"]])
def test_standard_output_that_is_full_has_a_name(args):
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-m", "carousel", *args], stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (1, "error: standard output: No space left on device; free some space\n")
