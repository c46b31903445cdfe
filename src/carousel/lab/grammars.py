"""Formal languages to learn: strings of any size, what may follow each of their symbols, and what there is to count."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from ..masks import length_mask

END = "$"  # what follows a string that may end here


@dataclass(frozen=True)
class Grammar:
    """A language: strings of any size, and what a reader of them must know.

    `draw(n, generator)` is a string of size n. `follow(text)` has, after each symbol, all that may come next, `END` if
    the string may end. `count(text)` has, after each symbol, the number that it takes to say so.

    >>> GRAMMARS["anbn"].follow("aabb"), GRAMMARS["anbn"].count("aabb")
    (['ab', 'ab', 'b', '$'], [1, 2, 1, 0])
    >>> GRAMMARS["dyck-2"].follow("([])")
    ['([)', '([]', '([)', '([$']
    """

    label: str
    alphabet: str
    draw: Callable[[int, random.Random], str]
    follow: Callable[[str], list[str]]
    count: Callable[[str], list[int]]

    def encode(self, strings: Sequence[str]) -> Strings:
        lengths = torch.tensor([len(text) for text in strings])
        shape = (int(lengths.max()), len(strings))
        symbols = self.alphabet + END
        inputs, targets = (torch.zeros(*shape, size) for size in (len(self.alphabet), len(symbols)))
        for k, text in enumerate(strings):
            inputs[range(len(text)), k, [self.alphabet.index(symbol) for symbol in text]] = 1
            known = {legal: torch.tensor([float(symbol in legal) for symbol in symbols]) for legal in self.follow(text)}
            targets[: len(text), k] = torch.stack([known[legal] for legal in self.follow(text)])
        return Strings(inputs, targets, lengths)


@dataclass(frozen=True)
class Strings:
    """A batch: one-hot symbols (T, B, A), which of the symbols and the end may follow (T, B, A + 1), lengths (B)."""

    inputs: Tensor
    targets: Tensor
    lengths: Tensor

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def mask(self) -> Tensor:
        """(T, B): which steps a string has."""
        return length_mask(self.lengths, len(self.inputs))

    def take(self, rows: Tensor) -> Strings:
        lengths = self.lengths[rows]
        steps = int(lengths.max())
        return Strings(self.inputs[:steps, rows], self.targets[:steps, rows], lengths)


def counted(symbols: str) -> Grammar:
    """aⁿbⁿ, aⁿbⁿcⁿ and so on: as many of each."""

    def follow(text: str) -> list[str]:
        n = text.count(symbols[0])  # known only after the last of them
        after = (symbols + END)[1:]
        return [symbols[:2]] * n + [
            symbols[k // n] if k % n else after[k // n - 1] for k in range(n + 1, len(text) + 1)
        ]

    return Grammar(
        "".join(f"{symbol}ⁿ" for symbol in symbols),
        symbols,
        lambda n, _: "".join(symbol * n for symbol in symbols),
        follow,
        lambda text: levels(text, symbols[0], symbols[1]),
    )


def brackets(*pairs: str) -> Grammar:
    """Balanced brackets of some kinds: Dyck's languages. A string of n pairs is anything from flat to nested."""
    closing = {pair[0]: pair[1] for pair in pairs}
    opening = "".join(closing)

    def draw(n: int, generator: random.Random) -> str:
        text, stack, nested = "", "", generator.uniform(0.2, 0.95)
        while n or stack:
            if n and (not stack or generator.random() < nested):
                symbol = generator.choice(opening)
                text, stack, n = text + symbol, stack + symbol, n - 1
            else:
                text, stack = text + closing[stack[-1]], stack[:-1]
        return text

    def follow(text: str) -> list[str]:
        stack, found = "", []
        for symbol in text:
            stack = stack + symbol if symbol in opening else stack[:-1]
            found.append(opening + (closing[stack[-1]] if stack else END))
        return found

    shut = "".join(closing.values())
    return Grammar(f"Dyck-{len(pairs)}", opening + shut, draw, follow, lambda text: levels(text, opening, shut))


def levels(text: str, up: Collection[str], down: Collection[str]) -> list[int]:
    return list(accumulate((symbol in up) - (symbol in down) for symbol in text))


def parities(text: str) -> list[int]:
    return [ones % 2 for ones in levels(text, "1", "")]


GRAMMARS = {
    "anbn": counted("ab"),
    "anbncn": counted("abc"),
    "dyck-1": brackets("()"),
    "dyck-2": brackets("()", "[]"),
    "parity": Grammar(
        "parity",
        "01",
        lambda n, generator: "".join(generator.choices("01", k=n)),
        lambda text: ["01" if odd else "01" + END for odd in parities(text)],
        parities,
    ),
}
