"""`carousel.train`, `load`, `evaluate`, `check`: every task from data in memory; the process is as before."""

import logging
import math
import os
import random
import signal
import sys
import traceback
import warnings

import numpy as np
import pytest
import torch
from helpers.tiny import PLAIN

import carousel
from carousel.errors import ArgumentError, CarouselError, DataError, RunError, SettingsError
from carousel.files import write_text

SMALL = {"epochs": 1, "threads": 1, "quiet": True, "report": False}
TINY = {**SMALL, "hidden": 4, "embedding": 4}
TEXTS = ["a fine film", "a dull film", "what a fine day", "dull , dull"]
LABELS = ["good", "bad", "good", "bad"]
PAIRS = [("a cat", "a dog", 1.0), ("a fine film", "a film", 4.5), ("dull", "day", 2.0)]
SENTENCES = [[("Ada", "B-PER"), ("sat", "O")], [("Bob", "B-PER"), ("Lee", "I-PER"), ("ran", "O")]]
TREES = ["(1 (0 a) (1 film))", "(0 (0 dull) (1 day))"]
SERIES = [[10 + np.sin(t / 2), 5 + np.cos(t / 2)] for t in range(60)]


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    return tmp_path


CASES = {
    "lm": (TEXTS, TINY, "lines"),
    "bilm": ([text.split() for text in TEXTS], {**TINY, "min_frequency": 1}, "lines"),
    "classify": (list(zip(TEXTS, LABELS, strict=True)), TINY, "table"),
    "tag": (SENTENCES, {**TINY, "min_frequency": 1}, "conll"),
    "encode": (PAIRS, TINY, "table"),
    "tree": (TREES, TINY, "lines"),
    "translate": ([(text, text[::-1]) for text in TEXTS], {**TINY, "tokens": "character"}, "two files"),
    "forecast": (np.array(SERIES), {**SMALL, "hidden": 4, "horizon": 2, "context": 6}, "csv"),
}


@pytest.mark.parametrize("name", CASES)
def test_every_task_from_memory_and_from_the_same_files(name, place):
    data, settings, _ = CASES[name]
    dev = None if name == "forecast" else data
    model = carousel.train(name, data, dev=dev, out="memory", **settings)
    assert model.name == name
    assert not model.network.training
    files = sorted((place / "memory" / "data").glob("train.*"))
    again = [files[0]] if len(files) == 1 else files
    assert type(carousel.load("memory")) is type(model)
    other = carousel.train(model.task, again if len(again) > 1 else again[0],
                           dev=None if dev is None else again if len(again) > 1 else again[0], out="files",
                           **settings)  # fmt: skip
    ours, theirs = model.network.state_dict(), other.network.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[key], theirs[key]) for key in ours)
    measured = carousel.evaluate(model, data)
    assert measured == model.evaluate(data) == carousel.evaluate("files", *again)
    told = {key: value for key, value in settings.items() if key not in ("quiet", "report")}
    assert carousel.check(data, task=name, **told).as_dict()


@pytest.mark.parametrize("name", CASES)
def test_parts_measured_apart_and_merged_are_the_whole(name, place):
    data, settings, _ = CASES[name]
    model = carousel.train(name, data, dev=None if name == "forecast" else data, out="run", **settings)
    if name == "forecast":
        halves = [[batch] for batch in model.task.prepare(model.settings, model.assets)[1].train][:2]
    else:
        halves = []
        for number, part in enumerate((data[:1], data[1:])):
            files = model.task.write_data(part, place / f"part{number}", {})
            halves.append(
                list(model.task.prepare(model.settings.model_copy(update={"dev": files}), model.assets)[1].dev)
            )
    model.network.eval()
    whole, *parts = (model.network.metric() for _ in range(3))
    for part, batches in zip(parts, halves, strict=True):
        for batch in batches:
            part.add(batch)
            whole.add(batch)
    assert parts[0].result() != whole.result() != parts[1].result()
    parts[0].merge(parts[1])
    assert parts[0].result() == pytest.approx(whole.result(), nan_ok=True)
    assert model.network.metric().best in whole.result()


class Frame:
    """What is used of a DataFrame."""

    def __init__(self, **columns):
        self.columns = list(columns)
        self.rows = list(zip(*columns.values(), strict=True))

    def itertuples(self, index, name):
        assert (index, name) == (False, None)
        return iter(self.rows)


class Classes:
    """A ClassLabel of the library `datasets`."""

    def int2str(self, value):
        return ["bad", "good"][value]


class Dataset:
    """What is used of a `datasets.Dataset`."""

    column_names = ["text", "label"]
    features = {"label": Classes()}

    def __iter__(self):
        return (
            {"text": text, "label": int(label == "good")} for text, label in zip(TEXTS, LABELS, strict=True)
        )  # fmt: skip


@pytest.mark.parametrize(
    "data",
    [
        list(zip(TEXTS, LABELS, strict=True)),
        ((text, label) for text, label in zip(TEXTS, LABELS, strict=True)),
        {"text": TEXTS, "label": LABELS},
        [{"text": text, "label": label} for text, label in zip(TEXTS, LABELS, strict=True)],
        np.array([TEXTS, LABELS]).T,
        Frame(text=TEXTS, label=LABELS),
        Dataset(),
    ],
    ids=["tuples", "generator", "columns", "dictionaries", "array", "frame", "datasets"],
)
def test_forms_of_data(data, place):
    model = carousel.train("classify", data, out="run", **TINY)
    assert model.labels == ["bad", "good"]
    lines = (place / "run" / "data" / "train.jsonl").read_text().splitlines()
    assert lines[0] == '{"text": "a fine film", "label": "good"}' and len(lines) == 4


def test_resume_needs_neither_data_nor_settings(place):
    data, steady = CASES["classify"][0], {**TINY, **PLAIN}  # the schedule does not depend on the number of epochs
    carousel.train("classify", data, out="whole", **{**steady, "epochs": 3})
    carousel.train("classify", data, out="run", **{**steady, "epochs": 2})
    carousel.train("classify", out="run", resume=True, epochs=3, quiet=True)
    carousel.train("classify", data, out="run", resume=True, quiet=True)  # the same again: it has finished
    one, other = (dict(carousel.load(run).network.state_dict()) for run in ("whole", "run"))
    assert all(torch.equal(one[key], other[key]) for key in one)
    with pytest.raises(RunError, match="the data given for train is not that of the run"):
        carousel.train("classify", data[:3], out="run", resume=True, quiet=True)


@pytest.mark.parametrize(
    "given, kind, said",
    [
        ({"resume": True}, RunError, "run: no run to resume"),
        ({"resume": True, "force": True}, ArgumentError, "resume and force"),
        ({"hiden": 4}, SettingsError, "hiden: there is no such key; did you mean hidden?"),
        ({"hidden": 0}, SettingsError, "hidden: should be greater than or equal to 1, got 0"),
        ({"train": "nothing.tsv"}, CarouselError, "nothing.tsv: no such file"),
        ({"train": [("text", "label", "more")]}, ArgumentError, r"item 1 is not of the form \(text, label\)"),
        ({"task": "forecast", "train": np.zeros((3, 2, 2))}, ArgumentError, r"give a series as \(T,\) or \(T, V\)"),
        ({"train": (["a", "b"], [0, 1])}, ArgumentError, r"item 2 is not .* give \(text, label\) or \{'text': …, 'lab"),
        ({"train": [("a", "x"), ("b", math.nan)] * 3}, DataError, "^train:2: the label is missing; give it one"),
        ({"train": [("a", "x"), (math.nan, "y")] * 3}, DataError, "^train:2: the text is missing; give it one"),
        ({"train": [("a", "x"), ("b", [math.nan])] * 3, "target": "labels"}, DataError, "^train:2: the label is null"),
        ({"task": "encode", "train": [("a", "b", 1.0), ("b", "c", math.nan)]}, DataError, "^train:2: the label is mis"),
        (
            {"task": "encode", "train": [("a", "b", "x"), ("a", "c", 2.0)] * 8},
            DataError,
            "^train:2: the label 2.0 is a number, where line 1 has a word; give labels of one kind",
        ),
        ({"task": "sequences", "train": [([1.0], "a"), ([2.0], math.nan)]}, ArgumentError, "item 2 has no label; give"),
        ({"task": "tag", "train": [[("a", "O"), ("b", math.nan)]]}, ArgumentError, r"sentence 1 has \('b', nan\)"),
        ({"task": "tree", "train": ["(0 (1 a) (0 b))", math.nan]}, ArgumentError, r"item 2 is missing \(nan\)"),
        ({"task": "lm", "train": ["a b c", math.nan]}, ArgumentError, r"item 2 is missing \(nan\)"),
        ({"task": "translate", "train": [("a", "b"), ("c", math.nan)]}, ArgumentError, "item 2 is of type float; give"),
        ({"out": None}, ArgumentError, "out: give a directory for the run, got None"),
        ({"vectors": "golve"}, DataError, "golve: no such file, and no vectors of this name; did you mean glove"),
        (
            {"class_weights": {"good": 1, "bad": "x"}},
            SettingsError,
            "write none, balanced or bad=1,good=1; got 'good=1,",
        ),
        ({"cell": None}, SettingsError, "cell: should be a name, FILE.py:CLASS or a class, got null"),
        ({"train": []}, ArgumentError, "data: there are no examples; give some"),
        ({"train": 7}, ArgumentError, "an iterable of examples, got int"),
        ({"task": "clasify"}, ArgumentError, "did you mean classify?"),
        ({"patience": 2}, SettingsError, "patience: 2 needs a dev set"),
    ],
)
def test_errors_are_those_of_the_command_line(given, kind, said, place):
    asked = {"task": "classify", "train": CASES["classify"][0], "out": "run", **TINY, **given}
    with pytest.raises(kind, match=said) as caught:
        carousel.train(**asked)
    assert "\n" not in str(caught.value)
    assert not (place / "run").exists()


def test_a_directory_of_others_is_left_alone(place):
    (place / "run" / "data").mkdir(parents=True)
    write_text(place / "run" / "data" / "mine.txt", "mine")
    for force in (False, True):
        with pytest.raises(RunError, match="run: holds other files"):
            carousel.train("classify", CASES["classify"][0], out="run", force=force, **TINY)
    assert (place / "run" / "data" / "mine.txt").read_text() == "mine"


def test_settings_of_a_resumed_run_must_be_its_own(place):
    carousel.train("classify", CASES["classify"][0], out="run", **TINY)
    with pytest.raises(RunError, match="hidden is 4 there, 5 now"):
        carousel.train("classify", out="run", resume=True, quiet=True, hidden=5)
    with pytest.raises(RunError, match="a classify run; resume it with carousel train classify"):
        carousel.train("lm", out="run", resume=True, quiet=True)
    with pytest.raises(RunError, match="a run is here already"):
        carousel.train("classify", CASES["classify"][0], out="run", **TINY)


def test_load_says_which_task(place):
    carousel.train("classify", CASES["classify"][0], out="run", **TINY)
    assert carousel.load("run", task="classify").labels == ["bad", "good"]
    with pytest.raises(RunError, match="run: a run of classify, not of lm"):
        carousel.load("run", task="lm")


def process():
    """What belongs to the program that calls, not to us."""
    return {
        "torch": torch.get_rng_state().tolist(),
        "numpy": [part.tolist() if hasattr(part, "tolist") else part for part in np.random.get_state()],
        "random": random.getstate(),
        "signals": {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)},
        "threads": torch.get_num_threads(),
        "argv": list(sys.argv),
        "environment": dict(os.environ),
        "levels": {name: logging.getLogger(name).level for name in (None, "lightning.pytorch", "lightning")},
        "filters": list(warnings.filters),
        "gradients": torch.is_grad_enabled(),
        "directory": os.getcwd(),
    }


@pytest.mark.parametrize("fails", [False, True])
def test_nothing_of_the_process_is_changed(place, fails, monkeypatch):
    import lightning.pytorch  # noqa: F401, that its import is not counted

    monkeypatch.setattr(sys, "argv", ["host", "--secret"])
    data = CASES["lm"][0]
    carousel.load  # noqa: B018
    before = process()
    if fails:
        with pytest.raises(CarouselError):
            carousel.train(
                "lm", data, out="run", **{**TINY, "threads": 2, "lr": 1e30, "optimizer": "sgd", "clip": 0, "epochs": 4}
            )
        assert process() == before
        return
    model = carousel.train("lm", data, dev=data, out="run", **{**TINY, "threads": 2, "report": True})
    assert process() == before
    carousel.load("run")
    carousel.evaluate(model, data)
    model.generate("a", seed=1)
    assert process() == before
    assert "secret" not in (place / "run" / "result.json").read_text()


@pytest.mark.parametrize("name", CASES)
def test_a_model_keeps_its_mode(name, place):
    data, settings, _ = CASES[name]
    model = carousel.train(name, data, out="run", **settings)
    first = {
        "lm": lambda: model.generate("a", seed=1), "bilm": lambda: model.embed("a film"),
        "classify": lambda: model.predict("a film"), "tag": lambda: model.predict("Ada ran"),
        "encode": lambda: (model.predict("a", "b"), model.embed("a"), model.similar("a", ["b"])),
        "tree": lambda: model.predict("(_ (_ a) (_ film))"), "translate": lambda: model.translate("a film"),
        "forecast": lambda: model.predict(next((place / "run" / "data").iterdir())),
    }[name]  # fmt: skip
    quiet = first(), carousel.evaluate(model, data)
    model.network.train()
    again = first(), carousel.evaluate(model, data)  # as in eval mode: no dropout
    assert model.network.training and all(module.training for module in model.modules())
    assert repr(quiet[0]) == repr(again[0])
    assert quiet[1] == again[1]


@pytest.mark.parametrize("wrong", [{"hidden": -4}, {"task_data": [("a", "b", "c")]}])
def test_force_replaces_nothing_until_all_is_right(wrong, place):
    data = CASES["classify"][0]
    carousel.train("classify", data, out="run", **TINY)
    before = {path: path.read_bytes() for path in (place / "run").rglob("*") if path.is_file()}
    given = wrong.pop("task_data", data)
    with pytest.raises(CarouselError):
        carousel.train("classify", given, out="run", force=True, **{**TINY, **wrong})
    assert {path: path.read_bytes() for path in (place / "run").rglob("*") if path.is_file()} == before


def test_callbacks(place):
    from lightning.pytorch import Callback

    class Count(Callback):
        batches = 0

        def on_train_batch_end(self, *_):
            Count.batches += 1

    carousel.train("classify", CASES["classify"][0], out="run", callbacks=[Count()], **TINY)
    assert Count.batches > 0


def test_the_names_are_discoverable():
    for name in ("train", "load", "evaluate", "check"):
        assert name in carousel.__all__ and name in dir(carousel)
        assert getattr(carousel, name).__doc__
    assert {name for name in dir(carousel) if not name.startswith("_")} == set(carousel.__all__)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: carousel.train("lm", TEXTS, out="run", hidden=-1),
            "hidden: should be greater than or equal to 1, got -1",
        ),
        (lambda: carousel.train("lm", TEXTS, out="run", optimizer="x"), "optimizer: should be 'sgd', .*, got 'x'"),
        (lambda: carousel.train("bilm", TEXTS, out="run", hidden=4), "hidden: 4 units are fewer than embedding"),
        (lambda: carousel.check(TEXTS, task="lm", hidden="a"), "hidden: should be a whole number"),
        (lambda: carousel.train(5, TEXTS, out="run"), "task: give a name, a class, or FILE.py:CLASS, got 5"),
        (lambda: carousel.load(5), "run: give a run directory, got 5"),
        (lambda: carousel.evaluate(5, TEXTS), "model: give a model or a run directory, got 5"),
        (lambda: carousel.check(5), "task: missing"),
        (lambda: carousel.GenerationConfig(top_k=-1), "top_k: must be a whole number of at least 1, got -1"),
    ],
)
def test_an_error_is_ours_alone(call, message):
    """One line, and no traceback of the library that found it before."""
    with pytest.raises(CarouselError, match=message) as error:
        call()
    assert "\n" not in str(error.value)
    assert error.value.__cause__ is None and (error.value.__context__ is None or error.value.__suppress_context__)


def test_a_config_that_cannot_be_is_ours_alone_too(place):
    carousel.train("lm", TEXTS, out="run", **TINY)
    config = place / "run" / "config.yaml"
    config.write_text(config.read_text().replace("hidden: 4", "hidden: -4"))
    (place / "run" / "manifest.json").unlink(missing_ok=True)
    with pytest.raises(CarouselError) as error:
        carousel.load("run")
    assert "pydantic" not in "".join(traceback.format_exception(error.value))
    with pytest.raises(ArgumentError, match="beams: a language model has no such option of evaluation"):
        carousel.evaluate(carousel.train("lm", TEXTS, out="other", **TINY), TEXTS, beams=3)


def test_errors_of_data_in_memory_name_the_data(tmp_path):
    """Not the file that it was written to, which is gone by then."""
    rows = [("a fine film", "good"), ("a dull film", "bad")] * 4
    small = {"hidden": 4, "epochs": 1, "quiet": True, "threads": 1, "baseline": False, "linear": False}
    model = carousel.train("classify", rows, out=tmp_path / "run", **small)
    for call, said in (
        (lambda: model.evaluate([("fine", "good"), ("fine", "ugly")]), "data:2: the label 'ugly' is not in the tr"),
        (lambda: carousel.check([("fine", "good"), ("", "bad")], task="classify"), "train:2: the text is empty;"),
        (lambda: carousel.train("classify", rows, dev=[("", "bad")], out=tmp_path / "b", **small), "dev:1: the te"),
        (lambda: carousel.train("classify", [("", "x")], out=tmp_path / "b", **small), "train:1: the text is empty;"),
    ):  # fmt: skip
        with pytest.raises(carousel.CarouselError, match=f"^{said}"):
            call()
    assert not (tmp_path / "b").exists()
    file = tmp_path / "train.tsv"
    file.write_text("fine\tgood\n\tbad\n")
    with pytest.raises(carousel.CarouselError, match=rf"^{file}:2: the text is empty"):
        carousel.check(file, task="classify")


@pytest.mark.parametrize("task", ["classify", "tag", "translate", "forecast"])
def test_a_check_prints_the_table_of_the_command(task):
    check = carousel.check(CASES[task][0], task=task)
    lines = str(check).splitlines()
    assert lines[0] == f"{check.reading}." and any("┏" in line for line in lines)
    assert lines[len(lines) - len(check.warnings) :] == check.warnings
