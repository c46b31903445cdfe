"""Recursive networks: a state for every node, from those of its children; all trees of a batch at once."""

from .forest import Forest
from .layers import ChildSumTreeLSTM, NaryTreeLSTM, RecursiveNet, TreeLayer, TreeTrace

__all__ = ["ChildSumTreeLSTM", "Forest", "NaryTreeLSTM", "RecursiveNet", "TreeLayer", "TreeTrace"]
