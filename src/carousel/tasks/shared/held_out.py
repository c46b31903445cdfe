"""Validation data: the file `dev`, or a part of the training data that is held out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, NamedTuple, TypeVar

from pydantic import Field, model_validator

from ...errors import SettingsError
from ...training.settings import Choices, Settings, key
from ...wording import setting

if TYPE_CHECKING:
    from ...data.sources.split import ByExample
    from ...training import Data

    S = TypeVar("S", bound=ByExample)
else:
    S = TypeVar("S")

Share = Annotated[float, Field(gt=0, le=0.5)] | Literal["none"]


class HeldOutSettings(Settings):
    """Keys of the tasks that hold out a part of the training data."""

    dev_split: Annotated[Share, Choices(lambda: (), "X|none")] = key(
        0.05,
        "fraction of train, 0.5 at most, to hold out for validation if there is no dev; none: hold out nothing",
        "data",
    )
    share: float = key(
        1.0, "fraction of the training examples to use, chosen by a hash of their texts", "data", gt=0, le=1
    )
    learning_curve: bool = key(
        False, "also train on 12.5, 25 and 50 % of the training examples, to see what more data is worth", "training"
    )
    dev_seed: int = key(0, "seed of the choice of what is held out", "data", {"dev_split": ...}, ge=0, le=2**32 - 1)

    @model_validator(mode="before")
    @classmethod
    def _dev_or_split(cls, given: Any) -> Any:
        """With a file for validation nothing is held out, and the settings say so."""
        if not isinstance(given, Mapping) or given.get("dev") in (None, ()):
            return given
        if given.get("dev_split", "none") not in ("none", None):
            raise SettingsError(
                f"{setting('dev_split')}: {given['dev_split']} of the training data cannot be held out when "
                f"{setting('dev')} is given; leave out one of the two"
            )
        return {**given, "dev_split": "none"}


class Sources(NamedTuple, Generic[S]):
    """The sources of a run."""

    whole: S  # all of the training file: labels are learned from it
    train: S  # what is trained on
    dev: S | None  # the validation data
    name: str = ""  # of the validation data
    held_out: dict[str, Any] | None = None  # what of the file is held out, for result.json
    text: str = ""  # the same in words, or why nothing is held out

    def describe(self, data: Data) -> Data:
        """`data` with what was held out, which the log and the report show."""
        data.held_out = self.held_out
        if self.held_out is not None:
            data.info["held out"] = self.text
        elif self.text:
            data.notes.append(self.text)
        return data


def open_sources(settings: Any, open: Callable[[Any], S], unit: str, *, running: bool = False) -> Sources[S]:
    """The training source and, if there is any, that of the validation data. `open` makes a source of a file (or of
    two), `unit` is what an example is called; `running` text is split in two, not by examples."""
    from ...data.sources.split import Part, split_end, split_examples

    s = settings
    whole = open(s.train)
    if running and (s.share < 1 or s.learning_curve):
        remedy = f"give {setting('layout', 'lines')}"
        name = setting("share" if s.share < 1 else "learning_curve")
        raise SettingsError(f"{name}: running text has no examples to choose from; {remedy}")
    some = whole if s.share == 1 else whole.take(Part(s.dev_seed, 0, (), False, s.share))
    if s.dev is not None:
        return Sources(whole, some, open(s.dev), _names(s.dev))
    if s.dev_split == "none":
        return Sources(whole, some, None)
    split = split_end(Path(s.train), s.dev_split) if running else split_examples(whole, s.dev_split, s.dev_seed)
    file = _names(s.train)
    if split.rest is None or split.held_out is None:
        remedy = f"give {setting('dev')} to measure the model while it trains"
        return Sources(whole, some, None, text=f"{file}: {split.problem} to hold some out for validation; {remedy}")
    choice: dict[str, Any] = {"file": file, "share": s.dev_split}
    if running:
        choice["from_line"] = line = split.held_out[1]
        text = f"the last {split.examples / split.total:.1%} of {file}, from line {line:,} on"
    else:
        choice |= {"seed": s.dev_seed, "examples": split.examples, "of": split.total}
        text = f"{split.examples:,} of {split.total:,} {unit} of {file} ({setting('dev_seed')} {s.dev_seed})"
    rest = split.rest._replace(share=s.share) if isinstance(split.rest, Part) else split.rest
    return Sources(whole, whole.take(rest), whole.take(split.held_out), f"{file} (held out)", choice, text)


def _names(given: Any) -> str:
    return " + ".join(map(str, given)) if isinstance(given, tuple | list) else str(given)
