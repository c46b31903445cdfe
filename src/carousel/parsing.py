"""JSON and YAML from files that people edit and disks damage: whatever is wrong with a text is a `ParseError`.

Both are read with bounds, so that no text can exhaust stack or memory. YAML is read as settings need it: without
aliases and tags, dates are text, and a number is written in digits (`1_000` and `1:30` are text, not 1000 and 90).
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable
from typing import Any

import yaml

DEPTH = 100  # levels of lists and objects in one another
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")


class ParseError(ValueError):
    """Text that is not JSON or YAML as it is read here: what is wrong, and where, counted from 1."""

    def __init__(self, problem: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(problem, line, column)
        self.problem, self.line, self.column = problem, line, column

    def __str__(self) -> str:
        where = f" at line {self.line}, column {self.column}" if self.line is not None else ""
        return self.problem + where


def parse_number(text: str) -> float | None:
    """The number that a text is; None if it is none. Python's own `float` would read 1_000 as 1000.

    >>> parse_number(" -1.5e3"), parse_number("1_000"), parse_number("nan"), parse_number("1,5")
    (-1500.0, None, nan, None)
    """
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def parse_json(text: str) -> Any:
    """The value of a JSON text.

    >>> parse_json('{"labels": ["good", "bad"')
    Traceback (most recent call last):
    ...
    carousel.parsing.ParseError: expecting ',' delimiter at line 1, column 26
    >>> parse_json('["\\\\ud800"]')
    Traceback (most recent call last):
    ...
    carousel.parsing.ParseError: \\ud800 is half a character (a lone surrogate) at line 1, column 3
    """
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        problem = error.msg[:1].lower() + error.msg[1:].removesuffix(" at")
        raise ParseError(problem, error.lineno, error.colno) from None
    except RecursionError:
        raise ParseError(f"nested more than {DEPTH} levels deep") from None
    except ValueError:  # Python's limit of digits
        raise ParseError("a whole number has too many digits") from None
    if text.count("[") + text.count("{") > DEPTH and _depth(value) > DEPTH:
        raise ParseError(f"nested more than {DEPTH} levels deep")
    if _SURROGATE.search(text):
        _refuse_surrogates(text)
    return value


def _depth(value: Any) -> int:
    """Levels of lists and objects, as far as one more than are allowed."""
    depth, level = 0, [value]
    while depth <= DEPTH and (level := [part for part in level if isinstance(part, list | dict)]):
        depth += 1
        level = [item for part in level for item in (part.values() if isinstance(part, dict) else part)]
    return depth


def _refuse_surrogates(text: str) -> None:
    """Raise if an escape of `text`, which is JSON, is half a character: it could be neither printed nor saved."""
    for escape in re.finditer(r"\\u([dD][89abAB]..)\\u([dD][c-fC-F]..)|\\(?:u(....)|.)", text):  # pairs are whole
        if escape[3] and 0xD800 <= int(escape[3], 16) < 0xE000:
            line = text.count("\n", 0, escape.start()) + 1
            column = escape.start() - text.rfind("\n", 0, escape.start())
            raise ParseError(f"{escape[0]} is half a character (a lone surrogate)", line, column)


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader with the bounds and the numbers of this module."""

    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()
        line, column = event.start_mark.line + 1, event.start_mark.column + 1
        if isinstance(event, yaml.AliasEvent):
            raise ParseError(f"*{event.anchor[:40]} is an alias; write the value itself", line, column)
        if getattr(event, "tag", None) not in (None, "!"):
            raise ParseError(f"{_tag(event.tag)} is a tag; write the value without it", line, column)
        if self.depth >= DEPTH:
            raise ParseError(f"nested more than {DEPTH} levels deep", line, column)
        self.depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1


def _tag(tag: str) -> str:
    """A tag as it is written."""
    return tag.replace("tag:yaml.org,2002:", "!!")[:40]


_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float", "tag:yaml.org,2002:timestamp")
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in known if tag not in _NUMBERS]
    for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(_NUMBERS[0], re.compile(r"[-+]?(0|[1-9][0-9]{0,4000})$"), list("-+0123456789"))
_Loader.add_implicit_resolver(
    _NUMBERS[1],
    re.compile(r"[-+]?([0-9]+\.[0-9]*([eE][-+][0-9]+)?|\.[0-9]+([eE][-+][0-9]+)?|\.(inf|Inf|INF))$|\.(nan|NaN|NAN)$"),
    list("-+0123456789."),
)


def parse_yaml(text: str) -> Any:
    """The value of a YAML text.

    >>> parse_yaml("hidden: 1_000\\nlr: 0.5")
    {'hidden': '1_000', 'lr': 0.5}
    >>> parse_yaml("a: &x [1]\\nb: *x")
    Traceback (most recent call last):
    ...
    carousel.parsing.ParseError: *x is an alias; write the value itself at line 2, column 4
    """
    node = _compose_yaml(text)
    return None if node is None else _yaml_errors(lambda: _Loader("").construct_document(node))


def yaml_keys(text: str) -> list[tuple[str, int]]:
    """The keys of the mapping that a YAML text is, each with its line, in their order; repeated ones too."""
    return [(str(name.value), name.start_mark.line + 1) for name, _ in _compose_yaml(text).value]


@functools.lru_cache(maxsize=4)
def _compose_yaml(text: str) -> Any:
    """The node of a YAML text, None if there is nothing in it.

    Composing takes nearly all the time of reading, and config.yaml is read for the task, the cell and the settings.
    """
    if (end := re.search(r"^\.\.\.[ \t]*$", text, re.MULTILINE)) and (
        more := re.compile(r"^(?!\.\.\.[ \t]*$)[ \t]*[^\s#]", re.MULTILINE).search(text, end.end())
    ):
        raise ParseError("nothing may follow the line ...", text.count("\n", 0, more.start()) + 1, 1)
    return _yaml_errors(lambda: _Loader(text).get_single_node())


def _yaml_errors(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = " ".join(str(getattr(error, "problem", None) or error).split())[:200]
        raise ParseError(problem, *((mark.line + 1, mark.column + 1) if mark else ())) from None
