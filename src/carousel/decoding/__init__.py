"""Decoding: sequences from a model's next-token probabilities.

One search for language models, encoder–decoders and ensembles: a `Stepper` gives the probabilities, a strategy chooses,
constraints forbid or favour tokens. `search` returns hypotheses, `stream` yields tokens as they are chosen.
`GenerationConfig` has all options of a model's `generate`, `translate` and `stream`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .beam import Beam
    from .config import GenerationConfig, OptionError
    from .constraint import Constraint, ConstraintError, SearchContext, load_constraint
    from .constraints import Ban, Bias, Length, NoRepeat, Prefix
    from .exhaustive import Exhaustive
    from .forms import Acrostic, Form, Rhyme
    from .hypothesis import Chosen, Hypothesis
    from .length_norm import GNMT, LengthNorm, Mean, Unnormalised
    from .pattern import Pattern
    from .samplers import RandomK, Sampler, Temperature, TopK, TopP
    from .sampling import Greedy, Sample
    from .searching import search, stream
    from .stepper import Ensemble, StepFunction, Stepper, select_rows
    from .strategy import Strategy
    from .tree import BeamTree, Node

_HOMES = {
    "beam": ("Beam",),
    "config": ("GenerationConfig", "OptionError"),
    "constraint": ("Constraint", "ConstraintError", "SearchContext", "load_constraint"),
    "constraints": ("Ban", "Bias", "Length", "NoRepeat", "Prefix"),
    "exhaustive": ("Exhaustive",),
    "forms": ("Acrostic", "Form", "Rhyme"),
    "hypothesis": ("Chosen", "Hypothesis"),
    "length_norm": ("GNMT", "LengthNorm", "Mean", "Unnormalised"),
    "pattern": ("Pattern",),
    "samplers": ("RandomK", "Sampler", "Temperature", "TopK", "TopP"),
    "sampling": ("Greedy", "Sample"),
    "searching": ("search", "stream"),
    "stepper": ("Ensemble", "StepFunction", "Stepper", "select_rows"),
    "strategy": ("Strategy",),
    "tree": ("BeamTree", "Node"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "GNMT",
    "Acrostic",
    "Ban",
    "Beam",
    "BeamTree",
    "Bias",
    "Chosen",
    "Constraint",
    "ConstraintError",
    "Ensemble",
    "Exhaustive",
    "Form",
    "GenerationConfig",
    "Greedy",
    "Hypothesis",
    "Length",
    "LengthNorm",
    "Mean",
    "NoRepeat",
    "Node",
    "OptionError",
    "Pattern",
    "Prefix",
    "RandomK",
    "Rhyme",
    "Sample",
    "Sampler",
    "SearchContext",
    "StepFunction",
    "Stepper",
    "Strategy",
    "Temperature",
    "TopK",
    "TopP",
    "Unnormalised",
    "load_constraint",
    "search",
    "select_rows",
    "stream",
]


def __getattr__(name: str) -> Any:
    """Import a public name on first use: the command line reads `config` and should not wait for torch."""
    if name in _HOME_OF:
        return getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
