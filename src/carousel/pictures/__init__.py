"""Pictures: plotly figures for pages, and any of them as a file."""

from .attention import attention
from .files import save
from .gates import gates
from .tree import tree

__all__ = ["attention", "gates", "save", "tree"]
