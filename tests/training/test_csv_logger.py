"""The log of a run, and what it measured."""

import csv

import pytest
from helpers.tiny import Killed, fit, kill_at, language

from carousel.training.csv_logger import CSVLogger, read_metrics


@pytest.mark.parametrize("damage", ["cut", "empty", "missing"])
def test_a_log_that_lost_its_end_is_restored(tmp_path, damage):
    settings = language(tmp_path, checkpoint_minutes=0)
    whole = fit(settings, tmp_path / "whole")
    with pytest.MonkeyPatch.context() as patch:
        kill_at(patch, "batch", 1, 2)
        with pytest.raises(Killed):
            fit(settings, tmp_path / "run")
    log = tmp_path / "run" / "metrics.csv"
    match damage:
        case "cut":
            log.write_bytes(log.read_bytes()[:-9])
        case "empty":
            log.write_bytes(b"")
        case "missing":
            log.unlink()
    run = fit(settings, tmp_path / "run", resume=True)
    assert run.metrics.read_text() == whole.metrics.read_text()


def test_rows_as_the_csv_module_reads_them(tmp_path):
    log = CSVLogger(tmp_path / "metrics.csv", ["lr", "loss"])
    log.begin()
    log.log_metrics({"epoch": 1, "loss": 0.123456789}, step=3)
    log.log_metrics({"epoch": 1, "lr": 1e-5}, step=4)
    with open(log.path, newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows == [
        {"step": "3", "epoch": "1", "lr": "", "loss": "0.123457"},
        {"step": "4", "epoch": "1", "lr": "1e-05", "loss": ""},
    ]
    assert read_metrics(log.path) == [{"step": 3, "epoch": 1, "loss": 0.123457}, {"step": 4, "epoch": 1, "lr": 1e-5}]
    before = log.text
    log.log_metrics({"epoch": 2}, step=5)
    log.restore(before)
    assert log.path.read_text() == before


def test_an_unknown_column_is_an_error(tmp_path):
    log = CSVLogger(tmp_path / "metrics.csv", ["loss"])
    log.begin()
    with pytest.raises(ValueError, match=r"metrics\.csv has no column \['bleu'\]; it has \['step', 'epoch', 'loss'\]"):
        log.log_metrics({"bleu": 1.0}, step=1)
    assert read_metrics(log.path) == []
