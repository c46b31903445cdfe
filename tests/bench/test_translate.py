"""The two sides of the benchmark of translators are one network; a missing Joey NMT is an error."""

import json

import pytest
import torch

from carousel.bench import joey as joeys
from carousel.bench import translate
from carousel.cli import main as cli
from carousel.tasks.translate.settings import TranslateSettings
from carousel.tasks.translate.task import Translate
from carousel.training import trainer

SMALL = {**translate.PLAIN, "embedding": 8, "hidden": 6, "decoder_hidden": 12, "dropout": 0.0, "label_smoothing": 0.0}


def test_lengths_are_those_of_multi30k():
    batch = translate.make_batch(7400, 4000)
    assert batch.source_lengths.double().mean() == pytest.approx(13.0, abs=0.3)
    assert batch.lengths.double().mean() == pytest.approx(12.4 + 1, abs=0.3)
    assert bool((batch.source_lengths.diff() <= 0).all())
    alike = translate.make_batch(7400, 64, alike=True)
    assert torch.maximum(alike.source_lengths, alike.lengths - 1).unique().numel() <= 2


def test_it_is_written_and_said(joey, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(translate, "SETUPS", {"plain": (60, SMALL)})
    with pytest.raises(SystemExit) as stop:
        cli.main(["bench", "translate", "--out", str(tmp_path / "b"), "--seconds", "0.01"])
    assert not stop.value.code
    found = json.loads((tmp_path / "b" / "translate.json").read_text())
    assert [row["what"] for row in found["rows"]] == [
        "beam of 5, plain",
        *(f"training plain, lengths {n}" for n in ("mixed", "alike")),
    ]
    assert [claim["what"].split(":")[0] for claim in found["claims"]] == [
        "beam of 5, plain",
        "training plain, lengths mixed",
    ]
    assert "ratio to Joey NMT" in capsys.readouterr().out


def test_joey_is_missing(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(joeys.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit) as stop:
        cli.main(["bench", "translate", "--out", str(tmp_path / "b")])
    assert stop.value.code
    assert "pip install" in capsys.readouterr().err and not (tmp_path / "b").exists()


SENTENCES = ["a man in red is on the street .", "ein mann in rot ist auf der straße ."]


@pytest.fixture
def trained(tmp_path):
    """A run of a few epochs, in which translations end by themselves."""

    def train(**options):
        files = {}
        for kind, count in (("train", 40), ("dev", 9)):
            files[kind] = [tmp_path / f"{kind}.en", tmp_path / f"{kind}.de"]
            for file, text in zip(files[kind], SENTENCES, strict=True):
                words = text.split()
                file.write_text("".join(" ".join(words[k % 5 :]) + "\n" for k in range(count)), "utf-8")
        small = {
            "embedding": 8,
            "hidden": 16,
            "tokens": "word",
            "dropout": 0,
            "epochs": 40,
            "batch_size": 8,
            "lr": 0.02,
        }
        settings = TranslateSettings.read({**files, **small, "cache": tmp_path / "cache", **options})
        trainer.train(Translate, settings, tmp_path / "run", quiet=True, report=False)
        return tmp_path / "run"

    return train


def test_a_run_is_raced_as_it_is_used(joey, trained, tmp_path, capsys):
    found = translate.main(tmp_path / "b", 0.01, trained(tied="none"))
    [searched, own, same] = found["rows"]
    assert searched["same translations"] == 1 and searched["what"] == "beam of 5, 9 lines"
    assert own["joey"] == same["joey"] and min(own["carousel"], same["carousel"]) > 0
    assert [claim["what"] for claim in found["claims"]] == [
        f"{row['what']}: ratio to Joey NMT" for row in (searched, own)
    ]
    assert "100% of the translations are the same" in capsys.readouterr().out


def test_a_run_that_joey_cannot_be(joey, trained, tmp_path):
    with pytest.raises(ValueError, match="run: tied is output, and Joey NMT's network has none"):
        translate.main(tmp_path / "b", 0.01, trained())
    assert not (tmp_path / "b").exists()


def test_a_run_whose_text_is_gone(joey, trained, tmp_path):
    run = trained(tied="none", optimizer="sgd", epochs=1)
    (tmp_path / "train.de").unlink()
    with pytest.raises(ValueError, match=r"train\.de: no such file"):
        translate.main(tmp_path / "b", 0.01, run)
    assert not (tmp_path / "b").exists()
