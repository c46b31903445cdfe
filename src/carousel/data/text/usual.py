"""What a model usually reads, and text that is unlike it: unknown tokens, or words in many small pieces."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ...files import write_json
from .tokenizers import UNK

FILE = "usual.json"  # in a run directory
TEXTS = 2000  # that are looked at to know what is usual
FEWEST = 20  # tokens that a text must have for a warning about pieces
FEWEST_UNKNOWN = 6  # unknown (or expected known) tokens that it must have for a warning about them
MORE_UNKNOWN = 0.25  # added to three times the usual share of unknown tokens
FEWER_KNOWN = 0.5  # times the usual share of known tokens: where many are unknown as a rule
MORE_PIECES = 1.6  # times as many tokens for a character as usual


@dataclass
class Tally:
    """Tokens that were read, how many of them are unknown, and their characters, spaces not counted."""

    tokens: int = 0
    unknown: int = 0
    characters: int = 0

    def add(self, ids: Any, texts: Iterable[str]) -> None:
        """Count the tokens `ids`, (n,), of some texts."""
        self.tokens += len(ids)
        self.unknown += int(np.count_nonzero(np.asarray(ids) == UNK))
        self.characters += sum(len(text) - text.count(" ") for text in texts)

    def include(self, other: Tally) -> None:
        """Count what `other` has counted."""
        self.tokens += other.tokens
        self.unknown += other.unknown
        self.characters += other.characters

    def add_sample(self, encode: Any, texts: Iterable[str]) -> Tally:
        """Count some of `texts`; `encode` gives their ids."""
        sample = list(islice(texts, TEXTS))
        self.add(encode(sample), sample)
        return self

    def unlike(self, usual: Tally, *, pieces: bool = True) -> str | None:
        """How the text that was counted differs from what is usual; None if it does not. Tokens are `pieces` of words,
        or else words, of which a text may have many short ones.

        >>> Tally(100, 60, 500).unlike(Tally(1000, 20, 5000))
        '60% of the tokens are unknown to the model, where 2% are usual'
        """
        if not (self.tokens and self.characters and usual.tokens and usual.characters):
            return None
        mine, theirs = self.unknown / self.tokens, usual.unknown / usual.tokens
        known, expected = self.tokens - self.unknown, self.tokens * (1 - theirs)
        few = expected >= FEWEST_UNKNOWN and known < FEWER_KNOWN * expected
        if self.unknown >= FEWEST_UNKNOWN and (mine > 3 * theirs + MORE_UNKNOWN or few):
            return f"{mine:.0%} of the tokens are unknown to the model, where {100 * theirs:.2g}% are usual"
        density, before = self.tokens / self.characters, usual.tokens / usual.characters
        if pieces and self.tokens >= FEWEST and density > MORE_PIECES * before:
            return f"words are split into {density / before:.1f} times as many pieces as usual"
        return None

    def save(self, folder: Path) -> None:
        """Write it to a run directory."""
        write_json(folder / FILE, asdict(self))
