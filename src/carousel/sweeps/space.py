"""The space of a sweep: for each key that is varied, a list of values or a range, checked against the task's settings.

In text, `hidden=128,256` is a list and `lr=1e-4..1e-2` a range; `dropout=0..0.5:0.1` has steps, and `:log` or
`:linear` names the scale. In YAML and in Python a list may also be a list, and a range a mapping with the keys low,
high, log and step.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import TypeAdapter, ValidationError

from ..errors import SettingsError, did_you_mean, shorten
from ..parsing import ParseError, parse_yaml
from ..training.settings import explain, load_yaml, plain, shown
from ..wording import setting

FIXED = ("task", "train", "dev")  # keys that a sweep cannot vary
WIDE = 10  # a range whose ends differ by this factor or more is sampled on a log scale


@dataclass(frozen=True)
class Choices:
    """One of several values."""

    values: tuple[Any, ...]

    def __contains__(self, value: Any) -> bool:
        return any(value == own and type(value) is type(own) for own in self.values)

    @property
    def count(self) -> int:
        return len(self.values)

    def listed(self) -> Iterator[Any]:
        return iter(self.values)

    def __str__(self) -> str:
        return ",".join(map(shown, self.values))


@dataclass(frozen=True)
class Range:
    """A number from `low` to `high`, both included, on a log scale or in steps of `step`."""

    low: float
    high: float
    log: bool = False
    step: float | None = None

    def __contains__(self, value: Any) -> bool:
        if isinstance(value, bool) or not isinstance(value, int | float) or not self.low <= value <= self.high:
            return False
        steps = 0.0 if self.step is None else (value - self.low) / self.step
        return abs(steps - round(steps)) < 1e-8

    @property
    def count(self) -> float:
        """How many values it has; a number that is not whole and has no step has any number of them."""
        step = self.step or (1 if isinstance(self.low, int) else 0)
        return math.floor((self.high - self.low) / step + 1e-8) + 1 if step else math.inf

    def listed(self) -> Iterator[Any]:
        """The values, if they can be counted."""
        return (self.low + k * (self.step or 1) for k in range(int(self.count)))

    def __str__(self) -> str:
        scale = ":log" if self.log else "" if self.step is None else f":{self.step:g}"
        return f"{self.low:g}..{self.high:g}{scale}"


Space = dict[str, Choices | Range]


def as_dict(space: Space) -> dict[str, Any]:
    """The space in JSON's terms."""
    return {name: list(one.values) if isinstance(one, Choices) else {**asdict(one)} for name, one in space.items()}


def as_text(one: Any) -> str:
    """A part of what `as_dict` gives, as it is written on the command line.

    >>> as_text([128, 256]), as_text({"low": 0.0, "high": 0.5, "log": False, "step": 0.1})
    ('128,256', '0..0.5:0.1')
    """
    return str(Choices(tuple(one)) if isinstance(one, list) else Range(**one))


def gather_space(file: Path | None, pairs: Iterable[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """What a YAML file and pairs of the form key=values say together, and where each key was given."""
    values, lines = ({}, {}) if file is None else load_yaml(file)
    places = {name: f"{file}:{line}: {shorten(name)}" for name, line in lines.items()}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise SettingsError(f"--vary {shorten(pair)}: write it as key=value,value or key=low..high")
        if places.get(name, "").startswith("--vary"):
            raise SettingsError(f"--vary {shorten(name)}: given twice; keep one")
        values[name], places[name] = text, f"--vary {shorten(name)}"
    return values, places


def parse_space(
    kind: Any, settings: Mapping[str, Any], vary: Mapping[str, Any], places: Mapping[str, str] | None = None
) -> Space:
    """The space that `vary` describes for the settings class `kind`; `settings` are those that are not varied.

    Raises a SettingsError that names the place of the first key or value that cannot be.
    """
    places = dict(places or {})
    if not vary:
        raise SettingsError("vary: nothing to vary; give settings with values or a range, such as lr=1e-4..1e-2")
    space: Space = {}
    for name, given in vary.items():
        place = places.setdefault(str(name), f"vary {shorten(name)}")
        kind.check_key(name, place)
        if name in FIXED:
            raise SettingsError(f"{place}: cannot be varied; make one sweep for each")
        described = _read(given, place)
        check = _Checker(kind, {**settings}, name, places)
        space[name] = check.range(described) if isinstance(described, dict) else check.choices(described)
    return space


def _read(given: Any, place: str) -> dict[str, Any] | list[Any]:
    """A description as a mapping with low and high, or a list of values; numbers may still be text."""
    if isinstance(given, Mapping):
        for key in given:
            if key not in ("low", "high", "log", "step"):
                hint = did_you_mean(str(key), ["low", "high", "log", "step"])
                raise SettingsError(f"{place}: a range has low, high, log and step, not {shorten(key)}; {hint}")
        if not {"low", "high"} <= given.keys():
            raise SettingsError(f"{place}: a range needs low and high")
        return dict(given)
    if isinstance(given, list | tuple):
        return list(given)
    text = str(given)
    low, dots, rest = text.partition("..")
    if not dots:
        return [_scalar(part, place) for part in text.split(",")]
    high, colon, scale = rest.partition(":")
    described: dict[str, Any] = {"low": low.strip(), "high": high.strip()}
    if scale.strip() in ("log", "linear"):
        described["log"] = scale.strip() == "log"
    elif colon:
        described["step"] = scale.strip()
    return described


def _scalar(text: str, place: str) -> Any:
    try:
        return parse_yaml(text.strip())
    except ParseError as error:
        raise SettingsError(f"{place}: {shorten(text)}: not YAML ({error.problem})") from None


class _Checker:
    """Values of one key, checked by the settings class as if each were given alone."""

    def __init__(self, kind: Any, settings: dict[str, Any], name: str, places: Mapping[str, str]) -> None:
        self.kind, self.settings, self.name, self.places = kind, settings, name, places
        self.place = places[name]

    def value(self, given: Any) -> Any:
        """`given` as the settings have it. What keys may not have together is found when a trial has both."""
        try:
            checked = self.kind.model_validate({**self.settings, self.name: given})
        except ValidationError as error:
            for one in error.errors():
                if one["loc"] and one["loc"][0] == self.name:
                    raise SettingsError(explain(self.kind, one, self.places)) from None
            field = self.kind.model_fields[self.name]
            kind: Any = Annotated[field.annotation, *field.metadata]
            return plain(TypeAdapter(kind).validate_python(given))
        return plain(getattr(checked, self.name))

    def choices(self, given: list[Any]) -> Choices:
        values = tuple(self.value(one) for one in given)
        for k, value in enumerate(values):
            if not (value is None or isinstance(value, bool | int | float | str)):
                raise SettingsError(f"{self.place}: {shown(value)} is not a single value, which a sweep needs")
            if value in Choices(values[:k]):
                raise SettingsError(f"{self.place}: {shorten(shown(value))} is given twice; keep one")
        if len(values) < 2:
            raise SettingsError(
                f"{self.place}: one value is not a choice; give several, or set it with {setting(self.name)}"
            )
        return Choices(values)

    def range(self, given: dict[str, Any]) -> Range:
        low, high = self.value(given["low"]), self.value(given["high"])
        for end in (low, high):
            if isinstance(end, bool) or not isinstance(end, int | float):
                raise SettingsError(f"{self.place}: a range has numbers at its ends, not {shown(end)}; list the values")
        if not low < high:
            raise SettingsError(f"{self.place}: the range {low:g}..{high:g} is empty; give the smaller end first")
        step, log = self._step(given.get("step"), low), given.get("log")
        if log is not None and not isinstance(log, bool):
            raise SettingsError(f"{self.place}: log is true or false, not {shorten(shown(log))}")
        if log and step is not None:
            raise SettingsError(f"{self.place}: a log scale has no step; leave out one of them")
        if log and low <= 0:
            raise SettingsError(f"{self.place}: a log scale begins above 0, not at {low:g}")
        if log is None:
            log = step is None and low > 0 and high >= WIDE * low
        return Range(low, high, log, step)

    def _step(self, given: Any, low: float) -> float | None:
        """A step of the type of the ends."""
        if given is None:
            return None
        try:
            step = type(low)(given)
        except (TypeError, ValueError):
            step = 0
        if step <= 0:
            kind = "a whole number" if isinstance(low, int) else "a number"
            raise SettingsError(f"{self.place}: the step is {kind} above 0 (or log, linear), not {shorten(given)}")
        return step
