"""`carousel lab`: findings on stdout, progress on stderr, pages in a directory, and errors that are one line."""

import functools
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from carousel import lab
from carousel.cli.main import main
from carousel.errors import CarouselError
from carousel.lab import LABS
from carousel.lab.claims import latch
from carousel.lab.latching import Setting

TINY = Setting(relevant=3, irrelevant=10, longest=20, tests=20, hidden=4, batch=8, updates=2)
FILES = {
    f"{name}{ending}" for name in ("accuracy", "gradient", "gate", "unit") for ending in (".svg", ".png")
} | {"index.html", "numbers.json"}  # fmt: skip


@pytest.fixture
def carousel(monkeypatch, capsys):
    """Runs the command with a tiny budget for the latch: exit code, stdout, stderr."""
    run = latch.run

    @functools.wraps(run)  # options come from its signature
    def tiny(setting, seeds, bar):
        return run(replace(TINY, seed=setting.seed), seeds=1, bar=bar)

    monkeypatch.setattr(latch, "run", tiny)

    def call(*args):
        args = list(map(str, args))
        monkeypatch.setattr("sys.argv", ["carousel", *args])
        with pytest.raises(SystemExit) as end:
            main(args)
        return end.value.code, *capsys.readouterr()

    return call


def test_the_list_names_every_command(carousel):
    code, out, _ = carousel("lab", "list")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == list(LABS)
    for name in LABS:
        assert carousel("lab", name, "--help")[0] == 0


@pytest.mark.parametrize("args", [["lab", "--", "jacobian"], ["--", "lab", "jacobian"]])
def test_two_dashes_before_a_name(carousel, args):
    assert carousel(*args)[1] != ""


def test_a_lab_is_one_file(carousel, monkeypatch, tmp_path):
    """The example of the documentation, as the only file that is added."""
    page = (Path(__file__).parents[2] / "docs" / "lab.md").read_text("utf-8")
    source = page.partition("## A lab of your own")[2].partition("```python\n")[2].partition("```")[0]
    (tmp_path / "square_roots.py").write_text(source.partition("\nresult = ")[0], "utf-8")
    monkeypatch.setattr(lab.claims, "__path__", [*lab.claims.__path__, str(tmp_path)])
    lab._labs.cache_clear()
    try:
        listed = [line.split(maxsplit=1) for line in carousel("lab", "list")[1].splitlines()]
        assert ["square-roots", "Squares: whether one of them is negative."] in listed
        assert "Squares: whether" in carousel("lab", "--help")[1]
        code, out, _ = carousel("lab", "square-roots", "--count", 2, "--seed", 1, "--out", tmp_path / "page")
        assert (code, out.splitlines()[:2]) == (0, ["x      square", "-0.50    0.25"])
        assert (tmp_path / "page" / "squares.png").is_file()
        assert carousel("lab", "square-roots", "--count", 0)[0] == 2  # fewer than the signature allows
        assert carousel("lab", "square-roots", "--low", "1")[0] == 2  # Python's only
        assert "square_roots" in dir(lab) and lab.square_roots(1, seeds=1).numbers()["squares"] == [[4.0]]
    finally:
        lab._labs.cache_clear()
        sys.modules.pop("carousel.lab.claims.square_roots", None)


def test_help_does_not_wait_for_torch():
    """Nor does it import a lab."""
    code = "import sys; from carousel.cli.main import main\ntry: main(['lab', '--help'])\nexcept SystemExit: pass\n"
    code += "assert 'torch' not in sys.modules and 'carousel.lab.claims.bleu' not in sys.modules"
    assert (
        "n-gram by n-gram"
        in subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, encoding="utf-8").stdout
    )


@pytest.mark.slow
def test_the_latch_writes_its_page_and_prints_a_table(carousel, tmp_path):
    code, out, err = carousel("lab", "latch", "--out", tmp_path / "latch", "--seed", 5)
    page = tmp_path / "latch" / "index.html"
    assert code == 0
    assert out.splitlines()[-1] == str(page)
    assert {p.name for p in page.parent.iterdir()} == FILES
    html = page.read_text("utf-8")
    assert f"<code>carousel lab latch --out {tmp_path}/latch --seed 5</code>" in html
    assert all(f'id="figure-{k}"' in html for k in (1, 2, 3, 4))
    numbers = json.loads((page.parent / "numbers.json").read_text("utf-8"))
    assert [len(o["training_accuracy"]) for o in numbers["outcomes"]] == [2] * 11
    lines = err.splitlines()
    assert len(lines) == 12  # a head, seven cells, four for comparison
    assert lines[2].startswith("LSTM ")
    assert "\x1b" not in out + err
    assert "\r" not in out + err


def test_bleu_of_ones_own_sentence(carousel):
    code, out, err = carousel("lab", "bleu", "ein mann geht", "ein mann läuft", "ein mann geht dort")
    assert (code, err) == (0, "")
    assert "3-grams      1/1" in out
    assert "Not decided by this run. It is about another sentence." in out
    _, out, _ = carousel("lab", "bleu")
    assert "Does not hold as printed. BLEU clips" in out
    _, out, _ = carousel("lab", "bleu", "a b", "a c", "--json")
    assert json.loads(out)["orders"][0]["matched"] == 1


def test_beam_as_json(carousel):
    _, out, _ = carousel("lab", "beam", "--models", 2, "--vocabulary", 3, "--longest", 3, "--json")
    assert json.loads(out)["models"] == 2


def test_what_is_there_survives_a_failure(carousel, tmp_path, monkeypatch):
    (tmp_path / "index.html").write_text("old")
    monkeypatch.setattr(latch, "train", lambda *_: (_ for _ in ()).throw(CarouselError("no luck")))
    code, out, err = carousel("lab", "latch", "--quiet", "--out", tmp_path)
    assert (code, out, err) == (1, "", "error: no luck\n")
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("index.html", "old")]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A language model, trained for a moment."""
    from carousel.tasks.lm.settings import LanguageSettings
    from carousel.tasks.lm.task import LanguageTask
    from carousel.training.trainer import train

    folder = tmp_path_factory.mktemp("lm")
    (folder / "train.txt").write_text("abcabcabc\nbcbcbcabc\ncababcab\n" * 4, "utf-8")
    small = {"hidden": 4, "embedding": 3, "epochs": 1, "cache": folder / "cache", "threads": 1}
    settings = LanguageSettings.read({"train": folder / "train.txt", **small})
    train(LanguageTask, settings, folder / "run", quiet=True, report=False)
    return folder / "run"


def test_a_run_is_looked_into(carousel, run, tmp_path):
    code, out, _ = carousel("lab", "vanishing", "--steps", 12, "--hidden", 3, "--run", run)
    assert code == 0
    assert "layers of the model" in out
    assert "the model remembers a changed input" in out
    other = tmp_path / "other.txt"
    other.write_text("cbacbacba\n", "utf-8")
    _, out, _ = carousel("lab", "forget-argmax", "--samples", 10, "--run", run, "--data", other, "--json")
    numbers = json.loads(out)
    assert numbers["source"] == f"the longest sequence of {other}"
    assert [use["gate"] for use in numbers["gates"]] == ["i", "f", "o"]
    _, out, _ = carousel("lab", "jacobian", "--run", run)
    assert "largest |λ|" in out


@pytest.mark.parametrize("given", [["--run", "nowhere"], ["--data", "nowhere.txt"]], ids=["run", "data"])
def test_a_run_or_file_that_is_not_there_is_one_line(carousel, run, given):
    code, out, err = carousel("lab", "jacobian", *([] if "--run" in given else ["--run", run]), *given)
    assert (code != 0, out) == (True, "")
    assert len(err.splitlines()) == 1
    assert "nowhere" in err


@pytest.mark.parametrize("out", ["file", "file/below"])
def test_a_place_that_cannot_be_used_is_one_line_and_exit_2(carousel, tmp_path, out):
    (tmp_path / "file").write_text("mine")
    code, stdout, err = carousel("lab", "latch", "--out", tmp_path / out)
    assert (code, stdout) == (2, "")
    assert len(err.splitlines()) == 1
    assert err.startswith("error: ")
    assert "file" in err
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(
    ("args", "named"),
    [
        (["latch", "--seed", "-1"], "--seed"),
        (["latch", "--speed", "1"], "--speed"),
        (["bleu", "a translation"], "REFERENCE"),
        (["beam", "--models", "0"], "--models"),
        (["blue"], "blue"),
        (["jacobian", "--data", "dev.txt"], "--run"),
        (["jacobian", "--cell", "mine.py:Cell"], "--run"),
        (["optimizers", "--seeds", "0"], "--seeds"),
    ],
    ids=lambda part: " ".join(part) if isinstance(part, list) else part,
)
def test_a_wrong_option_is_one_line_and_exit_2(carousel, args, named):
    code, out, err = carousel("lab", *args)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert named in err
