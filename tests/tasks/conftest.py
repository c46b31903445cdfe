"""What several tests ask alike: the command line, whether a run that was killed goes on, and some series."""

import io
import math
import sys

import numpy as np
import pytest
from helpers import ensembles

import carousel
from carousel.cli import main as cli
from carousel.tasks.forecast.settings import ForecastSettings
from carousel.training import trainer
from carousel.training.module import Module


@pytest.fixture
def command(capsys, monkeypatch):
    """Run `carousel …`: exit code, standard output, standard error."""

    def run(*args, given=""):
        given = given.encode() if isinstance(given, str) else given
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        with pytest.raises(SystemExit) as stop:
            cli.main([str(arg) for arg in args])
        return stop.value.code or 0, *capsys.readouterr()

    return run


TEXTS = ["a fine film", "dull", "what a day"]
SMALL = {"epochs": 1, "threads": 1, "quiet": True, "report": False, "hidden": 4, "embedding": 4}
CASES = {
    "lm": (TEXTS, {**SMALL, "tokens": "word", "min_frequency": 1}, "a fine day", ["[START]", "a", "fine", "day"]),
    "bilm": (TEXTS, {**SMALL, "min_frequency": 1}, "a fine day", ["[START]", "a", "fine", "day"]),
    "classify": ([(text, str(len(text) % 2)) for text in TEXTS], SMALL, "a fine day", ["a", "fine", "day"]),
    "tag": (
        [[(word, "ND"[len(word) > 2]) for word in text.split()] for text in TEXTS],
        {**SMALL, "min_frequency": 1}, "a fine day", ["a", "fine", "day"],
    ),
    "encode": (
        [(text, text[::-1], float(k)) for k, text in enumerate(TEXTS)], SMALL, "a fine day", ["a", "fine", "day"],
    ),
    "translate": ([(text, text[::-1]) for text in TEXTS], {**SMALL, "tokens": "character"}, "a d", ["a", "▁", "d"]),
}  # fmt: skip


@pytest.fixture(scope="session", params=CASES)
def small_model(request, tmp_path_factory):
    """A model of each task that reads text, one text, and the tokens that its layers read of it."""
    folder = tmp_path_factory.mktemp("trace")
    data, settings, item, tokens = CASES[request.param]
    model = carousel.train(request.param, data, out=folder / "run", cache=folder / "cache", **settings)
    return model, item, tokens


class Killed(BaseException):
    pass


@pytest.fixture
def goes_on(tmp_path, monkeypatch):
    """Train twice, once killed before batch `index` of the second epoch and resumed: the same bytes, the same log."""

    def check(task, settings, index=5):
        def train(name, **how):
            return trainer.train(task, settings, tmp_path / name, quiet=True, report=False, **how)

        step = Module.training_step

        def dying(self, batch, number):
            if (self.current_epoch, number) == (1, index):
                raise Killed
            return step(self, batch, number)

        whole = train("whole")
        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(Module, "training_step", dying)
            train("stopped")
        resumed = train("stopped", resume=True)
        assert resumed.weights.read_bytes() == whole.weights.read_bytes()
        assert resumed.metrics.read_text() == whole.metrics.read_text()

    return check


def write_series(path, rows=120, variables=("x",), noise=0.05, seed=0):
    """Months with a trend, a season of 12 and some noise."""
    draw = np.random.default_rng(seed)
    lines = ["month," + ",".join(variables)]
    for t in range(rows):
        cells = [10 + 0.05 * t + (1 + k) * math.sin(2 * math.pi * t / 12) + noise * draw.standard_normal()
                 for k in range(len(variables))]  # fmt: skip
        lines.append(f"{1990 + t // 12}-{t % 12 + 1:02d}," + ",".join(f"{c:.4f}" for c in cells))
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="session")
def flights(tmp_path_factory):
    folder = tmp_path_factory.mktemp("flights")
    write_series(folder / "one.csv")
    write_series(folder / "two.csv", variables=("x", "y"))
    return folder


@pytest.fixture
def forecast_settings(flights):
    def make(**given):
        small = {"hidden": 6, "epochs": 2, "lr": 0.01, "batch_size": 16, "horizon": 4, "dropout": 0.0}
        return ForecastSettings.read({"train": flights / "two.csv", **small, **given})

    return make


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """Caches lie in the directory of the test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))


@pytest.fixture(scope="module")
def ensemble(request, tmp_path_factory):
    """The name of a case, its data, a model of three, and where it is."""
    folder = tmp_path_factory.mktemp("ensemble")
    task, data, settings = ensembles.CASES[request.param]
    settings = settings if task == "forecast" else {**settings, "cache": folder / "cache"}
    model = carousel.train(task, data, out=folder / "run", seeds=3, seed=5, **settings)
    return request.param, data, model, folder / "run"
