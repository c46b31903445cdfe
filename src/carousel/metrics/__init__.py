"""Metrics: numbers about what a model said and what was right. They know nothing of models."""

from .bleu import bleu, chrf
from .classes import Confusion
from .correlation import pearson, spearman

__all__ = ["Confusion", "bleu", "chrf", "pearson", "spearman"]
