"""Several runs in one: an ensemble that is killed, resumed, and given more members."""

import shutil

import pytest
from helpers.ensembles import LABELS, TEXTS, WORDS
from helpers.tiny import Killed, kill_at, outcome

import carousel
from carousel.errors import CarouselError, RunError
from carousel.training import Run

DATA = list(zip(TEXTS, LABELS, strict=True))


@pytest.fixture(name="run_command")
def _run_command(carousel):
    return carousel


def test_an_ensemble_that_was_killed_ends_like_one_that_was_not(tmp_path, monkeypatch):
    settings = {**WORDS, "cache": tmp_path / "cache", "seeds": 2}
    whole = carousel.train("classify", DATA, out=tmp_path / "whole", **settings)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        kill_at(patch, "batch", 1, 1)
        carousel.train("classify", DATA, out=tmp_path / "run", **settings)
    assert not (tmp_path / "run" / "members" / "2").exists()
    with pytest.raises(RunError, match="no weights yet"):
        shutil.copytree(tmp_path / "run", tmp_path / "copy")
        carousel.load(tmp_path / "copy")
    model = carousel.train("classify", out=tmp_path / "run", resume=True, quiet=True, report=False)
    for number in (1, 2):
        a, b = (outcome(Run(tmp_path / name).member(number)) for name in ("whole", "run"))
        assert a == b
    assert model.predict(TEXTS).__repr__() == whole.predict(TEXTS).__repr__()


def test_an_ensemble_gets_more_members_and_never_fewer(tmp_path, run_command):
    settings = {**WORDS, "cache": tmp_path / "cache"}
    carousel.train("classify", DATA, out=tmp_path / "run", seeds=2, **settings)
    before = [outcome(Run(tmp_path / "run").member(k)) for k in (1, 2)]
    code, _, _ = run_command("train", "classify", "--out", tmp_path / "run", "--resume", "--seeds", 3, "--quiet")
    assert code == 0 and len(carousel.load(tmp_path / "run").members) == 3
    assert [outcome(Run(tmp_path / "run").member(k)) for k in (1, 2)] == before
    code, _, err = run_command("train", "classify", "--out", tmp_path / "run", "--resume", "--seeds", 2)
    assert code == 1 and "seeds is 3 there, 2 now" in err
    assert (tmp_path / "run" / "report.html").read_text().count("Members") >= 1
    code, out, _ = run_command("eval", tmp_path / "run", tmp_path / "run" / "data" / "train.jsonl")
    assert code == 0 and "members" in out and "sd" in out
    with pytest.raises(RunError, match="a run is here already"):
        carousel.train("classify", DATA, out=tmp_path / "run", **settings)
    carousel.train("classify", DATA, out=tmp_path / "run", force=True, **settings)
    assert not (tmp_path / "run" / "members").exists()
    with pytest.raises(RunError, match="seeds is 1 there, 2 now"):
        carousel.train("classify", out=tmp_path / "run", resume=True, seeds=2, quiet=True)


def test_bad_data_leaves_nothing_behind(tmp_path):
    with pytest.raises(CarouselError, match="every row has the label"):
        carousel.train("classify", [("a", "x")] * 30, out=tmp_path / "run", seeds=2, **WORDS)
    assert not (tmp_path / "run").exists()


def test_tasks_without_ensembles_have_no_such_setting(tmp_path):
    with pytest.raises(CarouselError, match="seeds: there is no such key"):
        carousel.train("lm", ["a b c"], out=tmp_path / "run", seeds=2)
