"""The demo, with a tiny budget: its files, its figures, its words; and that held-out dates were held out."""

import re

import pytest

import carousel
from carousel import demo
from carousel.cli.main import main

TINY = {"pairs": 600, "test": 40, "epochs": 1, "hidden": 8, "embedding": 8, "threads": 1}


@pytest.fixture
def command(monkeypatch, capsys, tmp_path):
    run = demo.run
    monkeypatch.setattr(demo, "run", lambda out, **given: run(out, **{**given, **TINY, "cache": tmp_path / "cache"}))

    def call(*args):
        args = list(map(str, args))
        monkeypatch.setattr("sys.argv", ["carousel", *args])
        with pytest.raises(SystemExit) as end:
            main(args)
        return end.value.code, *capsys.readouterr()

    return call


def pairs(path):
    return [line.split("\t") for line in path.read_text("utf-8").splitlines()]


def test_the_demo_from_end_to_end(command, tmp_path):
    out = tmp_path / "dates"
    code, said, _ = command("demo", "--out", out, "--seed", 3, "--quiet")
    assert code == 0
    files = {name: pairs(out / f"{name}.tsv") for name in ("train", "dev", "test")}
    assert {name: len(found) for name, found in files.items()} == {"train": 600, "dev": 500, "test": 40}
    dates = {name: {date for _, date in found} for name, found in files.items()}
    assert not dates["train"] & (dates["dev"] | dates["test"])
    assert not dates["dev"] & dates["test"]

    model = carousel.load(out / "run")
    right = sum(model.translate(text, num_beams=1).text == date for text, date in files["test"])
    assert f"{right / 40:.2%} of 40 held-out dates are right" in said
    examples = [line for line in said.splitlines() if "→" in line]
    assert len(examples) == len(demo.EXAMPLES)
    for line, text in zip(examples, demo.EXAMPLES, strict=True):
        assert line.split("  →")[0].rstrip() == text
        assert line.split("→")[1].strip() == model.translate(text).text
    assert f"echo 'the third of March, 1998' | carousel translate {out}/run" in said

    page = (out / "report.html").read_text("utf-8")
    assert f"<code>carousel demo --out {out} --seed 3 --quiet</code>" in page
    assert len(re.findall(r'id="figure-\d"', page)) == 4  # three of attention, one of gates
    assert "600 dates" in page
    assert str(out / "report.html") in said

    code, again, _ = command("demo", "--out", out, "--seed", 3, "--quiet")  # in the place of the first
    assert (code, again) == (0, said)
