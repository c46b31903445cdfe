"""What happens in a step, and what is logged of it."""

import pytest
from helpers.bare_training import PLAIN, prepare
from helpers.tiny import fit, language

from carousel.training.csv_logger import read_metrics


def test_fewer_lines_of_log_are_the_means_of_more(tmp_path):
    every = read_metrics(fit(language(tmp_path, **PLAIN), tmp_path / "every").metrics)
    some = read_metrics(fit(language(tmp_path, **{**PLAIN, "log_steps": 4}), tmp_path / "some").metrics)
    assert [row["step"] for row in some] == [4, 6, 8, 12]
    lines = language(tmp_path)
    _, data = prepare(lines)
    weights = []
    for epoch in range(2):
        data.train.set_epoch(epoch)
        weights += [batch.tokens for batch in data.train]
    first = 0
    for row in some:
        last = int(row["step"])
        total = sum(w * r["loss"] for w, r in zip(weights[first:last], every[first:last], strict=True))
        assert row["loss"] == pytest.approx(total / sum(weights[first:last]), rel=1e-5)
        assert row["gradient"] == max(r["gradient"] for r in every[first:last])
        first = last


def test_evaluating_changes_nothing_of_training(tmp_path):
    """With a dev set or without, the same steps: its state and its noise are its own."""
    for layout in ("lines", "running"):
        given = {"layout": layout, "dropout": 0.3, "log_steps": 1, "batch_size": 3}
        with_dev = fit(language(tmp_path, **given), tmp_path / f"with-{layout}")
        without = fit(language(tmp_path, **given, dev=None), tmp_path / f"without-{layout}")
        losses = [[row["loss"] for row in read_metrics(run.metrics) if "loss" in row] for run in (with_dev, without)]
        assert losses[0] == losses[1]
