"""The tests mirror the tree: `src/carousel/a/b.py` is tested by `tests/a/test_b.py`.

No test of its own is needed by `__init__.py` and `__main__.py`, by what is in `vendor/`, and by a module that has
nothing to run: constants, names imported from elsewhere, classes whose methods only declare. Modules that should have
one and do not are listed in `untested_modules.txt`; an entry that is no longer needed fails the test, so the list only
shrinks.
"""

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "carousel"
LIST = Path(__file__).with_name("untested_modules.txt")


def runs(text: str) -> bool:
    """Whether a module has a function that does anything."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Lambda):
            return True
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
            if any(not isinstance(part, ast.Pass) and ast.unparse(part) != "..." for part in body):
                return True
    return False


def untested(source: Path, tests: Path) -> set[str]:
    """The modules below `source` that need a test of their name below `tests` and have none."""
    found = set()
    for path in source.rglob("*.py"):
        module = path.relative_to(source)
        if path.stem in ("__init__", "__main__") or "vendor" in module.parts:
            continue
        if not (tests / module.with_name(f"test_{path.name}")).exists() and runs(path.read_text("utf-8")):
            found.add(module.as_posix())
    return found


def listed() -> list[str]:
    lines = (line.partition("#")[0].strip() for line in LIST.read_text("utf-8").splitlines())
    return [line for line in lines if line]


def test_every_module_has_a_test_of_its_name():
    missing = sorted(untested(SOURCE, TESTS) - set(listed()))
    wanted = ", ".join(f"tests/{Path(m).with_name('test_' + Path(m).name).as_posix()}" for m in missing)
    assert not missing, f"write {wanted}"


def test_every_exception_is_needed():
    assert len(set(listed())) == len(listed()), f"{LIST.name} has an entry twice"
    gone = sorted(set(listed()) - untested(SOURCE, TESTS))
    assert not gone, f"tested, exempt or gone: remove from {LIST.name}: {', '.join(gone)}"


# ---- the guard itself ----


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", False),
        ('"""Text."""\nfrom .a import b\nLIMIT = 3', False),
        ("class A(Protocol):\n    x: int\n    def f(self): ...", False),
        ('class A:\n    def f(self):\n        """What it does."""', False),
        ("def f():\n    return 1", True),
        ("class A:\n    def f(self):\n        '''Text.'''\n        return self", True),
        ("TABLE = {'a': lambda x: x + 1}", True),
    ],
)
def test_what_has_something_to_run(text, expected):
    assert runs(text) == expected


def test_a_module_without_a_test_is_found(tmp_path):
    source, tests = tmp_path / "src", tmp_path / "tests"
    for name in ("a/b.py", "a/c.py", "a/__init__.py", "__main__.py", "vendor/d.py", "e.py"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text("def f():\n    return 1\n")
    (source / "plain.py").write_text("X = 1\n")
    (tests / "a").mkdir(parents=True)
    (tests / "a" / "test_b.py").touch()
    (tests / "a" / "test_e.py").touch()  # the name alone is not enough
    assert untested(source, tests) == {"a/c.py", "e.py"}
