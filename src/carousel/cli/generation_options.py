"""The options of `carousel generate` and `carousel translate`: the fields of GenerationConfig."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Iterable, Iterator
from dataclasses import Field
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from carousel.decoding.config import NAMES, GenerationConfig, OptionError, spelled
from carousel.wording import dashed

from .app import METAVARS, with_parameters

SHORT = {"num_return_sequences": ("-n",)}
T = TypeVar("T")
FILES = ("attention", "tree")  # on the command line these name the file to draw into


def generation_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for each field of GenerationConfig; the command receives them as `config`."""
    hints = typing.get_type_hints(command, include_extras=True)
    own = {
        name: parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
        for name, parameter in inspect.signature(command).parameters.items()
        if name != "config"
    }
    file = typer.Option("--config", metavar="FILE", help="Options in a YAML file; the command line overrides it.")
    shared = [_parameter(name, field) for name, field in NAMES.items() if name not in FILES]
    shared.append(_keyword("config", Annotated[Path | None, file]))

    @functools.wraps(command)
    def run(**given: Any) -> None:
        chosen = {name: given.pop(name) for name in NAMES if name in given and name not in own}
        try:
            command(**given | {"config": _read(given.pop("config"), chosen)})
        except OptionError as error:
            raise typer.BadParameter(str(error)) from error

    return with_parameters(run, [*own.values(), *shared])


def with_seed(results: Iterable[T], config: GenerationConfig, resolved: GenerationConfig) -> Iterator[T]:
    """`results`; a seed that was not given is printed before the first, so that the samples can be repeated."""
    for number, result in enumerate(results):
        if number == 0 and resolved.do_sample and config.seed is None:
            typer.echo(f"seed: {resolved.seed}", err=True)
        yield result


def _read(file: Path | None, given: dict[str, Any]) -> GenerationConfig:
    """The config of a YAML file and of the options that were given."""
    options = {name: value for name, value in given.items() if value is not None}
    if places := options.pop("constraints", None):
        from carousel.decoding import load_constraint

        options["constraints"] = [load_constraint(place) for place in places]
    if "early_stopping" in options:
        word = options["early_stopping"]
        options["early_stopping"] = {"true": True, "false": False}.get(word, int(word) if word.isdecimal() else word)
    return GenerationConfig.of(None if file is None else GenerationConfig.load(file), options)


def _parameter(name: str, field: Field[Any]) -> inspect.Parameter:
    """The option of a field. Without it the value is None, so that a file can give another."""
    known = field.metadata
    kind: Any = {list: list[str]}.get(known["kind"], known["kind"])
    if name == "early_stopping":
        kind = str
    names = [dashed(name)] if kind is not bool else [f"{dashed(name)}/--no-{dashed(name)[2:]}"]
    plain = field.default not in (None, "", ()) and kind is not bool
    default = f" [default: {str(field.default).lower()}]" if plain else ""
    option = typer.Option(
        *names,
        *SHORT.get(name, ()),
        help=spelled(known["help"], dashed) + default,
        rich_help_panel=known["group"],
        metavar="|".join(known["choices"]) or known["metavar"] or METAVARS.get(kind),
        show_default=False,
    )
    return _keyword(name, Annotated[kind | None, option])


def _keyword(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
