"""Metrics of the classifier, against scikit-learn and by hand."""

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score, mean_absolute_error, mean_squared_error, r2_score

from carousel.metrics import expected_calibration_error
from carousel.tasks.classify.metrics import LabelScores, NumberErrors
from carousel.tasks.classify.targets import Target


class _Scores:
    """A network that has said all there is to say."""

    def __init__(self, scores, **attributes):
        self.said = scores
        self.__dict__.update(attributes)

    def scores(self, batch):
        return self.said[batch.rows]


class _Batch:
    def __init__(self, rows, targets):
        self.rows, self.targets = rows, targets


def test_f1_of_labels_is_that_of_scikit_learn():
    torch.manual_seed(3)
    scores, gold = torch.randn(50, 4), (torch.rand(50, 4) < 0.3).float()
    network = _Scores(scores, thresholds=torch.tensor([0.5, 0.3, 0.6, 0.5]), labels=list("abcd"))
    whole, parts = LabelScores(network, tune=False), [LabelScores(network, tune=False) for _ in range(2)]
    whole.add(_Batch(torch.arange(50), gold))
    for k, part in enumerate(parts):
        part.add(_Batch(torch.arange(50)[25 * k : 25 * k + 25], gold[25 * k : 25 * k + 25]))
    parts[0].merge(parts[1])
    assert parts[0].result() == whole.result()
    chosen = (scores.sigmoid() >= network.thresholds).numpy()
    result = whole.result()
    assert result["micro_f1"] == pytest.approx(f1_score(gold, chosen, average="micro"), abs=1e-6)
    assert result["macro_f1"] == pytest.approx(f1_score(gold, chosen, average="macro"), abs=1e-6)
    assert result["exact"] == pytest.approx(float((chosen == gold.numpy().astype(bool)).all(1).mean()))
    each = f1_score(gold, chosen, average=None)
    assert [one["f1"] for one in whole.labels().values()] == pytest.approx(each.tolist(), abs=1e-6)


def test_thresholds_are_the_best_of_those_tried():
    torch.manual_seed(4)
    scores, gold = torch.randn(60, 3) - 1, (torch.rand(60, 3) < 0.2).float()
    network = _Scores(scores, thresholds=torch.full((3,), 0.5), labels=list("abc"))
    metric = LabelScores(network, tune=True)
    metric.add(_Batch(torch.arange(60), gold))
    metric.result()
    for k in range(3):
        tried = [f1_score(gold[:, k], scores[:, k].sigmoid() >= t) for t in LabelScores.THRESHOLDS.tolist()]
        got = f1_score(gold[:, k], scores[:, k].sigmoid() >= network.thresholds[k])
        assert got == max(tried) > f1_score(gold[:, k], scores[:, k].sigmoid() >= 0.5) - 1e-9


def test_errors_of_numbers_are_those_of_scikit_learn():
    torch.manual_seed(5)
    scores, gold = torch.randn(40, 1), torch.randn(40, 1)
    network = _Scores(scores, target=Target("number", mean=3.0, deviation=2.0))
    metric = NumberErrors(network)
    metric.add(_Batch(torch.arange(40), gold))
    a, b = (gold[:, 0] * 2 + 3).numpy(), (scores[:, 0] * 2 + 3).numpy()
    expected = {
        "r2": r2_score(a, b), "mse": mean_squared_error(a, b), "mae": mean_absolute_error(a, b),
        "pearson": np.corrcoef(a, b)[0, 1],
    }  # fmt: skip
    assert metric.result() == pytest.approx(expected, abs=1e-5)


def test_the_calibration_error_of_a_hand_worked_example():
    """Two bins of ten: 0.55 (2, one right: |0.55 - 0.5| = 0.05) and 0.95 (3, all right: 0.05)."""
    error = expected_calibration_error([0.55, 0.55, 0.95, 0.95, 0.95], [True, False, True, True, True], bins=10)
    assert error == pytest.approx(0.05) and expected_calibration_error([], []) == 0
