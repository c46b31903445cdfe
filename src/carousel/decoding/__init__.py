"""Decoding: turn a model's next-token probabilities into sequences.

One search for language models, encoder–decoders and ensembles: a `Stepper` says what may come next, a strategy chooses,
constraints forbid or favour. `search` gives hypotheses, `stream` gives tokens as they are chosen.
"""

from .beam import Beam
from .constraint import Constraint, ConstraintError, SearchContext
from .constraints import Ban, Bias, Length, NoRepeat, Prefix
from .exhaustive import Exhaustive
from .forms import Acrostic, Form, Rhyme
from .hypothesis import Chosen, Hypothesis
from .length import GNMT, LengthNorm, Mean, Unnormalised
from .pattern import Pattern
from .samplers import RandomK, Sampler, Temperature, TopK, TopP, make_samplers
from .sampling import Greedy, Sample
from .search import search, stream
from .stepper import Ensemble, StepFunction, Stepper, select_rows
from .strategy import Strategy
from .tree import BeamTree, Node

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
    "Greedy",
    "Hypothesis",
    "Length",
    "LengthNorm",
    "Mean",
    "NoRepeat",
    "Node",
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
    "make_samplers",
    "search",
    "select_rows",
    "stream",
]
