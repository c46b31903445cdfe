"""Metrics: numbers about what a model said and what was right. They know nothing of models."""

from .bleu import bleu, chrf
from .classes import Confusion

__all__ = ["Confusion", "bleu", "chrf"]
