"""What every test relies on: a fixed number of threads, fixed seeds, and in CI the same hypothesis examples everywhere.

Two variables choose what the tests run on: CAROUSEL_TEST_THREADS, the number of threads (default: 1), and CAROUSEL_ISA,
the instruction set of the kernels (default: the best that the processor has).
"""

import os
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from carousel.ops import backend
from carousel.training import trainer

settings.register_profile("local", deadline=None, max_examples=25)
settings.register_profile("ci", settings.get_profile("local"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


def pytest_configure():
    given = os.environ.get("CAROUSEL_TEST_THREADS", "1")
    if not given.isdecimal() or int(given) < 1:
        raise pytest.UsageError(f"CAROUSEL_TEST_THREADS={given}: give a whole number from 1 up")
    torch.set_num_threads(int(given))
    os.environ["OMP_NUM_THREADS"] = given  # of the processes that tests start


def pytest_report_header():
    return f"carousel: kernels {backend.isa() or 'missing'}, threads {torch.get_num_threads()}"


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        if item.path.relative_to(here).parts[0] in ("ops", "layers", "decoding"):
            item.add_marker("native")


@pytest.fixture
def text_file(tmp_path):
    """Write text to a file and return its path."""

    def write(text, name="text.txt"):
        path = tmp_path / name
        path.write_text(text, "utf-8")
        return path

    return write


@pytest.fixture
def carousel(capsys):
    """Runs the command `carousel …`: exit code, stdout, stderr."""
    from carousel.cli.main import main

    def run(*args):
        with pytest.raises(SystemExit) as end:
            main(list(map(str, args)))
        return end.value.code, *capsys.readouterr()

    return run


@pytest.fixture
def reached(request):
    """`reached(what, value, above=…)` or `below=…`: asserts what a model has learned; the summary lists the margins."""

    def check(what, value, *, above=None, below=None):
        bound = above if below is None else below
        request.node.user_properties.append(
            ("margin", f"{what} {value:.4g}, must be {'>' if below is None else '<'} {bound:g}")
        )
        assert value > bound if below is None else value < bound, what

    return check


def pytest_terminal_summary(terminalreporter, config):
    """What learning tests reached beside what they require, if they were chosen (`pytest -m learning`)."""
    if "learning" not in config.option.markexpr:
        return
    for report in terminalreporter.stats.get("passed", []) + terminalreporter.stats.get("failed", []):
        for name, text in report.user_properties if report.when == "call" else ():
            if name == "margin":
                terminalreporter.write_line(f"{report.nodeid}: {text}")


@pytest.fixture(scope="session", autouse=True)
def without_baselines():
    """Runs of the tests have no baselines, which take longer than tiny models; `with_baselines` brings them back."""
    fit = trainer.find_baselines
    trainer.find_baselines = lambda *args: None
    yield fit
    trainer.find_baselines = fit


@pytest.fixture
def with_baselines(without_baselines, monkeypatch):
    """Runs have baselines, as those of users have."""
    monkeypatch.setattr(trainer, "find_baselines", without_baselines)


@pytest.fixture(autouse=True)
def seed():
    """The same random numbers for every test; and no test may leave gradients off."""
    torch.manual_seed(0)
    yield
    on = torch.is_grad_enabled()
    torch.set_grad_enabled(True)
    assert on, "left gradients off"
