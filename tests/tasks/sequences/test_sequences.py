"""Classifiers of number sequences: learning, the same from files, arrays and Python, refusals, baselines."""

import json

import numpy as np
import pytest
import torch

import carousel
from carousel.cli import main as cli
from carousel.errors import ArgumentError, DataError, SettingsError
from carousel.tasks.sequences.baseline import at_points, summary
from carousel.tasks.sequences.batches import Scale, SequenceBatch

SMALL = {"hidden": 8, "epochs": 8, "lr": 0.02, "batch_size": 8, "quiet": True, "average": 0, "threads": 1}


def waves(count, seed=0):
    """Rising and falling sequences of different lengths and offsets, which neither mean nor length tells apart."""
    draw = np.random.default_rng(seed)
    sequences = []
    for k in range(count):
        n, sign = int(draw.integers(5, 15)), 1 if k % 2 else -1
        sequences.append((sign * np.linspace(-1, 1, n) + draw.normal(0, 0.1, n), "up" if k % 2 else "down"))
    return sequences


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    run = tmp_path_factory.mktemp("sequences") / "run"
    model = carousel.train("sequences", waves(80), dev=waves(20, 1), out=run, **SMALL)
    return run, model


def test_it_learns_and_is_loaded(trained):
    run, model = trained
    again = carousel.load(run)
    assert again.evaluate(waves_file(run)) == model.evaluate(waves_file(run))
    assert carousel.evaluate(model, waves(40, 2))["accuracy"] > 0.95
    one, two = again.predict([np.linspace(-1, 1, 9), np.linspace(1, -1, 30)])
    assert (one.label, two.label) == ("up", "down") and one.confidence > 0.7
    assert again.predict([0.9, 0.1, -0.8]).label == "down" and again.trace([0.1, 0.2]).h.shape[0] == 2
    assert "Misclassified sequences" in (run / "report.html").read_text()


def waves_file(run):
    return next((run / "data").glob("dev*"))


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
    (tmp_path / "bad.txt").write_text("1 2\n1 x\n")
    assert call("predict", run, tmp_path / "bad.txt")
    assert "bad.txt:2: '1 x' is not a line of numbers" in capsys.readouterr().err
    assert not call("check", waves_file(run), "--json")
    assert json.loads(capsys.readouterr().out)["train"]["sequences"] == 20


def test_steps_by_id_with_missing_numbers_and_chunks(tmp_path):
    lines = ["id,x,y,label"]
    for k, (x, label) in enumerate(waves(40)):
        lines += [f"s{k},{'' if t == 2 else value},1,{label}" for t, value in enumerate(x.round(4).tolist())]
    (tmp_path / "train.csv").write_text("\n".join(lines) + "\n")
    options = {"id_column": "id", "label_column": "label", "dev_split": "none", "chunk": 4, "baseline": False}
    model = carousel.train("sequences", tmp_path / "train.csv", out=tmp_path / "run", **options, **SMALL)
    assert model.assets.scale.missing and model.network.layers.input_size == 4
    assert carousel.evaluate(model, tmp_path / "train.csv")["accuracy"] > 0.9
    with pytest.raises(
        DataError, match="1 variable, where the training data has 2; give sequences of 2 variables: x, y"
    ):
        model.predict([1.0, 2.0])
    facts = carousel.check(tmp_path / "train.csv", task="sequences", **{k: options[k] for k in ("id_column", "chunk")})
    assert facts.train.chunked == 40 and facts.train.missing == 40 and facts.train.constant == ["y"]
    assert "y is always the same; leave it out with columns" in facts.warnings[0]


def test_numbers_as_targets(tmp_path):
    draw = np.random.default_rng(0)
    data = [(x, 10 + 3 * x.mean()) for x in draw.normal(size=(60, 6)) + draw.normal(size=(60, 1))]
    model = carousel.train("sequences", data, out=tmp_path / "run", target="number", pooling="mean", **SMALL)
    assert carousel.evaluate(model, data)["r2"] > 0.8
    assert abs(model.predict(data[0][0]).number - data[0][1]) < 3
    for name, value in (("class_weights", "balanced"), ("label_smoothing", 0.1)):
        with pytest.raises(SettingsError, match=f"{name}: numbers have no classes"):
            carousel.train("sequences", data, out=tmp_path / "no", target="number", **{name: value})
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize("bad", [[(["a"], "x")], [("text", "good")], 5])
def test_what_is_not_numbers_is_refused(tmp_path, bad):
    with pytest.raises(ArgumentError, match="data: "):
        carousel.train("sequences", bad, out=tmp_path / "run", **SMALL)
    assert not (tmp_path / "run").exists()


def test_scales_by_hand():
    scale = Scale.learn([np.array([[1.0, 5], [3, np.nan]]), np.array([[5.0, 5]])])
    assert scale.mean.tolist() == [3, 5] and scale.missing and scale.inputs == 4
    np.testing.assert_allclose(scale.deviation, [np.std([1, 3, 5]), 1])
    np.testing.assert_allclose(scale(np.array([[np.nan, 6]])), [[0, 1, 1, 0]])


def test_spans():
    batch = SequenceBatch(torch.arange(8.0).reshape(4, 2, 1), torch.tensor([4, 3]), torch.tensor([7, 9]))
    part = batch.spans(torch.tensor([0, 1, 1]), torch.tensor([2, 0, 1]), torch.tensor([2, 1, 2]))
    assert part.x[..., 0].T.tolist() == [[4, 6], [1, 0], [3, 5]] and part.rows.tolist() == [7, 9, 9]


def test_baselines():
    found = carousel.baseline("sequences", waves(40), dev=waves(20, 1))
    by_name = {one.name: one.value for one in found.results}
    assert by_name["majority class"] == 0.5 and by_name["nearest neighbour of 32 points"] == 1
    assert by_name["summary statistics + logistic regression"] > 0.9


def test_what_baselines_see():
    line = at_points([np.array([[0.0], [3.1]])])[0]
    np.testing.assert_allclose(line, np.linspace(0, 3.1, 32))
    mean, deviation, *_, first, last, change, length = summary([np.array([[1.0], [2], [6]])])[0]
    assert (mean, first, last, change) == (3, 1, 6, 2.5) and length == pytest.approx(np.log(3))
    assert deviation == pytest.approx(np.std([1, 2, 6]))
