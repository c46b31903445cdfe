"""Learning curves: runs on parts of the training data."""

import json

import pytest

import carousel
from carousel.data.sources.split import Part
from carousel.errors import SettingsError
from carousel.training import Run

TEXTS = [f"text number {k}" for k in range(400)]
ROWS = [(f"{'fine' if k % 2 else 'dull'} film {k}", "ab"[k % 2]) for k in range(60)]
SMALL = {"hidden": 4, "embedding": 4, "epochs": 1, "threads": 1, "quiet": True}


def test_a_larger_share_has_all_of_a_smaller_one_and_nothing_that_is_held_out():
    rest, held_out = (Part(0, 2**62, (), side) for side in (False, True))
    chosen = {share: {text for text in TEXTS if rest._replace(share=share).has(text)} for share in (0.125, 0.5, 1.0)}
    assert chosen[0.125] < chosen[0.5] < chosen[1.0]
    assert not chosen[1.0] & {text for text in TEXTS if held_out.has(text)}
    assert 0.35 < len(chosen[0.5]) / len(chosen[1.0]) < 0.65


def test_the_curve_is_in_result_and_report(tmp_path, command):
    data = tmp_path / "reviews.tsv"
    data.write_text("".join(f"{text}\t{label}\n" for text, label in ROWS))
    options = ["--hidden", 4, "--embedding", 4, "--epochs", 1, "--threads", 1, "--cache", tmp_path / "cache"]
    code, _, err = command("train", "classify", data, "--out", tmp_path / "run", "--learning-curve", *options)
    assert code == 0 and "learning curve, dev accuracy: 12.5 %" in err
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert [point["share"] for point in result["learning_curve"]] == [0.125, 0.25, 0.5, 1.0]
    assert result["learning_curve"][-1]["dev_accuracy"] == result["dev_accuracy"]
    half = Run(tmp_path / "run" / "learning-curve" / "50")
    assert result["learning_curve"][2]["dev_accuracy"] == half.result["dev_accuracy"]
    assert half.config_values()["share"] == 0.5 and half.result["steps"] < result["steps"]
    assert half.result["held_out"] == result["held_out"]
    assert "Learning curve" in (tmp_path / "run" / "report.html").read_text()


def test_a_finished_run_gets_its_curve(tmp_path):
    settings = {**SMALL, "cache": tmp_path / "cache", "report": False}
    carousel.train("classify", ROWS, out=tmp_path / "run", seeds=2, **settings)
    model = carousel.train("classify", out=tmp_path / "run", resume=True, learning_curve=True, quiet=True, report=False)
    result = Run(tmp_path / "run").result
    assert len(model.members) == 2 and len(result["learning_curve"]) == 4
    assert result["learning_curve"][-1]["dev_accuracy"] == result["members"][0]["dev_accuracy"]


def test_what_has_no_curve(tmp_path):
    with pytest.raises(SettingsError, match="learning_curve: true needs a dev set"):
        carousel.train("classify", ROWS[:8], out=tmp_path / "run", learning_curve=True, **SMALL, cache=tmp_path)
    assert not (tmp_path / "run").exists()
    with pytest.raises(SettingsError, match="running text has no examples"):
        carousel.train("lm", ["a b c"] * 9, out=tmp_path / "lm", learning_curve=True, layout="running", **SMALL)
