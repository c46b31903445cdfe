"""Pictures: plotly figures for pages, and any of them as a file."""

from .files import save
from .tree import tree

__all__ = ["save", "tree"]
