"""A user's own cells in every task that takes a cell, from Python and by the command line."""

import subprocess
import sys

import pytest
from helpers.own_cells import OWN

import carousel
from carousel.cli import main as cli

TEXTS = ["a fine film", "dull", "what a day", "the film was dull"]
SMALL = {"epochs": 1, "threads": 1, "quiet": True, "report": False, "hidden": 4}
WORDS = {**SMALL, "embedding": 4}
CASES = {
    "lm": (TEXTS, WORDS, lambda model: model.generate("a", num_beams=2, max_length=5).text),
    "bilm": (TEXTS, {**WORDS, "min_frequency": 1}, lambda model: model.embed("a film")),
    "classify": ([(text, str(len(text) % 2)) for text in TEXTS], WORDS, lambda model: model.predict("a film").label),
    "tag": (
        [[(word, "ND"[len(word) > 2]) for word in text.split()] for text in TEXTS],
        {**WORDS, "min_frequency": 1}, lambda model: model.predict("a film").tags,
    ),
    "encode": (
        [(text, text[::-1], float(k)) for k, text in enumerate(TEXTS)], WORDS, lambda model: model.predict("a", "b"),
    ),
    "translate": (
        [(text, text[::-1]) for text in TEXTS], {**WORDS, "tokens": "character"},
        lambda model: model.translate("a film", max_length=6).text,
    ),
    "forecast": ([float(k % 12) for k in range(60)], {**SMALL, "horizon": 2, "context": 6},
                 lambda model: model.predict([float(k % 12) for k in range(60)])),
}  # fmt: skip


@pytest.fixture(params=OWN)
def own_cell(request):
    """One of the cells, registered for the test."""
    cls, _ = OWN[request.param]
    cell = type(cls.__name__, (cls,), {"__module__": __name__}, name=request.param)
    yield cell
    registry_of = sys.modules["carousel.cells.spec"]._registry
    registry_of.pop(request.param)


@pytest.mark.parametrize("task", CASES)
def test_every_task(own_cell, task, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    data, settings, use = CASES[task]
    model = carousel.train(task, data, out=tmp_path / "run", cell=own_cell, **settings)
    assert model.settings.cell == own_cell.name
    again = carousel.load(tmp_path / "run")
    assert repr(use(again)) == repr(use(model))
    carousel.train(task, out=tmp_path / "run", resume=True, epochs=2, quiet=True, report=False)
    assert model.trace(data if task == "forecast" else "a film").h.shape[-1] == 4


CELL = """
import torch
from carousel import Cell


class MGU(Cell, name="mgu"):
    gates = ("f", "n")

    def step(self, x, state, w, let):
        (h,) = state
        f = let("f", torch.sigmoid(x.f + w.U(h, "f")))
        n = let("n", torch.tanh(x.n + w.U(f * h, "n")))
        return (let("h", (1 - f) * h + f * n),)
"""


def command(folder, *args):
    call = [sys.executable, "-m", "carousel.cli.main", *map(str, args)]
    return subprocess.run(call, cwd=folder, capture_output=True, text=True, timeout=300)


@pytest.mark.slow
def test_a_file_names_a_cell_and_a_run_alone_executes_nothing(tmp_path):
    (tmp_path / "mycell.py").write_text(CELL + "\nopen('executed', 'w')\n")
    (tmp_path / "text.txt").write_text("abba\nbaab\n" * 5)
    small = ["--epochs", 1, "--hidden", 4, "--threads", 1, "--quiet"]
    done = command(tmp_path, "train", "lm", "text.txt", "--out", "run", "--cell", "mycell.py:MGU", *small)
    assert done.returncode == 0, done.stderr
    config = tmp_path / "run" / "config.yaml"
    assert "\ncell: mgu " in config.read_text()
    more = ["train", "lm", "--out", "run", "--resume", "--epochs", 2, "--quiet"]
    done = command(tmp_path, *more, "--cell", "mycell.py:MGU")
    assert done.returncode == 0, done.stderr
    told = command(tmp_path, "eval", "run", "text.txt", "--cell", "mycell.py:MGU")
    assert told.returncode == 0 and "perplexity" in told.stdout, told.stderr
    told = command(tmp_path, "lab", "vanishing", "--steps", 5, "--run", "run", "--cell", "mycell.py:MGU")
    assert told.returncode == 0 and "layers of the model" in told.stdout, told.stderr
    (tmp_path / "executed").unlink()
    told = command(tmp_path, "eval", "run", "text.txt")
    assert told.returncode == 1 and len(told.stderr.splitlines()) == 1
    assert "the cell 'mgu' is not known here; give --cell FILE.py:CLASS, or import its module first" in told.stderr
    config.write_text(config.read_text().replace("cell: mgu ", "cell: mycell.py:MGU "))
    again = ["train", "lm", tmp_path / "text.txt", "--config", config, "--out", tmp_path / "again"]
    for call in (["eval", tmp_path / "run", tmp_path / "text.txt"], [*more[:3], tmp_path / "run", *more[4:]], again):
        with pytest.raises(SystemExit) as stop:
            cli.main([str(part) for part in call])
        assert stop.value.code == 1
    assert not (tmp_path / "executed").exists()


def test_an_unknown_cell(tmp_path):
    with pytest.raises(carousel.CarouselError, match=r"cell: there is no cell 'lsmt'; did you mean lstm\?$"):
        carousel.train("lm", TEXTS, out=tmp_path / "run", cell="lsmt")
    with pytest.raises(carousel.CarouselError, match="has no name; write class"):
        carousel.train("lm", TEXTS, out=tmp_path / "run", cell=OWN["own-matrix"][0])
