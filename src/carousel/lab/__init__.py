"""The lab: each claim of the textbook as something that runs.

    found = carousel.lab.bleu()          # any lab, by its name
    print(found)                         # what came out
    found.plot().show()                  # the main figure
    found.write("bleu")                  # index.html, figures as SVG and PNG, numbers.json

A lab NAME is the file `claims/NAME.py`, whose `run` is `carousel.lab.NAME` and returns a :class:`Finding`. Where
figures and words are long they have a file of their own, `claims/NAME_page.py`. A page's sentences are made from the
numbers, so that they are true of every run.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .claims.beam import run as beam
    from .claims.bleu import run as bleu
    from .claims.bptt import run as bptt
    from .claims.clipping import run as clipping
    from .claims.compile_dfa import run as compile_dfa
    from .claims.forget_argmax import run as forget_argmax
    from .claims.hankel import run as hankel
    from .claims.initialisation import run as initialisation
    from .claims.jacobian import run as jacobian
    from .claims.languages import run as languages
    from .claims.latch import run as latch
    from .claims.optimizers import run as optimizers
    from .claims.parameters import run as parameters
    from .claims.rnn_in_lstm import run as rnn_in_lstm
    from .claims.sentiment import run as sentiment
    from .claims.vanishing import run as vanishing
    from .finding import Claim, Finding, Verdict

# name → what it shows, for `carousel lab list`
LABS = {
    "beam": "greedy, beam and exhaustive search: what each finds, and what it costs",
    "bleu": "a BLEU score n-gram by n-gram: matched, clipped, missed",
    "bptt": "gradients through time by four routes: by hand, autograd, kernels, finite differences",
    "clipping": "gradient descent at a cliff, with and without clipping",
    "compile-dfa": "regular languages as exact weights of a network, and a counter as an LSTM",
    "forget-argmax": "what opens a forget gate widest, and how wide",
    "hankel": "the weighted automaton inside a trained network, by the rank of its Hankel matrix",
    "initialisation": "weights that begin as zero, equal, tiny, huge: what is learned, and which units part",
    "jacobian": "derivatives of one step in closed form, and what their product leaves out",
    "languages": "aⁿbⁿ, brackets, parity: who goes on counting past the lengths of the training",
    "latch": "which cells remember one bit through noise, and which forget",
    "optimizers": "the same model with four optimizers, at one learning rate and each at its own",
    "parameters": "how many parameters it takes to look back",
    "rnn-in-lstm": "an RNN inside an LSTM: as published, and exactly",
    "sentiment": "an LSTM that adds up sentiment, its weights set by hand",
    "vanishing": "how much of a gradient is left after k steps, in every cell",
}

__all__ = [
    "LABS",
    "Claim",
    "Finding",
    "Verdict",
    "beam",
    "bleu",
    "bptt",
    "clipping",
    "compile_dfa",
    "forget_argmax",
    "hankel",
    "initialisation",
    "jacobian",
    "languages",
    "latch",
    "optimizers",
    "parameters",
    "rnn_in_lstm",
    "sentiment",
    "vanishing",
]


def __getattr__(name: str) -> Any:
    """Import a lab when it is first asked for."""
    if name.replace("_", "-") in LABS:
        return importlib.import_module(f"{__name__}.claims.{name}").run
    if name in ("Claim", "Finding", "Verdict"):
        return getattr(importlib.import_module(f"{__name__}.finding"), name)
    raise AttributeError(f"module 'carousel.lab' has no attribute {name!r}")
