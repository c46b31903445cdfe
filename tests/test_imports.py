"""Imports follow the table of packages in ARCHITECTURE.md, and no modules import one another in a circle.

Every import statement of `src/carousel` counts, also those inside functions and under `TYPE_CHECKING`. What the code
does not keep to yet is listed in `import_exceptions.txt`; an entry that is no longer needed fails the test, so the list
only shrinks.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
EXCEPTIONS = Path(__file__).with_name("import_exceptions.txt")
FRONT = "__init__"  # carousel/__init__.py as a row of the table

Table = dict[str, set[str]]
Edge = tuple[str, str]


# ---- what ARCHITECTURE.md allows ----


def read_table(text: str) -> Table:
    """The table `package | holds | may import`: every package with what it may import, directly or through another.

    The base modules, whose row says `nothing`, may be imported by every package. A row with `—` is not Python.
    """
    rows = re.search(r"^\| package \| holds \| may import \|\n\|[-| ]+\|\n((?:\|.*\|\n)+)", text, re.MULTILINE)
    assert rows, "ARCHITECTURE.md has no table | package | holds | may import |"
    direct: Table = {}
    base: set[str] = set()
    for row in rows[1].splitlines():
        names, _, allowed = (cell.strip() for cell in row.strip("|").split(" | "))
        packages = {name.removesuffix("/").removesuffix(".py") for name in re.findall(r"`([^`]+)`", names)}
        if allowed == "—":
            continue
        named = set(re.findall(r"`([^`]+)`", allowed))
        assert packages and (named or allowed in ("nothing", "base modules")), f"cannot read {row!r}"
        assert not (twice := packages & {*direct}), f"two rows for {sorted(twice)}"
        direct |= dict.fromkeys(packages, named)
        base |= packages if allowed == "nothing" else set()
    return closed({package: named if package in base else named | base for package, named in direct.items()})


def closed(direct: Table) -> Table:
    """Each package with all it reaches; a package that reaches itself, or one without a row, is an error."""
    unknown = {name for names in direct.values() for name in names} - {*direct}
    assert not unknown, f"no row for {sorted(unknown)}"
    reached: Table = {}
    for package in TopologicalSorter(direct).static_order():
        reached[package] = direct[package].union(*(reached[name] for name in direct[package]))
    return reached


# ---- what the code does ----


def modules(source: Path) -> dict[str, Path]:
    """Every module below `source` by its dotted name; a package is its `__init__.py`."""
    found = {}
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(name: str, path: Path, known: dict[str, Path]) -> Iterator[str]:
    """The modules of `known` that module `name` imports, anywhere in its file."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            wanted = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            origin = ".".join([*above, *([node.module] if node.module else [])])
            wanted = [full if (full := f"{origin}.{alias.name}") in known else origin for alias in node.names]
        else:
            continue
        for module in wanted:
            if module.partition(".")[0] == name.partition(".")[0]:
                assert module in known, f"{path}:{node.lineno}: {module} is not a module"
                yield module


def edges(source: Path) -> set[Edge]:
    known = modules(source)
    return {
        (name, imported) for name, path in known.items() for imported in imports(name, path, known) if imported != name
    }


def package_of(module: str) -> str:
    return [*module.split("."), FRONT][1]


def violations(graph: set[Edge], table: Table) -> set[Edge]:
    """The imports between packages that the table does not allow."""
    pairs = {(a, b): (package_of(a), package_of(b)) for a, b in graph}
    missing = {package for pair in pairs.values() for package in pair} - {*table}
    assert not missing, f"ARCHITECTURE.md has no row for {sorted(missing)}"
    return {edge for edge, (a, b) in pairs.items() if a != b and b not in table[a]}


def cycle(graph: set[Edge]) -> list[str]:
    """Modules that import one another in a circle, first and last the same; empty without one."""
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for importer, imported in sorted(graph):
        sorter.add(importer, imported)
    try:
        sorter.prepare()
    except CycleError as error:
        return error.args[1][::-1]
    return []


def exceptions() -> set[Edge]:
    lines = [line.partition("#")[0].strip() for line in EXCEPTIONS.read_text("utf-8").splitlines()]
    listed = [tuple(part.strip() for part in line.split("→")) for line in lines if line]
    assert all(len(edge) == 2 for edge in listed), f"{EXCEPTIONS.name}: a line is `importer → imported`"
    assert len({*listed}) == len(listed), f"{EXCEPTIONS.name} has an entry twice"
    return {(importer, imported) for importer, imported in listed}


def shown(found: set[Edge]) -> str:
    return "\n".join(f"  {importer} → {imported}" for importer, imported in sorted(found))


# ---- the tests ----


@pytest.fixture(scope="module")
def graph() -> set[Edge]:
    return edges(SOURCE)


@pytest.fixture(scope="module")
def table() -> Table:
    return read_table((ROOT / "ARCHITECTURE.md").read_text("utf-8"))


def test_each_row_is_a_package_that_exists(table):
    here = {
        path.stem for path in (SOURCE / "carousel").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert {*table} == here


def test_imports_keep_to_the_table(graph, table):
    found = violations(graph, table) - exceptions()
    assert not found, f"ARCHITECTURE.md does not allow:\n{shown(found)}"


def test_modules_do_not_import_one_another_in_a_circle(graph):
    assert not (circle := cycle(graph - exceptions())), " → ".join(circle)


def test_every_exception_is_needed(graph, table):
    """Without it the code would import what the table forbids, or in a circle."""
    listed = exceptions()
    assert not (gone := listed - graph), f"no longer imported, remove from {EXCEPTIONS.name}:\n{shown(gone)}"
    allowed = {edge for edge in listed - violations(graph, table) if not cycle(graph - listed | {edge})}
    assert not allowed, f"no exception needed, remove from {EXCEPTIONS.name}:\n{shown(allowed)}"


def test_modules_are_imported_by_name_only_inside_their_package():
    """`import_module` hides an import from the tests above: only a package's own modules are loaded that way."""
    for name, path in modules(SOURCE).items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        text = path.read_text("utf-8")
        nodes = ast.walk(ast.parse(text)) if "import_module" in text or "__import__" in text else ()
        for node in nodes:
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
                wanted = ast.unparse(node.args[0]).lstrip("f\"'")
                own = "{__name__}." if path.name == "__init__.py" else "{__package__}."
                parts_of_a_task = wanted.startswith(".") and name == "carousel.tasks.base"
                assert parts_of_a_task or wanted.startswith((own, f"{package}.")), f"{path}:{node.lineno}: {wanted}"


# ---- the guard itself, on packages made for it ----


@pytest.fixture
def source(tmp_path):
    """A tree of modules from their texts."""

    def make(**texts):
        for name, text in texts.items():
            path = tmp_path / "carousel" / (name.replace("__", "/") + ".py" if name != "front" else "__init__.py")
            path.parent.mkdir(parents=True, exist_ok=True)
            (path.parent / "__init__.py").touch()
            path.write_text(text)
        return tmp_path

    return make


TABLE = """
| package | holds | may import |
|---|---|---|
| `base`, `other` | base modules | nothing |
| `csrc/` | C++ | — |
| `low/` | the lower one | base modules |
| `high/` | the upper one | `low` |
| `top.py` | the top | `high` |
| `cli/` | commands | `top`, `low` |
"""


def test_a_row_allows_what_it_names_what_that_may_import_and_the_base():
    assert read_table(TABLE) == {
        "base": set(),
        "other": set(),
        "low": {"base", "other"},
        "high": {"low", "base", "other"},
        "top": {"high", "low", "base", "other"},
        "cli": {"top", "high", "low", "base", "other"},
    }


@pytest.mark.parametrize(
    "text",
    [
        "from carousel.high import x",
        "import carousel.high.x",
        "from ..high import x",
        "from .. import high",
        "def f():\n    from ..high.x import y",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ..high.x import y",
        "class A:\n    try:\n        import carousel.high\n    except ImportError:\n        pass",
    ],
)
def test_an_import_upwards_is_found_however_it_is_written(source, text):
    graph = edges(source(low__a=text, high__x="y = 1"))
    (found,) = violations(graph, read_table(TABLE))
    assert found[0] == "carousel.low.a" and found[1].startswith("carousel.high")


def test_imports_downwards_and_within_a_package_are_allowed(source):
    tree = source(
        base="", low__a="from .. import base\nfrom . import b", low__b="", high__x="import carousel.low.a, torch"
    )
    assert violations(edges(tree), read_table(TABLE)) == set()


def test_a_base_module_may_not_import_another(source):
    assert violations(edges(source(base="from . import other", other="")), read_table(TABLE)) == {
        ("carousel.base", "carousel.other")
    }


def test_a_package_without_a_row_is_an_error(source):
    with pytest.raises(AssertionError, match=r"no row for \['new'\]"):
        violations(edges(source(base="", new__a="import carousel.base")), read_table(TABLE))


def test_a_circle_is_found_through_type_checking_and_functions(source):
    tree = source(
        low__a="from . import b",
        low__b="if TYPE_CHECKING:\n    from . import c",
        low__c="def f():\n    from .a import x",
    )
    circle = cycle(edges(tree))
    assert circle[0] == circle[-1] and {*circle} == {"carousel.low.a", "carousel.low.b", "carousel.low.c"}


def test_a_table_with_a_circle_is_an_error():
    with pytest.raises(CycleError):
        read_table(TABLE.replace("| `low/` | the lower one | base modules |", "| `low/` | the lower one | `top` |"))
