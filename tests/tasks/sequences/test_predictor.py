"""Classifiers of number sequences: learning, the same from files, arrays and Python, refusals, baselines."""

import json

import numpy as np
import pytest
from helpers.waves import waves, waves_file

import carousel
from carousel.cli import main as cli


def test_it_learns_and_is_loaded(trained):
    run, model = trained
    again = carousel.load(run)
    assert again.evaluate(waves_file(run)) == model.evaluate(waves_file(run))
    assert carousel.evaluate(model, waves(40, 2))["accuracy"] > 0.95
    one, two = again.predict([np.linspace(-1, 1, 9), np.linspace(1, -1, 30)])
    assert (one.label, two.label) == ("up", "down") and one.confidence > 0.7
    assert again.predict([0.9, 0.1, -0.8]).label == "down" and again.trace([0.1, 0.2]).h.shape[0] == 2
    assert "Misclassified sequences" in (run / "report.html").read_text()


def call(*arguments):
    """The exit code of a command."""
    with pytest.raises(SystemExit) as stop:
        cli.main(list(map(str, arguments)))
    return stop.value.code


def test_the_commands(trained, tmp_path, capsys):
    run, _ = trained
    (tmp_path / "new.csv").write_text("-1,-0.5,0,0.5,1\n1,0.3,-0.5,-1,\n")
    assert not call("predict", run, tmp_path / "new.csv")
    head, one, two = capsys.readouterr().out.splitlines()
    assert head.split("\t") == ["label", "confidence", "sequence"]
    assert one.split("\t")[::2] == ["up", "1"] and two.split("\t")[::2] == ["down", "2"]
    (tmp_path / "new.txt").write_text("-1 0 1\n1, 0, -1\n")
    assert not call("predict", run, tmp_path / "new.txt", "--json")
    assert [json.loads(line)["label"] for line in capsys.readouterr().out.splitlines()] == ["up", "down"]
    (tmp_path / "gaps.csv").write_text("-1,NA,1\n")
    (tmp_path / "gaps.txt").write_text("-1 nan 1\n")
    of_table, of_line = (
        call("predict", run, tmp_path / f"gaps.{ending}", "--json") or json.loads(capsys.readouterr().out)
        for ending in ("csv", "txt")
    )
    assert of_table["confidence"] == of_line["confidence"]
    (tmp_path / "none.txt").write_text("nan NA\n")
    assert call("predict", run, tmp_path / "none.txt")
    assert "none.txt:1: 'nan NA' is not a line of numbers" in capsys.readouterr().err
    (tmp_path / "bad.txt").write_text("1 2\n1 x\n")
    assert call("predict", run, tmp_path / "bad.txt")
    assert "bad.txt:2: '1 x' is not a line of numbers" in capsys.readouterr().err
    assert not call("check", waves_file(run), "--json")
    assert json.loads(capsys.readouterr().out)["train"]["sequences"] == 20
