"""Metrics: numbers about what a model said and what was right. They know nothing of models."""

from .bleu import bleu, chrf
from .calibration import expected_calibration_error
from .classes import Confusion
from .correlation import pearson, spearman
from .perplexity import perplexity

__all__ = ["Confusion", "bleu", "chrf", "expected_calibration_error", "pearson", "perplexity", "spearman"]
