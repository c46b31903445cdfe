"""Text and tables in, integer batches out. Knows no task.

sources/   readers: lines and running text, tables, CoNLL, brackets, time series; data in memory
text/      text to integers: tokenizers, vocabularies, tags of spans, word vectors
stores/    what was read, as integers: made once, memory-mapped, found again by its fingerprint
batches/   batches of lines, streams, examples and windows, in an order that a seed fixes
corpora/   corpora that package registries carry, and generated ones
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .batches.base import Batches, TextBatch
    from .batches.lines import LineBatches
    from .batches.streams import StreamBatches
    from .sources.lines import Lines, Piece, RunningText, Source, check_file, read_lines
    from .stores.tokens import TokenStore, tokenize
    from .text.tokenizers import END, PAD, SPECIAL, START, UNK, Kind
    from .text.vocabulary import Vocabulary

__all__ = [
    "END",
    "PAD",
    "SPECIAL",
    "START",
    "UNK",
    "Batches",
    "Kind",
    "LineBatches",
    "Lines",
    "Piece",
    "RunningText",
    "Source",
    "StreamBatches",
    "TextBatch",
    "TokenStore",
    "Vocabulary",
    "check_file",
    "read_lines",
    "tokenize",
]
_MODULES = {
    "batches.base": ("Batches", "TextBatch"),
    "batches.lines": ("LineBatches",),
    "batches.streams": ("StreamBatches",),
    "sources.lines": ("Lines", "Piece", "RunningText", "Source", "check_file", "read_lines"),
    "stores.tokens": ("TokenStore", "tokenize"),
    "text.tokenizers": ("END", "PAD", "SPECIAL", "START", "UNK", "Kind"),
    "text.vocabulary": ("Vocabulary",),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a name when it is first asked for: reading data needs no torch."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
