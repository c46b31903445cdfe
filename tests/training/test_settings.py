"""Settings: where they come from and which wins, and what is said of one that cannot be."""

import math
from pathlib import Path
from typing import Literal, get_args, get_origin

import pytest
import yaml
from helpers.tiny import fit, language, outcome
from hypothesis import example, given
from hypothesis import strategies as st

import carousel
from carousel.cells.spec import registry
from carousel.cli import main as cli
from carousel.errors import ArgumentError, SettingsError
from carousel.tasks import find
from carousel.tasks.lm.settings import LanguageSettings
from carousel.tasks.registry import BUILT_IN
from carousel.training import Run
from carousel.training.settings import Settings, load_yaml

FIELDS = LanguageSettings.model_fields


def another(name):
    """A value that `name` may have, other than its default."""
    field = FIELDS[name]
    special = {"cell": "gru", "dev_split": "none", "embedding": 7}
    if name in special:
        return special[name]
    kinds = [kind for kind in (get_args(field.annotation) or [field.annotation]) if kind is not type(None)]
    if get_origin(field.annotation) is Literal:
        return next((choice for choice in kinds if choice != field.default), field.default)
    match kinds[0]:
        case t if t is bool:
            return not field.default
        case t if t is int:
            return 7 if field.default != 7 else 8
        case t if t is float:
            return 0.125
        case _:
            return Path("some where/é #1.txt")


@pytest.fixture
def config(tmp_path):
    def write(text):
        path = tmp_path / "settings.yaml"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write


def complaint(**told):
    with pytest.raises(SettingsError) as caught:
        LanguageSettings.read({"train": "t.txt"}, **told)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# ---------------------------------------------------------------- from where


def test_later_ones_win(config):
    file = config("hidden: 2\nlayers: 2\nepochs: 2\n")
    found = LanguageSettings.read({"train": "a", "hidden": 1, "dev": "d"}, file, ["layers=3", "epochs=3"], epochs=4)
    assert (found.hidden, found.layers, found.epochs) == (2, 3, 4)
    assert (found.train, found.dev, found.lr) == (Path("a"), Path("d"), FIELDS["lr"].default)


def test_an_option_that_was_not_given_says_nothing(config):
    assert LanguageSettings.read({"train": "a"}, config("epochs: 2\n"), epochs=None).epochs == 2


def test_null_in_a_file_takes_a_value_back(config):
    found = LanguageSettings.read({"train": "a"}, config("dev: null\n"), ["patience=null"], patience=None)
    assert (found.dev, found.patience) == (None, None)


@pytest.mark.parametrize("name", [name for name in FIELDS if name != "task"])
def test_every_key_can_be_set_in_every_way(config, name):
    value = another(name)
    assert value != FIELDS[name].default
    text = str(value) if isinstance(value, Path) else value
    base = ({} if name == "train" else {"train": "t.txt"}) | ({"tied": False} if name == "output" else {})
    line = yaml.safe_dump({name: text}, allow_unicode=True)
    read = LanguageSettings.read
    found = [
        read(base, config(line)),
        read(base, pairs=[f"{name}={yaml.safe_dump(text, default_flow_style=True, allow_unicode=True)}"]),
        read(base, **{name: value}),
    ]
    assert [getattr(settings, name) for settings in found] == [value] * 3


@pytest.mark.parametrize("text", ["1e-3", "1E-3", "1.0e-3", ".001", "0.001"])
def test_numbers_as_people_write_them(config, text):
    """YAML itself takes 1e-3 for a word."""
    for found in (
        LanguageSettings.read({"train": "t"}, config(f"lr: {text}\n")),
        LanguageSettings.read({"train": "t"}, pairs=[f"lr={text}"]),
    ):
        assert (type(found.lr), found.lr) == (float, 0.001)


def test_an_empty_file_and_one_with_a_byte_order_mark(config):
    assert LanguageSettings.read({"train": "t"}, config("")) == LanguageSettings(train="t")
    assert LanguageSettings.read({"train": "t"}, config("# nothing\n")) == LanguageSettings(train="t")
    assert LanguageSettings.read({"train": "t"}, config("\ufeffepochs: 2\r\n")).epochs == 2


# ---------------------------------------------------------------- what cannot be


@pytest.mark.parametrize(
    "wrong, meant",
    [
        ("hiden", "hidden"),
        ("learning_rate", "lr"),
        ("batch-size", "batch_size"),
        ("Epochs", "epochs"),
        ("num_layers", "layers"),
        ("hidden_size", "hidden"),
        ("droput", "dropout"),
    ],
)
def test_an_unknown_key_names_the_near_miss(config, wrong, meant):
    end = f"{wrong}: there is no such key; did you mean {meant}?"
    file = config(f"epochs: 2\n\n# a remark\n{wrong}: 3\n")
    assert complaint(file=file) == f"{file}:4: {end}"
    assert complaint(pairs=[f"{wrong}=3"]) == f"--set {end}"


def test_an_unknown_key_without_a_near_miss_lists_the_keys():
    said = complaint(pairs=["zzzz=1"])
    assert said.startswith("--set zzzz: there is no such key; keys are accumulate, ")
    assert all(name in said for name in FIELDS)


@pytest.mark.parametrize(
    "name, value, said",
    [
        ("epochs", "0", "should be greater than or equal to 1, got 0"),
        ("epochs", "2.5", "should be a whole number, got 2.5"),
        ("epochs", "many", "should be a whole number, got 'many'"),
        ("embedding", "one-hott", "should be a whole number or 'one-hot', got 'one-hott'"),
        ("epochs", "yes", "got true"),
        ("epochs", "[1, 2]", "got [1, 2]"),
        ("lr", "-1", "should be greater than 0, got -1"),
        ("lr", "yes", "should not be true or false, got true"),
        ("lr", ".nan", "should be a finite number, got nan"),
        ("lr", ".inf", "should be a finite number, got inf"),
        ("dropout", "1", "should be less than 1, got 1"),
        ("optimizer", "adamm", "should be 'sgd', 'adam', 'adamw', 'rmsprop' or 'adadelta', got 'adamm'"),
        ("tied", "perhaps", "should be true or false, got 'perhaps'"),
        ("tied", "null", "got null"),
        ("train", "null", "got null"),
        ("dev", "no", "got false"),
        ("cell", "lsmt", "there is no cell 'lsmt'; did you mean lstm?"),
    ],
)
def test_a_value_that_cannot_be_is_one_line_with_its_place(config, name, value, said):
    file = config(f"# first\n{name}: {value}\n")
    from_file, from_pair = complaint(file=file), complaint(pairs=[f"{name}={value}"])
    assert from_file.startswith(f"{file}:2: {name}: ") and from_file.endswith(said)
    assert from_pair.startswith(f"--set {name}: ") and from_pair.endswith(said)


def test_the_option_is_named_if_the_option_is_wrong(config):
    assert complaint(file=config("epochs: 3\n"), epochs=0).startswith("--epochs: ")


def test_what_must_be_given():
    with pytest.raises(SettingsError, match=r"^train: missing; give training text$"):
        LanguageSettings.read({})


def test_a_misspelt_key_is_said_before_the_missing_one(config):
    with pytest.raises(SettingsError, match=r"trian: there is no such key; did you mean train\?"):
        LanguageSettings.read({}, config("trian: a.txt\n"))


@pytest.mark.parametrize("text", ["hidden: 1\nepochs: 2\nhidden: 3\n", '"hidden": 1\n\nhidden: 3\n'])
def test_a_key_twice(config, text):
    file = config(text)
    assert complaint(file=file) == f"{file}:3: hidden is given twice; keep one"


@pytest.mark.parametrize("text, line", [("epochs: 2\nlr: [1\n", 3), ("a: b: c\n", 1), ("epochs: 1\n\tlr: 2\n", 2)])
def test_not_yaml(config, text, line):
    file = config(text)
    assert complaint(file=file).startswith(f"{file}:{line}: not YAML (")


@pytest.mark.parametrize("text", ["- epochs\n", "just words\n", "3\n"])
def test_yaml_but_no_settings(config, text):
    file = config(text)
    assert complaint(file=file) == f"{file}: a settings file has lines of the form key: value"


def test_not_text(config):
    assert "byte 0xff at 4 is not UTF-8" in complaint(file=config(b"lr: \xff"))
    assert "not YAML" in complaint(file=config(b"lr: \x00"))


def test_a_key_that_is_no_word(config):
    assert "3: there is no such key" in complaint(file=config("3: 4\n"))


def test_no_file(tmp_path):
    with pytest.raises(OSError, match=r"none\.yaml"):
        LanguageSettings.read({}, tmp_path / "none.yaml")


@pytest.mark.parametrize("pair", ["epochs", "", "epochs 3"])
def test_a_pair_without_an_equals_sign(pair):
    assert complaint(pairs=[pair]) == f"--set {pair}: write it as key=value"


def test_a_pair_that_is_not_yaml():
    assert complaint(pairs=["lr=[1"]).startswith("--set lr=[1: not YAML")


# ---------------------------------------------------------------- and back

names = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="/"), min_size=1)
paths = names.filter(lambda name: name not in (".", "..")).map(lambda name: Path("/data", name))


@example(train=Path("/data/\xa0@"), dev=None, lr=1.0, clip=0.0, seed=0, tied=False)  # a space that is not YAML's
@given(
    train=paths,
    dev=st.none() | paths,
    lr=st.floats(min_value=0, exclude_min=True, allow_infinity=False),
    clip=st.floats(min_value=0, allow_infinity=False),
    seed=st.integers(0, 2**32 - 1),
    tied=st.booleans(),
)
def test_what_is_written_reads_back(tmp_path_factory, train, dev, lr, clip, seed, tied):
    settings = LanguageSettings(train=train, dev=dev, lr=lr, clip=clip, seed=seed, tied=tied)
    file = tmp_path_factory.getbasetemp() / "written.yaml"
    file.write_text(settings.to_yaml(), "utf-8")
    assert LanguageSettings.read({}, file) == settings
    found, lines = load_yaml(file)
    assert set(found) == set(lines) == set(FIELDS)


def test_files_are_written_by_their_absolute_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    written = LanguageSettings(train="here/../a.txt", dev="here/b.txt").to_yaml()
    found = yaml.safe_load(written)
    assert (found["train"], found["dev"], found["cache"]) == (f"{tmp_path}/a.txt", f"{tmp_path}/here/b.txt", None)


@pytest.mark.parametrize(
    "given, said",
    [
        ({"momentum": 0.9}, ["momentum: 0.9 does nothing, since optimizer is adamw; it is for sgd or rmsprop"]),
        ({"momentum": 0.9, "optimizer": "sgd"}, []),
        ({"bptt": 70}, ["bptt: 70 does nothing, since layout is lines; it is for running or sentences"]),
        ({"bptt": 70, "layout": "running"}, []),
        ({"clip_by": "value", "clip": 0}, ["clip_by: value does nothing, since clip is 0.0"]),
        ({"clip_by": "value"}, []),
    ],
    ids=lambda part: "".join(part),
)
def test_what_does_nothing_is_said(given, said):
    assert LanguageSettings(train="t.txt", **given).unused == said


@pytest.mark.parametrize("name", BUILT_IN)
def test_what_a_key_needs_is_there(name):
    """Keys that exist, by some of the values that they may have."""
    settings = find(name).Settings
    for field in settings.model_fields.values():
        for other, values in field.json_schema_extra["needs"].items():
            annotation = settings.model_fields[other].annotation
            parts = get_args(annotation) or [annotation]
            choices = {choice for part in parts for choice in get_args(part) or [part]}  # some are unions of literals
            if other == "cell":  # names of the registry
                choices = set(registry())
            assert values is ... or {value if value in choices else type(value) for value in values} <= choices
            assert values is ... or set(values) != choices


def test_config_yaml_gives_the_run_again(tmp_path):
    settings = language(tmp_path, lr=1e-5 / 3, dropout=0.1 + 0.2, clip=math.pi)
    first = fit(settings, tmp_path / "first")
    again = LanguageSettings.read({}, first.config)
    assert again == settings
    assert outcome(fit(again, tmp_path / "second")) == outcome(first)
    assert (tmp_path / "second" / "config.yaml").read_bytes() == first.config.read_bytes()


ALIASES = "a: &a [x, x]\nb: [*a, *a]\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("epochs: " + "[" * 50_000, r"settings\.yaml:1: not YAML \(nested more than 100 levels deep\)"),
        (ALIASES, r"settings\.yaml:2: not YAML \(\*a is an alias; write the value itself\)"),
        ("epochs: 1_000", r"settings\.yaml:1: epochs: should be a number in digits, got '1_000'"),
        ("lr: 1_0.5", r"settings\.yaml:1: lr: should be a number in digits"),
        ("epochs: " + "9" * 5000, r"settings\.yaml:1: epochs: .* got .9+…9+.$"),
        ("x" * 900 + ": 1", r"settings\.yaml:1: x+…x+: there is no such key"),
        (f"epochs: {[['x'] * 1000] * 10}", r"settings\.yaml:1: epochs: should be a whole number"),
    ],
)
def test_bad_yaml_is_one_short_line(tmp_path, text, said):
    file = tmp_path / "settings.yaml"
    file.write_text(text)
    with pytest.raises(SettingsError, match=said) as caught:
        Settings.read({}, file=file)
    assert len(str(caught.value)) < 600


def test_numbers_of_options_are_in_digits():
    with pytest.raises(SettingsError, match="--set epochs: should be a number in digits, got '1_000'"):
        Settings.read({}, pairs=["epochs=1_000"])
    with pytest.raises(SettingsError, match="epochs: should be a number in digits"):
        Settings.check({"epochs": "1_000"}, {})


# ---------------------------------------------------------------- presets


@pytest.mark.parametrize("task", ["lm", "bilm", "classify", "tag", "encode", "tree", "forecast", "translate"])
def test_every_preset_is_a_set_of_valid_settings_and_fast_is_less_work(task):
    settings = find(task).Settings
    assert list(settings.PRESETS) == ["fast", "default", "best"] and not settings.preset("default")
    files = {"train": ("a", "b") if task == "translate" else "a"}
    epochs = {name: settings.read({**files, **settings.preset(name)}).epochs for name in settings.PRESETS}
    assert epochs["fast"] < epochs["default"] <= epochs["best"]
    best = settings.preset("best")
    assert best.get("seeds", 1) > 1 or epochs["best"] > epochs["default"]


def test_options_override_a_preset_and_config_has_plain_settings(tmp_path):
    data = [(f"text {k}", "ab"[k % 2]) for k in range(30)]
    small = {"embedding": 4, "quiet": True, "report": False, "threads": 1, "cache": tmp_path / "cache"}
    carousel.train("classify", data, out=tmp_path / "run", preset="fast", epochs=1, **small)
    values = Run(tmp_path / "run").config_values()
    assert values["epochs"] == 1 and values["hidden"] == 64 and "preset" not in values
    with pytest.raises(ArgumentError, match="leave out the preset"):
        carousel.train("classify", out=tmp_path / "run", preset="fast", resume=True)
    with pytest.raises(SettingsError, match="no 'bst'; did you mean best"):
        carousel.train("classify", data, out=tmp_path / "other", preset="bst")
    assert not (tmp_path / "other").exists()


def test_a_settings_file_overrides_a_preset(tmp_path, monkeypatch):
    """On the command line, of which only the values that reach the trainer are looked at."""
    seen = {}
    monkeypatch.setattr("carousel.training.several.train", lambda task, values, *_, **__: seen.update(values))
    (tmp_path / "my.yaml").write_text("hidden: 7\n")
    with pytest.raises(SystemExit) as stop:
        cli.main(["train", "classify", "x.tsv", "--out", str(tmp_path / "run"), "--preset", "fast", "--quiet",
                  "--config", str(tmp_path / "my.yaml")])  # fmt: skip
    assert not stop.value.code and (seen["hidden"], seen["epochs"]) == (7, 3)
