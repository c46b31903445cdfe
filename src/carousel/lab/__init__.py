"""The lab: each claim of the textbook as something that runs.

A lab NAME is two files. `NAME.py` has the experiment and a `run` that returns a result object with `plot()` (the main
figure), `figures()` (all of them, by name) and `page()`. `NAME_page.py` draws those figures and writes the page: what
is claimed, what was run, what came out. Its sentences are made from the numbers, so that they are true of every run.
"""

from . import latch

__all__ = ["latch"]
