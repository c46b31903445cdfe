"""`carousel demo`: the path on stdout, progress on stderr, and errors that are one line."""

from functools import partial

import pytest

from carousel.cli.main import main
from carousel.lab import latch

TINY = latch.Setting(relevant=3, irrelevant=10, longest=20, tests=20, hidden=4, batch=8, updates=2)


@pytest.fixture
def carousel(monkeypatch, capsys):
    """Runs the command with a tiny budget: exit code, stdout, stderr."""
    monkeypatch.setattr(latch, "demo", partial(latch.demo, setting=TINY))

    def run(*args):
        with pytest.raises(SystemExit) as end:
            main(list(map(str, args)))
        return end.value.code, *capsys.readouterr()

    return run


def test_it_writes_a_report_and_prints_its_path(carousel, tmp_path):
    code, out, err = carousel("demo", "--out", tmp_path / "demo", "--seed", 5)
    path = tmp_path / "demo" / "report.html"
    assert (code, out) == (0, f"{path}\n")
    assert [p.name for p in path.parent.iterdir()] == ["report.html"]
    html = path.read_text("utf-8")
    assert "<code>carousel demo --seed 5</code>" in html
    assert all(f'id="figure-{k}"' in html for k in (1, 2, 3))
    lines = err.splitlines()
    assert len(lines) == 10  # a head, seven cells, two for comparison
    assert lines[2].startswith("LSTM ")
    assert "\x1b" not in out + err
    assert "\r" not in out + err


def test_quiet_prints_only_the_path(carousel, tmp_path):
    assert carousel("demo", "--quiet", "--out", tmp_path) == (0, f"{tmp_path / 'report.html'}\n", "")


def test_a_report_that_is_there_is_replaced(carousel, tmp_path):
    (tmp_path / "report.html").write_text("old")
    assert carousel("demo", "--quiet", "--out", tmp_path)[0] == 0
    assert (tmp_path / "report.html").read_text("utf-8").startswith("<!DOCTYPE html>")


def test_a_report_that_is_there_survives_a_failure(carousel, tmp_path, monkeypatch):
    (tmp_path / "report.html").write_text("old")
    monkeypatch.setattr(latch, "train", lambda *_: (_ for _ in ()).throw(ValueError("no luck")))
    code, out, err = carousel("demo", "--quiet", "--out", tmp_path)
    assert (code, out, err) == (1, "", "error: no luck\n")
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("report.html", "old")]


@pytest.mark.parametrize("out", ["file", "file/below", "taken"])
def test_a_place_that_cannot_be_used_is_one_line_and_exit_2(carousel, tmp_path, out):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "taken" / "report.html").mkdir(parents=True)
    code, stdout, err = carousel("demo", "--out", tmp_path / out)
    assert (code, stdout) == (2, "")
    assert len(err.splitlines()) == 1
    assert err.startswith("error: ")
    assert out in err
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("wrong", [["--seed", "-1"], ["--seed", "x"], ["--speed", "1"]], ids=" ".join)
def test_a_wrong_option_is_one_line_and_exit_2(carousel, wrong):
    code, out, err = carousel("demo", *wrong)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert wrong[0] in err
