"""Without a dev file every task but `forecast` holds out a part of its training data, and says so."""

import json

import pytest
from helpers.tiny import Killed, kill_at

import carousel
from carousel.errors import RunError, SettingsError
from carousel.tasks import find
from carousel.tasks.classify.settings import ClassifySettings
from carousel.training import trainer

WORDS = ["red", "blue", "green", "old", "new", "big", "small"]
TEXTS = [f"{a} {b} {c}" for a in WORDS for b in WORDS for c in ("car", "house")][:60]
DATA = {
    "classify": ([(text, "a" if "red" in text else "b") for text in TEXTS], 1),
    "tag": ([[(word, word[0]) for word in text.split()] for text in TEXTS], 1),
    "encode": ([(text, text[::-1], "yes" if "red" in text else "no") for text in TEXTS], 1),
    "tree": ([f"({'1' if 'red' in t else '0'} (0 {t.split()[0]}) (1 {t.split()[1]}))" for t in TEXTS], 1),
    "translate": ([(text, text.upper()) for text in TEXTS], 1),
    "lm": (TEXTS, 1),
    "bilm": (TEXTS, 1),
}
SMALL = {"hidden": 4, "embedding": 4, "epochs": 1, "quiet": True, "report": False}


@pytest.mark.parametrize("task", DATA)
def test_a_part_is_held_out_and_reported(tmp_path, task):
    data, _ = DATA[task]
    run = tmp_path / "run"
    model = carousel.train(task, data, out=run, cache=tmp_path / "cache", dev_split=0.2, **SMALL)
    result = json.loads((run / "result.json").read_text())
    held = result["held_out"]
    assert (held["share"], held["seed"], held["of"]) == (0.2, 0, len(TEXTS)) and 8 <= held["examples"] <= 16
    assert result[f"dev_{result['metric']}"] is not None and result["best_epoch"] == 1
    assert "dev" in run.joinpath("metrics.csv").read_text().splitlines()[0]
    assert model.settings.dev is None and model.settings.dev_split == 0.2


def test_the_vocabulary_is_that_of_the_training_part(tmp_path):
    texts = [(f"word{k} again", "ab"[k % 2]) for k in range(60)]
    model = carousel.train("classify", texts, out=tmp_path / "run", cache=tmp_path / "c", dev_split=0.25, **SMALL)
    known = sum(f"word{k}" in model.vocabulary for k in range(60))
    assert known == 60 - 15


def test_labels_are_those_of_the_whole_file(tmp_path):
    """A class with one example may be in the held-out part alone."""
    texts = [(f"text {k}", f"class {k // 2}") for k in range(40)] * 2
    model = carousel.train("classify", texts, out=tmp_path / "run", cache=tmp_path / "c", dev_split=0.5, **SMALL)
    assert len(model.labels) == 20


def test_extra_examples_do_not_bring_held_out_texts_back(tmp_path):
    task = find("classify")
    train = task.write_data(DATA["classify"][0], tmp_path / "train", {})
    settings = ClassifySettings.read({"train": train, "extra": train, "dev_split": 0.2, "cache": tmp_path / "c"})
    _, data = task.prepare(settings)
    held = data.held_out["examples"]
    assert len(data.dev.store) == held and len(data.train.store) == 2 * (len(TEXTS) - held)


def test_tiny_data_is_trained_on_whole(tmp_path, capsys):
    data = DATA["classify"][0][:19]
    carousel.train("classify", data, out=tmp_path / "run", cache=tmp_path / "c", **{**SMALL, "quiet": False})
    said = "jsonl: 19 different texts, and 20 are needed to hold some out for validation; give dev to measure the model"
    assert said in " ".join(capsys.readouterr().err.split())
    assert "held_out" not in json.loads((tmp_path / "run" / "result.json").read_text())


def test_the_log_says_what_is_held_out(tmp_path, capsys):
    carousel.train(
        "classify", DATA["classify"][0], out=tmp_path / "r", cache=tmp_path / "c", **{**SMALL, "quiet": False}
    )
    said = capsys.readouterr().err.replace("\n", " ")
    assert "held out for validation: 10 of 60 texts of" in said and "(dev_seed 0)" in said


def test_none_holds_out_nothing_and_dev_excludes_a_split(tmp_path):
    settings = ClassifySettings.read({"train": "a.tsv", "dev_split": "none"})
    assert settings.dev_split == "none"
    assert ClassifySettings.read({"train": "a.tsv", "dev": "b.tsv"}).dev_split == "none"
    with pytest.raises(
        SettingsError, match=r"dev_split: 0\.1 of the training data cannot be held out when dev is given; leave out one"
    ):
        ClassifySettings.read({"train": "a.tsv", "dev": "b.tsv", "dev_split": 0.1})
    with pytest.raises(SettingsError, match="dev_split"):
        ClassifySettings.read({"train": "a.tsv", "dev_split": 0.7})


def test_a_resumed_run_has_the_same_part(tmp_path):
    task = find("classify")
    train = task.write_data(DATA["classify"][0], tmp_path / "train", {})
    given = {"train": train, "cache": tmp_path / "c", "hidden": 4, "embedding": 4, "epochs": 3, "batch_size": 16}

    def fit(out, **options):
        return trainer.train(task, {} if options else given, tmp_path / out, quiet=True, report=False, **options)

    whole = fit("whole")
    with pytest.MonkeyPatch.context() as patch:
        kill_at(patch, "saved", 1)
        with pytest.raises(Killed):
            fit("cut")
    cut = fit("cut", resume=True)
    assert cut.weights.read_bytes() == whole.weights.read_bytes()
    assert cut.metrics.read_text() == whole.metrics.read_text()
    with pytest.raises(RunError, match="dev_seed is 0 there, 1 now"):
        trainer.train(task, {"dev_seed": 1}, tmp_path / "cut", quiet=True, report=False, resume=True)


def test_patience_works_without_a_dev_file(tmp_path):
    carousel.train(
        "classify", DATA["classify"][0], out=tmp_path / "run", cache=tmp_path / "c",
        **{**SMALL, "epochs": 30, "patience": 1, "lr": 1e-9},
    )  # fmt: skip
    assert json.loads((tmp_path / "run" / "result.json").read_text())["epochs"] < 30


@pytest.mark.parametrize("layout", ["running", "sentences"])
def test_of_running_text_the_end_is_held_out(tmp_path, layout):
    text = "".join(f"line {k} of a play, and more of it\n" for k in range(200))
    path = tmp_path / "play.txt"
    path.write_text(text)
    carousel.train("lm", path, out=tmp_path / "run", cache=tmp_path / "c", layout=layout, **SMALL)
    held = json.loads((tmp_path / "run" / "result.json").read_text())["held_out"]
    assert held["share"] == 0.05 and 188 <= held["from_line"] <= 193


def test_the_report_shows_the_held_out_part(tmp_path):
    run = tmp_path / "run"
    carousel.train("classify", DATA["classify"][0], out=run, cache=tmp_path / "c", **{**SMALL, "report": True})
    page = (run / "report.html").read_text()
    assert "(held out)" in page and "10 of 60 texts" in page
