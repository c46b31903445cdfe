"""A user's own cells in every task that takes a cell, from Python and by the command line."""

import re
import subprocess
import sys

import pytest
import torch
from helpers.own_cells import OWN

import carousel
from carousel.cells import registry as spec_registry
from carousel.cli import main as cli
from carousel.tasks.shared.cell import cell_name

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
    again = carousel.load(tmp_path / "run", cells=own_cell)
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
    line = "the cell 'mgu' is not known here; give cell='FILE.py:CLASS', or import its module first"
    with pytest.raises(carousel.CarouselError, match=line):
        carousel.train("lm", TEXTS, out=tmp_path / "run", cell="mgu")


@pytest.mark.parametrize(
    ("place", "line"),
    [
        ("cells.py", r"cells\.py: its class is missing; give cells\.py:Mine$"),
        ("cells.py:Plain", r"cells\.py: Plain is not a carousel\.Cell; give a class that is one$"),
        ("cells.py:Min", r"cells\.py: it defines no Min; did you mean Mine\?$"),
        ("other.py:Mine", r"other\.py: no such file|no such file"),
        (dict, "<class 'dict'> is not a carousel.Cell; give a class that is one$"),
    ],
)
def test_what_is_no_cell(tmp_path, monkeypatch, place, line):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cells.py").write_text(
        "from carousel import Cell\nclass Plain: pass\nclass Mine(Cell):\n    gates = ('f',)\n"
    )
    with pytest.raises((carousel.CarouselError, FileNotFoundError), match=line):
        carousel.train("lm", TEXTS, out=tmp_path / "run", cell=place)


def test_a_cell_without_a_name_has_that_of_its_class(tmp_path, monkeypatch):
    registry = sys.modules["carousel.cells.spec"]._registry
    monkeypatch.setattr(sys.modules["carousel.cells.spec"], "_registry", dict(registry))
    (tmp_path / "cells.py").write_text(CELL.replace(', name="mgu"', "") + "class LSTM(MGU):\n    pass\n")
    assert cell_name(f"{tmp_path / 'cells.py'}:MGU") == "mgu" == cell_name("mgu")
    with pytest.raises(ValueError, match="the cell LSTM has no name, and lstm is that of another; write class LSTM"):
        cell_name(f"{tmp_path / 'cells.py'}:LSTM")


def test_a_slow_cell_is_told(tmp_path, monkeypatch, capfd):
    """Which a branch on its values makes it; a cell that is a program trains without a word."""
    monkeypatch.setattr(sys.modules["carousel.cells.spec"], "_registry", dict(spec_registry()))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    slow = CELL.replace(', name="mgu"', "").replace(
        "        n = let", "        f = f if f.mean() < 9 else -f\n        n = let"
    )
    for text, count in ((slow, 1), (CELL.replace('name="mgu"', 'name="fast"'), 0)):
        (tmp_path / f"cells{count}.py").write_text(text)
        small = {**WORDS, "quiet": False, "cell": f"{tmp_path}/cells{count}.py:MGU"}
        carousel.train("lm", TEXTS, out=tmp_path / f"run{count}", **small)
        said = " ".join("".join(capfd.readouterr()).split())
        assert said.count("runs on the path reference, several times slower") == count
        assert (f"(cells{count}.py, line 12)" in said) == bool(count)


STEP = "f = let('f', torch.sigmoid(x.f + w.U(state[0], 'f')))"
MISTAKES = {
    "no such gate": ("return (x.g,)", r"cells\.py:6: there is no gate g; the gates are f, n"),
    "no such recurrence": (
        "return (w.U(state[0]).q,)",
        r"cells\.py:6: there is no gate q; the gates with a recurrence",
    ),
    "an exception": ("raise KeyError('q')", r"cells\.py:6: KeyError: 'q'"),
    "another shape": (f"{STEP}; return (f[:, :2],)", r"A\.step returned h of shape \(\d+, 2\) from one of"),
    "a tensor": (f"{STEP}; return f", r"A\.step must return a tuple with every state, \('h',\), got Tensor"),
    "too few": ("return ()", r"A\.step must return a tuple with every state, \('h',\), got a tuple of 0"),
    "nothing": ("pass", r"A\.step must return a tuple with every state, \('h',\), got NoneType"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_in_a_cell_are_those_of_its_file(tmp_path, monkeypatch, capsys, name):
    body, line = MISTAKES[name]
    monkeypatch.setattr(sys.modules["carousel.cells.spec"], "_registry", dict(spec_registry()))
    monkeypatch.chdir(tmp_path)
    head = "import torch\nfrom carousel import Cell\nclass A(Cell):\n    gates = ('f', 'n')\n"
    (tmp_path / "cells.py").write_text(f"{head}    def step(self, x, state, w, let):\n        {body}\n")
    (tmp_path / "text.txt").write_text("abba\nbaab\n" * 5)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(SystemExit) as stop:
        cli.main(["train", "lm", "text.txt", "--out", "run", "--cell", "cells.py:A", "--hidden", "4", "--quiet"])
    told = capsys.readouterr().err
    assert stop.value.code == 1
    assert re.match(f"error: {line}", told), told
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("declared", "line"), [("parameters", "has no weight_ih"), ("step", "must define step")])
def test_what_a_cell_must_have(declared, line):
    own = {"parameters": lambda self, sizes: {"a": (3,)}} if declared == "parameters" else {}
    cell = type("Bare", (carousel.Cell,), {"gates": ("f",), **own})
    with pytest.raises(TypeError, match=line) as error:
        carousel.Recurrent(cell(), 2, 3)(torch.zeros(1, 1, 2))
    assert isinstance(error.value, carousel.CarouselError)
