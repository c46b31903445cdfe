"""Settings: one validated object for each task, from defaults, a YAML file and the command line, in that order.

Keys are flat, and each is written down once, as a field with its type, its default, its bounds and a line of help.
The YAML file, the command line's options and the error messages all come from that.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, get_args

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from ..errors import SettingsError, did_you_mean, shorten
from ..parsing import ParseError, parse_number, parse_yaml, yaml_keys
from ..user_code import is_place
from ..wording import dashed, either, setting

# Weights of classes as text, LABEL=WEIGHT,…, or as a mapping, as YAML and Python have them.
ClassWeights = Annotated[
    str,
    BeforeValidator(lambda given: ",".join(f"{k}={v}" for k, v in given.items()) if isinstance(given, dict) else given),
]

# The name of a column, or its number, which YAML reads as such.
ColumnName = Annotated[str, BeforeValidator(lambda given: str(given) if isinstance(given, int) else given)]


MOST_LAYERS = 1000  # each is modules in Python, so that many more would take minutes before memory is asked for
MOST_TOKENS = 10_000_000  # BPE allocates room for all of them before it reads any text
_NUMERIC = (int, float, int | None, float | None)  # annotations of numbers


MAY_CHANGE = {"epochs", "patience", "checkpoint_minutes", "baseline", "learning_curve"}  # when a run is resumed
_FREE = MAY_CHANGE | {"seeds", "threads", "device", "log_steps", "vectors"}  # no part of what a trained model does


BEGINNING = "# ---- "  # how a file of all settings begins
END = "..."  # the last line of a file of all settings, by which one that was cut short is recognised


class Choices(NamedTuple):
    """In the annotation of a field: what a command's help lists, though other values may be right too."""

    names: Callable[[], Sequence[str]]
    other: str  # what else may be given, as a metavar


class Preset(NamedTuple):
    """Settings under one name, which others given beside them override."""

    settings: Mapping[str, Any]
    time: str  # training time relative to the defaults


DEFAULT = Preset({}, "the defaults")


def ensemble_of(seeds: int) -> Preset:
    """An ensemble of so many seeds, with the defaults."""
    return Preset({"seeds": seeds}, f"an ensemble of {seeds}: {seeds} times as long")


def presets(fast: Preset, best: Preset | None = None) -> dict[str, Preset]:
    """The presets of a task, by name."""
    return {"fast": fast, "default": DEFAULT} | ({} if best is None else {"best": best})


def key(
    default: Any, help: str, group: str, needs: dict[str, Any] | None = None, *, metavar: str | None = None,
    **bounds: Any,
) -> Any:  # fmt: skip
    """A field of a settings class: its default (`...`: it must be given), a line of help and a group to list it in.

    `needs` names other keys without which this one does nothing: each with the values that it may have, or `...` for
    any that is not null, none, 0 or false. `metavar` is what help shows for a value.
    """
    return Field(
        default,
        description=help,
        json_schema_extra={"group": group, "needs": needs or {}, "metavar": metavar},
        **bounds,
    )


class Settings(BaseModel):
    """Settings of training that every task has. A task adds keys of its own.

    >>> TrainingOf = type("TrainingOf", (Settings,), {"__annotations__": {}})
    >>> TrainingOf.read({"lr": 0.01}).optimizer
    'adamw'
    >>> TrainingOf.read({"learning": 0.01})
    Traceback (most recent call last):
    ...
    carousel.errors.SettingsError: learning: there is no such key; did you mean lr?
    """

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)
    # What people call things elsewhere; only ever used to say "did you mean".
    SYNONYMS: ClassVar[dict[str, str]] = {
        "learning": "lr",
        "learning_rate": "lr",
        "learningrate": "lr",
        "max_epochs": "epochs",
        "num_epochs": "epochs",
        "num_layers": "layers",
        "hidden_size": "hidden",
        "units": "hidden",
        "embedding_size": "embedding",
        "embedding_dim": "embedding",
        "batch": "batch_size",
        "grad_clip": "clip",
        "gradient_clip_val": "clip",
        "early_stopping": "patience",
        "wd": "weight_decay",
        "tie": "tied",
        "tie_weights": "tied",
    }

    PRESETS: ClassVar[Mapping[str, Preset]] = {"default": DEFAULT}
    OTHER_DEFAULTS: ClassVar[Mapping[str, Mapping[str, Any]]] = {}  # by the option with which they hold

    def __init_subclass__(
        cls, defaults: Mapping[str, Any] | None = None, presets: Mapping[str, Preset] | None = None, **options: Any
    ) -> None:
        super().__init_subclass__(**options)

    @classmethod
    def __pydantic_init_subclass__(
        cls, defaults: Mapping[str, Any] | None = None, presets: Mapping[str, Preset] | None = None, **options: Any
    ) -> None:
        """`class TreeSettings(VectorSettings, defaults={"lr": 0.002})`: other defaults for keys of a base class.
        `presets` are sets of settings by name."""
        super().__pydantic_init_subclass__(**options)
        cls.PRESETS = presets or cls.PRESETS
        for name, value in (defaults or {}).items():
            cls.model_fields[name] = FieldInfo.merge_field_infos(cls.model_fields[name], default=value)
        if defaults:
            cls.model_rebuild(force=True)

    # Tasks override defaults in the DEFAULTS of their settings.py.
    epochs: int = key(10, "passes over the training data", "training", ge=1)
    optimizer: Literal["sgd", "adam", "adamw", "rmsprop", "adadelta"] = key("adamw", "the optimizer", "training")
    lr: float = key(0.001, "peak learning rate", "training", gt=0)
    momentum: float = key(
        0.0, "momentum, for sgd and rmsprop", "training", {"optimizer": ("sgd", "rmsprop")}, ge=0, lt=1
    )
    beta2: float = key(
        0.999, "second-moment decay, for adam and adamw", "training", {"optimizer": ("adam", "adamw")}, ge=0, lt=1
    )
    weight_decay: float = key(0.01, "weight decay (adamw: decoupled)", "training", ge=0)
    schedule: Literal["constant", "linear", "cosine", "step", "plateau"] = key(
        "cosine",
        "learning rate schedule: decay to zero (linear, cosine), by `decay` after each epoch from `decay_from` on "
        "(step), or by `decay` when the dev metric stops improving (plateau)",
        "training",
    )
    warmup: float = key(
        0.05, "fraction of all steps over which the learning rate rises from zero", "training", ge=0, lt=1
    )
    decay: float = key(
        0.5, "factor for the schedules step and plateau", "training", {"schedule": ("step", "plateau")}, gt=0, lt=1
    )
    decay_from: int = key(
        1, "epochs at the full learning rate, for the schedule step", "training", {"schedule": ("step",)}, ge=0
    )
    clip: float = key(5.0, "gradient clipping threshold; 0: no clipping", "training", ge=0)
    clip_by: Literal["norm", "value"] = key(
        "norm", "clip the norm of all gradients, or each value", "training", {"clip": ...}
    )
    accumulate: int = key(1, "batches per optimizer step (gradient accumulation)", "training", ge=1)
    average: float = key(
        0.0,
        "evaluate and save an exponential moving average of the weights with this decay, such as 0.999; 0: none",
        "training",
        ge=0,
        lt=1,
    )
    patience: int | None = key(None, "stop after this many epochs without improvement", "training", ge=1)
    start_from: Path | None = key(
        None,
        "a run whose weights training starts from; words and labels are matched by name",
        "training",
        metavar="RUN",
    )
    seed: int = key(0, "random seed; the same seed gives the same run", "training", ge=0, le=2**32 - 1)
    device: Literal["auto", "cpu", "cuda", "mps"] = key(
        "cpu", "where to train; auto: a GPU if there is one; Carousel's kernels run on cpu", "training"
    )
    precision: Literal["32", "bf16", "16"] = key(
        "32", "on a GPU: 32 bits, or mixed precision with bf16 or 16", "training", {"device": ("auto", "cuda", "mps")}
    )
    threads: int | None = key(None, "CPU threads; null: all", "training", ge=1, le=4096)
    checkpoint_minutes: float = key(5.0, "minutes between checkpoints within an epoch", "training", ge=0)
    baseline: bool = key(True, "fit simple baselines first, for comparison, if the task has any", "training")
    log_steps: int = key(50, "steps between rows of metrics.csv", "training", ge=1)

    @model_validator(mode="before")
    @classmethod
    def _known(cls, given: Any) -> Any:
        """Report unknown keys first: a misspelt key explains a missing one."""
        for name in given:
            cls.check_key(name, shorten(name))
        return given

    @field_validator("*", mode="before")
    @classmethod
    def _plain_numbers(cls, value: Any, info: ValidationInfo) -> Any:
        """To pydantic True is 1 and 1_000 is 1000, but `epochs: yes` means something else, and so may `1_000`; and a
        number beyond 2³¹ overflows in torch."""
        kind = cls.model_fields[info.field_name or ""].annotation
        if isinstance(value, bool) and kind is not bool:
            raise ValueError("should not be true or false")
        if isinstance(value, str) and "_" in value and kind in _NUMERIC:
            raise ValueError("should be a number in digits")
        if isinstance(value, int) and abs(value) >= 2**31 and info.field_name != "seed":
            raise ValueError("should be less than 2**31")
        return value

    @classmethod
    def preset(cls, name: str | None) -> Mapping[str, Any]:
        """The settings of a preset; None: none."""
        if name is None:
            return {}
        if name not in cls.PRESETS:
            hint = did_you_mean(str(name), cls.PRESETS) or f"presets are {', '.join(cls.PRESETS)}"
            raise SettingsError(f"preset: there is no {shorten(name)!r}; {hint}")
        return cls.PRESETS[name].settings

    @classmethod
    def read(
        cls, given: Mapping[str, Any], file: str | Path | None = None, pairs: Iterable[str] = (), **options: Any
    ) -> Self:
        """The settings in `given`, in the YAML `file`, in `pairs` of the form key=value, and in `options` not None.

        Later ones win.
        """
        values, places = gather(file, pairs, options)
        return cls.check({**given, **values}, places)

    @classmethod
    def check_key(cls, name: Any, place: str) -> None:
        """Raise if there is no key `name`; `place` is where it was given."""
        if name not in cls.model_fields:
            hint = near(str(name), cls.model_fields, cls.SYNONYMS)
            raise SettingsError(f"{place}: there is no such key{hint}")

    @classmethod
    def check(cls, values: Mapping[str, Any], places: Mapping[str, str]) -> Self:
        """The settings with these values; an error names the place where the value was given."""
        for name in values:  # before pydantic sees them, which does not know the places
            cls.check_key(name, places.get(name, shorten(name)))
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise SettingsError(explain(cls, error.errors()[0], places)) from None

    @property
    def unused(self) -> list[str]:
        """The keys that were changed, but do nothing with the others as they are, one line each."""
        lines = []
        for name, field in type(self).model_fields.items():
            for other, values in needs_of(field).items():
                value, there = getattr(self, name), getattr(self, other)
                if value != field.default and (there in (None, "none", 0) if values is ... else there not in values):
                    wanted = "" if values is ... else f"; it is for {either([shown(one) for one in values])}"
                    why = f"since {setting(other)} is {shown(there)}{wanted}"
                    lines.append(f"{setting(name)}: {shown(value)} does nothing, {why}")
        return lines

    def to_yaml(self) -> str:
        """All keys with their values, grouped, each with its line of help: a file that gives these settings again."""

        def line(name: str, field: FieldInfo) -> str:
            value = yaml.safe_dump(plain(getattr(self, name)), allow_unicode=True, default_flow_style=True, width=10**6)
            return f"{name}: {value.removesuffix('...' + chr(10)).strip(chr(10))}  # {field.description}\n"

        groups = {group: "".join(line(*one) for one in fields.items()) for group, fields in self.grouped().items()}
        return "\n".join(f"{BEGINNING}{group}\n{lines}" for group, lines in groups.items()) + f"\n{END}\n"

    @property
    def lasting(self) -> dict[str, Any]:
        """What a trained model depends on, in YAML's terms: not paths, which may be moved, nor how it is trained on."""
        return {
            name: plain(getattr(self, name))
            for name, field in type(self).model_fields.items()
            if name not in _FREE and not _has_path(field.annotation)
        }

    @classmethod
    def grouped(cls) -> dict[str, dict[str, FieldInfo]]:
        """The keys by group, in the order of files and help."""
        groups: dict[str, dict[str, FieldInfo]] = {"data": {}, "model": {}, "training": {}}
        for name, field in cls.model_fields.items():
            groups.setdefault(group_of(field), {})[name] = field
        return groups


class EnsembleSettings(Settings):
    """Keys of the tasks whose predictions can be averaged."""

    seeds: int = key(
        1,
        "number of models to train, with seeds from `seed` on; predictions of several are averaged (an ensemble)",
        "training",
        ge=1,
        le=1000,
    )


def gather(
    file: str | Path | None, pairs: Iterable[str], options: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, str]]:
    """The merged values of a YAML file, key=value pairs and options that are not None, and where each key was set."""
    merged: dict[str, Any] = {}
    places: dict[str, str] = {}
    if file is not None:
        values, lines = load_yaml(Path(file))
        _refuse_code(values, file, lines)
        merged |= values
        places |= {name: f"{file}:{line}: {shorten(name)}" for name, line in lines.items()}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise SettingsError(f"--set {shorten(pair)}: write it as key=value")
        try:
            merged[name] = parse_yaml(value)
        except ParseError as error:
            raise SettingsError(f"--set {shorten(pair)}: not YAML ({error.problem})") from None
        places[name] = f"--set {shorten(name)}"
    for name, value in options.items():
        if value is not None:
            merged[name] = value
            places[name] = dashed(name)
    return merged, places


def _refuse_code(values: Mapping[str, Any], file: str | Path, lines: Mapping[str, int]) -> None:
    """Raise if a settings file names code of a user's: only what the user says in a command or call is executed."""
    for name, value in values.items():
        if isinstance(value, str) and is_place(value):
            remedy = f"give it as {dashed(name)}"
            raise SettingsError(
                f"{file}:{lines.get(name, 1)}: {name}: {shorten(value)} is code, which a file cannot name; {remedy}"
            )


def plain(value: Any) -> Any:
    """`value` in YAML's terms, files by their absolute paths, so that it means the same in every directory."""
    if isinstance(value, tuple | list):
        return [plain(v) for v in value]
    return os.path.abspath(value) if isinstance(value, Path) else value


def shown(value: Any) -> str:
    """`value` as a user would write it.

    >>> from pathlib import Path
    >>> shown(Path("poems.txt")), shown(None), shown(True), shown("adam"), shown([Path("a.en"), Path("a.de")])
    ('poems.txt', 'null', 'true', 'adam', '[a.en, a.de]')
    """
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(shown, value))}]"
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)


def _has_path(annotation: Any) -> bool:
    return annotation is Path or any(map(_has_path, get_args(annotation)))


def group_of(field: Any) -> str:
    return (field.json_schema_extra or {}).get("group", "other")


def needs_of(field: Any) -> dict[str, Any]:
    return (field.json_schema_extra or {}).get("needs", {})


def near(name: str, known: Iterable[str], synonyms: Mapping[str, str]) -> str:
    """`; did you mean …?`, or what there is if nothing is near."""
    known = list(known)
    others = {word: meant for word, meant in synonyms.items() if meant in known}
    hint = did_you_mean(name.replace("-", "_"), known, others)
    return f"; {hint or 'keys are ' + ', '.join(sorted(known))}"


_KINDS = {"int": "should be a whole number", "float": "should be a number", "bool": "should be true or false"}


def explain(cls: type[Settings], error: ErrorDetails, places: Mapping[str, str]) -> str:
    """pydantic's first complaint in one line: place, key, what was given, what would be right."""
    name = str(error["loc"][0]) if error["loc"] else ""
    if error["type"] == "missing":
        return f"{setting(name)}: missing; give {cls.model_fields[name].description}"
    field = cls.model_fields.get(name)
    words = [] if field is None else [word for part in get_args(field.annotation) for word in get_args(part)]
    message = requirement(error, [word for word in words if isinstance(word, str)])
    if not name:  # an error about several keys has its own message
        return message
    got = error["input"]
    named = isinstance(got, type) or (isinstance(got, str) and (repr(got) in message or ".py" in got))
    if named:  # the message names it already, or its file
        return f"{places.get(name, name)}: {message}"
    return f"{places.get(name, name)}: {message}, got {as_given(got)}"


def as_given(value: Any) -> str:
    """A value that cannot be, for a message; text that is no number in quotes.

    >>> as_given("2"), as_given(1.5), as_given("two"), as_given(None)
    ('2', '1.5', "'two'", 'null')
    """
    return shorten(repr(value) if isinstance(value, str) and parse_number(value) is None else shown(value))


def requirement(error: ErrorDetails, words: Sequence[str] = ()) -> str:
    """What a value should be by one of pydantic's complaints; `words` are those that may stand in place of a number."""
    kind, _, what = error["type"].partition("_")
    if kind in _KINDS and what in ("type", "parsing", "from_float"):
        return _KINDS[kind] + "".join(f" or {word!r}" for word in words)
    message = re.sub(r"^(Input|Value) (error, )?", "", error["msg"])
    return message[:1].lower() + message[1:]


def load_yaml(path: Path) -> tuple[dict[str, Any], dict[str, int]]:
    """The mapping in a YAML file, and the line of each key."""
    if path.is_dir():
        raise SettingsError(f"{path}: is a directory; give a file of settings")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        problem = f"byte {error.object[error.start]:#04x} at {error.start} is not UTF-8"
        raise SettingsError(f"{path}: {problem}; give a YAML file of settings, such as a run's config.yaml") from error
    try:
        values = parse_yaml(text)
        keys = yaml_keys(text) if isinstance(values, dict) else []
    except ParseError as error:
        where = f"{path}:{error.line}" if error.line else f"{path}"
        raise SettingsError(f"{where}: not YAML ({error.problem})") from None
    if values is None:
        return {}, {}
    if not isinstance(values, dict):
        raise SettingsError(f"{path}: a settings file has lines of the form key: value")
    lines: dict[str, int] = {}
    for name, line in keys:
        if name in lines:
            raise SettingsError(f"{path}:{line}: {shorten(name)} is given twice; keep one")
        lines[name] = line
    return values, lines
