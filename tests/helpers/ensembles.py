"""Small ensembles of every task that has them."""

import json
import math
import statistics

import numpy as np
import pytest
import torch

import carousel

SMALL = {"threads": 1, "quiet": True, "report": False, "hidden": 4, "epochs": 2, "lr": 0.05}
WORDS = {**SMALL, "embedding": 4, "min_frequency": 1, "batch_size": 8}
TEXTS = [f"{a} {b} film" for a in ("fine", "warm", "dull", "flat") for b in ("so", "very", "a", "the", "this", "that")]
LABELS = ["good" if text < "fl" or text > "w" else "bad" for text in TEXTS]
TAGS = [[(word, "B-X" if word in ("fine", "warm") else "O") for word in text.split()] for text in TEXTS]
PARTS = [[(word, "ND"[len(word) > 3]) for word in text.split()] for text in TEXTS]
CASES = {
    "classify": ("classify", [(text, "xy"[(k + k // 6) % 2]) for k, text in enumerate(TEXTS)], WORDS),
    "classify alone": ("classify", list(zip(TEXTS, LABELS, strict=True)), {**WORDS, "linear": False}),
    "crf": ("tag", TAGS, WORDS),
    "softmax": ("tag", PARTS, WORDS),
    "classes": ("encode", [(text, text[::-1], label) for text, label in zip(TEXTS, LABELS, strict=True)], WORDS),
    "scores": ("encode", [(text, text[::-1], float(k % 5)) for k, text in enumerate(TEXTS)], WORDS),
    "tree": (
        "tree", [f"({k % 2} ({k % 3} {t.split()[0]}) ({k % 2} {t.split()[1]}))" for k, t in enumerate(TEXTS)], WORDS,
    ),
    "forecast": (
        "forecast", [math.sin(k) + 0.1 * k for k in range(60)], {**SMALL, "season": 4, "horizon": 2, "linear": False},
    ),
}  # fmt: skip


def probabilities(case, model, item):
    """What a model says of an item, as an array of which that of the ensemble is the mean."""
    if case in ("classify", "classify alone"):
        return list(model.predict(item[0]).probabilities.values())
    if case in ("classes", "scores"):
        one = model.predict(*item[:2])
        return [one.score] if case == "scores" else list(one.probabilities.values())
    if case == "tree":
        return model.predict(item).probabilities.numpy()
    if case == "softmax":
        batch = model.batch_of([[word for word, _ in item]])
        return model.network.emissions(batch).exp().numpy()
    return model.predict(CASES["forecast"][1]).median


def check_mean(ensemble):
    """A prediction is the mean of the predictions of the members."""
    case, data, model, run = ensemble
    members = [carousel.load(run / "members" / str(k)) for k in (1, 2, 3)]
    assert [member.settings.seed for member in members] == [5, 6, 7]
    with torch.no_grad():
        each = [np.array(probabilities(case, member, data[0])) for member in members]
        got = np.array(probabilities(case, model, data[0]))
    assert not np.allclose(each[0], each[1], atol=1e-4)
    np.testing.assert_allclose(got, np.mean(each, 0), atol=3e-6)
    assert len(model.members) == 3 and model.size == 3 * members[0].size and "ensemble of 3" in repr(model)


def check_spread(ensemble):
    """The evaluation has the spread of the members."""
    case, data, model, run = ensemble
    if case == "forecast":
        data = run / "data" / "train.csv"
    result = carousel.evaluate(model, data)
    each = [carousel.evaluate(member, data) for member in model.members]
    metric = model.network.metric().best
    values = [one[metric] for one in each]
    assert result["members"][metric] == {"mean": statistics.mean(values), "sd": statistics.stdev(values)}
    assert "members" not in each[0]
    kept = json.loads((run / "result.json").read_text())
    assert [one["seed"] for one in kept["members"]] == [5, 6, 7] and kept["seeds"] == 3
    assert kept[f"members_dev_{metric}"]["mean"] == pytest.approx(
        statistics.mean(one[f"dev_{metric}"] for one in kept["members"])
    )
