"""`python -m carousel.patch script.py …`: run a program with torch's recurrent layers accelerated.

python -m carousel.patch train.py --epochs 3
python -m carousel.patch -m package.train --epochs 3
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from . import acceleration

USAGE = "usage: python -m carousel.patch [-m] PROGRAM [ARGUMENTS]\n\nPROGRAM is a file, or with -m a module."


def main(arguments: list[str]) -> None:
    """Run the program that `arguments` name, as Python would, with its own arguments."""
    as_module = arguments[:1] == ["-m"]
    given = arguments[1:] if as_module else arguments
    if not given or given[0] in ("-h", "--help"):
        print(USAGE, file=sys.stdout if given else sys.stderr)
        sys.exit(0 if given else 2)
    program = given[0]
    if not as_module and not Path(program).exists():
        sys.exit(f"python -m carousel.patch: there is no file {program}; a module is given with -m")
    sys.argv = given
    with acceleration.patch():
        if as_module:
            sys.path.insert(0, "")
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, str(Path(program).resolve().parent))
            runpy.run_path(program, run_name="__main__")


class _Callable(ModuleType):
    """`carousel.patch` is the class in `acceleration`; importing this module under that name must not take it away."""

    def __call__(self, *args: Any) -> acceleration.patch:
        return acceleration.patch(*args)


if __name__ == "__main__":
    main(sys.argv[1:])
else:
    sys.modules[__name__].__class__ = _Callable
