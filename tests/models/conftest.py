"""What the tests of every task ask alike: the command line, and whether a run that was killed goes on."""

import io
import sys

import pytest

from carousel.cli import main as cli
from carousel.training import engine
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


class Killed(BaseException):
    pass


@pytest.fixture
def goes_on(tmp_path, monkeypatch):
    """Train twice, once killed before batch `index` of the second epoch and resumed: the same bytes, the same log."""

    def check(task, settings, index=5):
        def train(name, **how):
            return engine.train(task, settings, tmp_path / name, quiet=True, report=False, **how)

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
