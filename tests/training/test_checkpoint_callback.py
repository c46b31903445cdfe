"""Which epoch is kept, when a run stops by itself, and what the mean of the weights is; all worked out by hand."""

import json

import pytest
import torch
from helpers.stub import Stub, StubSettings, register, sgd
from helpers.tiny import PLAIN, Killed, fit, kill_at
from safetensors.torch import load_file

from carousel import load
from carousel.errors import SettingsError
from carousel.training import Run
from carousel.training.csv_logger import read_metrics
from carousel.training.network import Network

LR = 0.1


def settings(**given):
    return StubSettings.read({**PLAIN, "optimizer": "sgd", "lr": LR, "clip": 0, "threads": 1, "log_steps": 1, **given})


def kept(run):
    """The weight in model.safetensors."""
    found = load_file(run.weights)["weight"]
    assert found.unique().numel() == 1
    return float(found[0])


def after_epoch(epoch, values=None):
    steps = values or sgd(Stub.targets, epoch, LR)
    return pytest.approx(steps[3 * epoch - 1], rel=1e-6)


@pytest.mark.parametrize(
    "metrics, lower, best",
    [
        ((5.0, 3.0, 4.0, 3.5), True, 2),
        ((5.0, 3.0, 4.0, 2.5), True, 4),
        ((5.0, 3.0, 4.0, 2.5), False, 1),
        ((0.1, 0.4, 0.9, 0.2), False, 3),
        ((2.0, 2.0, 2.0, 2.0), True, 1),  # of equals, the first
    ],
)
def test_the_best_epoch_is_kept(tmp_path, monkeypatch, metrics, lower, best):
    task = register(monkeypatch, metrics=metrics, lower_is_better=lower)
    run = fit(settings(epochs=4), tmp_path / "run", task)
    assert kept(run) == after_epoch(best)
    assert run.weights_info() == {"epoch": best, "dev_luck": metrics[best - 1]}
    assert (run.result["best_epoch"], run.result["dev_luck"]) == (best, metrics[best - 1])
    assert [row["dev_luck"] for row in read_metrics(run.metrics) if "dev_luck" in row] == list(metrics)
    assert load(run.folder).network.weight[0].item() == after_epoch(best)


@pytest.mark.parametrize("losses, best", [((3.0, 1.0, 2.0), 2), ((1.0, 1.0, 1.0), 1), ((3.0, 2.0, 1.0), 3)])
def test_ties_are_broken_by_the_loss(tmp_path, monkeypatch, capsys, losses, best):
    task = register(monkeypatch, metrics=(0.0,) * 3, lower_is_better=False, losses=losses)
    run = fit(settings(epochs=3), tmp_path / "run", task, quiet=False)
    assert kept(run) == after_epoch(best)
    assert run.result["best_epoch"] == best
    log = capsys.readouterr().err
    tie = f"; epoch {best} is best by loss alone" if best > 1 else ""
    assert f"dev luck never improved on 0, its value after the first epoch{tie}; try another lr" in log
    marks = [line.partition(" min")[2].strip() for line in log.splitlines() if line.startswith("epoch")]
    lower = [k > 0 and loss < min(losses[:k]) for k, loss in enumerate(losses)]
    assert marks == ["best", *("best by loss" if one else "" for one in lower[1:])]


def test_what_was_chosen_is_logged_and_the_advice_follows(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(Network, "describe_choice", lambda network: ("all of it is linear", True))
    task = register(monkeypatch, metrics=(0.0,) * 3, lower_is_better=False)
    run = fit(settings(epochs=3), tmp_path / "run", task, quiet=False)
    log = capsys.readouterr().err
    assert "epoch 1: all of it is linear\n" in log and run.result["choice"] == "all of it is linear"
    assert "the network adds nothing to it" in log and "another lr" not in log


def test_an_improved_metric_is_not_complained_of(tmp_path, monkeypatch, capsys):
    fit(settings(epochs=3), tmp_path / "run", register(monkeypatch, metrics=(3.0, 2.0, 2.5)), quiet=False)
    assert "never improved" not in capsys.readouterr().err


def test_a_perfect_metric_is_not_complained_of(tmp_path, monkeypatch, capsys):
    task = register(monkeypatch, metrics=(1.0, 1.0, 1.0), lower_is_better=False)
    fit(settings(epochs=3), tmp_path / "run", task, quiet=False)
    assert "never improved" not in capsys.readouterr().err


def test_without_a_dev_set_the_last_epoch_is_kept(tmp_path, monkeypatch):
    run = fit(settings(epochs=3), tmp_path / "run", register(monkeypatch))
    assert kept(run) == after_epoch(3)
    assert (run.result["dev_luck"], run.result["best_epoch"]) == (None, 3)


@pytest.mark.parametrize(
    "metrics, patience, epochs, best",
    [
        ((5, 4, 6, 7, 3, 2, 1), 2, 4, 2),
        ((5, 4, 6, 7, 3, 2, 1), 3, 7, 7),
        ((5, 6, 1, 1, 1, 1, 1), 1, 2, 1),
        ((7, 6, 5, 4, 3, 2, 1), 1, 7, 7),
        ((5, 6, 4, 5, 3, 4, 4), 2, 7, 5),
    ],
)
def test_patience(tmp_path, monkeypatch, capsys, metrics, patience, epochs, best):
    task = register(monkeypatch, metrics=tuple(map(float, metrics)))
    run = fit(settings(epochs=7, patience=patience), tmp_path / "run", task)
    assert (run.result["epochs"], run.result["steps"], run.result["best_epoch"]) == (epochs, 3 * epochs, best)
    assert kept(run) == after_epoch(best)


def test_patience_that_has_run_out_stays_so(tmp_path, monkeypatch):
    """Killed after the decision to stop, a run does not train on when it is taken up."""
    task = register(monkeypatch, metrics=(1.0, 2.0, 0.5, 0.4))
    given = settings(epochs=4, patience=1)
    with pytest.MonkeyPatch.context() as patch:
        kill_at(patch, "saved", 1)
        with pytest.raises(Killed):
            fit(given, tmp_path / "run", task)
    run = fit(given, tmp_path / "run", task, resume=True)
    assert (run.result["epochs"], run.result["steps"], run.result["best_epoch"]) == (2, 6, 1)
    assert kept(run) == after_epoch(1)


@pytest.mark.parametrize("given, name", [({"patience": 2}, "patience"), ({"schedule": "plateau"}, "schedule")])
def test_what_goes_by_the_dev_set_needs_one(tmp_path, monkeypatch, given, name):
    with pytest.raises(SettingsError, match=f"^{name}: .* needs a dev set, and there is none"):
        fit(settings(**given), tmp_path / "run", register(monkeypatch))
    assert not Run(tmp_path / "run").exists


def test_the_mean_of_the_weights(tmp_path, monkeypatch):
    """Evaluated and kept; training itself goes on with its own weights."""
    task = register(monkeypatch, metrics=(3.0, 2.0, 1.0, 0.0))
    run = fit(settings(epochs=4, average=0.6), tmp_path / "run", task)
    own, mean = sgd(Stub.targets, 4, LR), []
    for step, weight in enumerate(own):
        decay = min(0.6, (1 + step) / (10 + step))
        mean.append(weight if not mean else decay * mean[-1] + (1 - decay) * weight)
    seen = [row["dev_weight"] for row in read_metrics(run.metrics) if "dev_weight" in row]
    assert seen == pytest.approx(mean[2::3], rel=1e-5)
    assert kept(run) == pytest.approx(mean[-1], rel=1e-6)
    losses = [row["loss"] for row in read_metrics(run.metrics) if "loss" in row]
    before = [0.0, *own[:-1]]
    assert losses == pytest.approx(
        [1.5 * (w - t) ** 2 for w, t in zip(before, Stub.targets * 4, strict=True)], rel=1e-5
    )


def test_the_mean_of_the_weights_in_the_middle_is_kept_if_it_was_best(tmp_path, monkeypatch):
    task = register(monkeypatch, metrics=(3.0, 1.0, 2.0, 4.0))
    run = fit(settings(epochs=4, average=0.3), tmp_path / "run", task)
    seen = [row["dev_weight"] for row in read_metrics(run.metrics) if "dev_weight" in row]
    assert kept(run) == pytest.approx(seen[1], rel=1e-5)


def test_plateau_halves_the_rate_whenever_the_metric_gets_no_better(tmp_path, monkeypatch):
    task = register(monkeypatch, metrics=(5.0, 6.0, 4.0, 4.0, 3.0), lower_is_better=True)
    run = fit(settings(epochs=5, schedule="plateau", decay=0.5), tmp_path / "run", task)
    weight, lr, best = 0.0, LR, float("inf")
    for metric in task.metrics:
        for target in Stub.targets:
            weight -= lr * (weight - target)
        if metric >= best:
            lr /= 2
        best = min(best, metric)
    assert kept(run) == pytest.approx(weight, rel=1e-6)


def test_result_json(tmp_path, monkeypatch):
    run = fit(settings(epochs=2, seed=5), tmp_path / "run", register(monkeypatch, metrics=(1.0, 2.0)))
    found = json.loads((tmp_path / "run" / "result.json").read_text("utf-8"))
    assert found == run.result
    expected = {"task": "stub", "metric": "luck", "epochs": 2, "steps": 6, "parameters": 3, "seed": 5}
    assert {name: found[name] for name in expected} == expected


def test_a_metric_that_is_no_number_is_never_the_best(tmp_path, monkeypatch):
    task = register(monkeypatch, metrics=(float("nan"), 2.0, float("nan"), 3.0))
    run = fit(settings(epochs=4), tmp_path / "run", task)
    assert kept(run) == after_epoch(2)


def test_the_state_of_the_world_is_restored(tmp_path, monkeypatch):
    before = torch.get_num_threads()
    fit(settings(epochs=1, threads=2), tmp_path / "run", register(monkeypatch))
    assert torch.get_num_threads() == before


def test_the_log_has_the_learning_rate_that_a_step_was_made_with(tmp_path, monkeypatch):
    run = fit(settings(epochs=2, schedule="step", decay=0.5), tmp_path / "run", register(monkeypatch))
    assert [row["lr"] for row in read_metrics(run.metrics) if "lr" in row] == pytest.approx([LR] * 3 + [LR / 2] * 3)
