"""Members of an ensemble: loaded as one, and their mean and standard deviation."""

import statistics

import pytest
import torch
from helpers.ensembles import LABELS, TEXTS, WORDS

import carousel
from carousel.tasks import find
from carousel.training import Run
from carousel.training.members import load_members, mean_and_deviation


def test_each_has_the_weights_of_its_own_run(tmp_path):
    data, settings = list(zip(TEXTS, LABELS, strict=True)), {**WORDS, "epochs": 1, "cache": tmp_path / "cache"}
    model = carousel.train("classify", data, out=tmp_path / "run", seeds=2, **settings)
    both = load_members(Run(tmp_path / "run"), find("classify"), model.settings, model.assets)
    assert not both.training
    for number, member in enumerate(both.members, 1):
        own = carousel.load(tmp_path / "run" / "members" / str(number)).network
        assert all(torch.equal(a, b) for a, b in zip(member.parameters(), own.parameters(), strict=True))


def test_mean_and_deviation_of_a_sample():
    values = [0.1, 0.4, 0.7, 0.4]
    mean = sum(values) / 4
    deviation = (sum((v - mean) ** 2 for v in values) / 3) ** 0.5
    assert mean_and_deviation(values) == pytest.approx({"mean": mean, "sd": deviation})
    with pytest.raises(statistics.StatisticsError):
        mean_and_deviation([1.0])
