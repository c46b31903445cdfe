"""Automata, and recurrent networks that are automata: weights that nobody trained.

A deterministic finite automaton becomes a ReLU network whose weights are 0, 1 and -1. There is a unit for every pair
(state, symbol), which is 1 when that symbol was just read in that state and 0 otherwise:

    h(q, a) = relu([the state before is q] + [the symbol is a] - 1)

and the state before is q if a unit (q', a') is 1 whose automaton goes from q' with a' to q: a sum of units. All of
these are whole numbers, so nothing is rounded, and a string may be as long as it likes.

A counter becomes a cell of an LSTM: with its gates open, c = c₋ ± 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..errors import ArgumentError
from ..layers import LSTM, RNN

SURE = 200.0  # σ(200) is 1 and tanh(200) is 1 in float32, exactly; σ(-200) is 0


@dataclass(frozen=True)
class DFA:
    """States are numbers, 0 is the first; `moves[q]` has the next state for every symbol of the alphabet."""

    alphabet: str
    moves: tuple[tuple[int, ...], ...]
    accepting: frozenset[int]

    def __post_init__(self) -> None:
        for q, row in enumerate(self.moves):
            if len(row) != len(self.alphabet) or not all(0 <= to < len(self.moves) for to in row):
                raise ArgumentError(f"state {q} must have a next state, from 0 to {len(self.moves) - 1}, for each of "
                                 f"{self.alphabet!r}; got {row}")  # fmt: skip

    @property
    def states(self) -> int:
        return len(self.moves)

    def accepts(self, text: str) -> bool:
        state = 0
        for symbol in text:
            state = self.moves[state][self.alphabet.index(symbol)]
        return state in self.accepting


# ---------------------------------------------------------------- regular expressions, by derivatives

# An expression is a tuple: ("none",), ("empty",), ("symbol", a), ("then", r, s), ("or", {…}), ("star", r). The
# derivative by a is what must follow when a has been read; expressions that are alike are the states of the automaton.
Expression = tuple
NONE: Expression = ("none",)
EMPTY: Expression = ("empty",)


MARKS = "|*+?().[]{}^$\\"  # have a meaning of their own in a pattern
COUNT = re.compile(r"\{(\d+)(,(\d*))?\}")


def parse(pattern: str, alphabet: str) -> Expression:
    """Of symbols, `.`, `|`, `*`, `+`, `?`, `{2}`, `{2,3}`, `[abc]`, `[a-c]`, `[^a]` and brackets."""
    return _Parser(pattern, alphabet).whole()


class _Parser:
    """Reads a pattern from left to right; `place` is the next character."""

    def __init__(self, pattern: str, alphabet: str) -> None:
        self.pattern, self.alphabet, self.place = pattern, alphabet, 0

    def whole(self) -> Expression:
        expression = self.either()
        if self.place < len(self.pattern):
            raise self.error("a closing bracket too many")
        return expression

    def error(self, text: str) -> ArgumentError:
        return ArgumentError(f"pattern {self.pattern!r}: {text} at place {self.place + 1}")

    def peek(self) -> str:
        return self.pattern[self.place] if self.place < len(self.pattern) else ""

    def either(self) -> Expression:
        parts = [self.sequence()]
        while self.peek() == "|":
            self.place += 1
            parts.append(self.sequence())
        return _or(parts)

    def sequence(self) -> Expression:
        expression = EMPTY
        while self.peek() and self.peek() not in "|)":
            expression = _then(expression, self.repeated())
        return expression

    def repeated(self) -> Expression:
        inner = self.atom()
        if not self.peek() or self.peek() not in "*+?{":
            return inner
        least, most = self.count()
        if self.peek() and self.peek() in "*+?{":
            raise self.error("two repetitions in a row, which need brackets,")
        expression = EMPTY
        for _ in range(least):
            expression = _then(expression, inner)
        if most is None:
            return _then(expression, _star(inner))
        optional = EMPTY
        for _ in range(most - least):
            optional = _or([_then(inner, optional), EMPTY])
        return _then(expression, optional)

    def count(self) -> tuple[int, int | None]:
        """How often at least and at most, by `*`, `+`, `?` or `{…}`; None: without end."""
        simple: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        if self.peek() in simple:
            self.place += 1
            return simple[self.pattern[self.place - 1]]
        given = COUNT.match(self.pattern, self.place)
        if given is None:
            raise self.error("braces that are not {n}, {n,} or {n,m}")
        least = int(given[1])
        most = least if given[2] is None else int(given[3]) if given[3] else None
        if max(least, most or 0) > 100 or (most is not None and most < least):
            raise self.error(f"{given[0]} is no number of times up to 100")
        self.place = given.end()
        return least, most

    def atom(self) -> Expression:
        symbol = self.peek()
        if symbol == "[":
            return self.choice()
        if symbol == "(":
            self.place += 1
            expression = self.either()
            if self.peek() != ")":
                raise ArgumentError(f"pattern {self.pattern!r}: a bracket is never closed")
            self.place += 1
            return expression
        if symbol != "." and (symbol in MARKS or symbol not in self.alphabet):
            raise self.error(f"{symbol!r} is not supported" if symbol in MARKS else f"{symbol!r} is no symbol")
        self.place += 1
        return _or([("symbol", a) for a in (self.alphabet if symbol == "." else symbol)])

    def choice(self) -> Expression:
        """[abc], [a-c], [^a]: one of some symbols, or of the others."""
        end = self.pattern.find("]", self.place + 1)
        inside = self.pattern[self.place + 1 : end]
        if end < 0 or not inside.removeprefix("^"):
            raise self.error("a [ without its symbols and ]")
        if set(inside.removeprefix("^")) & set("[^\\") or re.search(r"^\^?-|-$|-.-", inside):
            raise self.error(f"[{inside}] is not supported")
        symbols = set(_spell_out(inside.removeprefix("^")))
        chosen = set(self.alphabet) - symbols if inside[0] == "^" else symbols
        if strange := symbols - set(self.alphabet):
            raise self.error(f"{min(strange)!r} is no symbol")
        self.place = end + 1
        return _or([("symbol", a) for a in sorted(chosen)])


def _spell_out(inside: str) -> str:
    """
    >>> _spell_out("a-dx")
    'abcdx'
    """
    return re.sub(r"(.)-(.)", lambda m: "".join(map(chr, range(ord(m[1]), ord(m[2]) + 1))), inside)


def symbols_of(pattern: str) -> str:
    """The symbols that a pattern names, in order.

    >>> symbols_of("[a-c]{2}x|(.)")
    'abcx'
    """
    spelt = re.sub(r"\[\^?([^]]*)\]", lambda m: _spell_out(m[1]), COUNT.sub("", pattern))
    return "".join(sorted(set(spelt) - set(MARKS)))


def compile_pattern(pattern: str, alphabet: str | None = None) -> DFA:
    """The automaton of a regular expression; the alphabet is that of its letters, unless given.

    >>> compile_pattern("ab*").accepts("abbb"), compile_pattern("ab*").accepts("aba"), compile_pattern("ab*").states
    (True, False, 3)
    """
    alphabet = symbols_of(pattern) if alphabet is None else "".join(sorted(set(alphabet)))
    if not alphabet:
        raise ArgumentError(f"pattern {pattern!r}: there is no symbol in it; give an alphabet")
    first = parse(pattern, alphabet)
    numbers, todo, moves = {first: 0}, [first], []
    while todo:
        state = todo.pop(0)
        row = []
        for symbol in alphabet:
            after = _after(state, symbol)
            if after not in numbers:
                numbers[after] = len(numbers)
                todo.append(after)
            row.append(numbers[after])
        moves.append(tuple(row))
    return DFA(alphabet, tuple(moves), frozenset(k for state, k in numbers.items() if _empty(state)))


def _or(parts: Iterable[Expression]) -> Expression:
    choices: set[Expression] = set()
    for part in parts:
        choices |= set(part[1]) if part[0] == "or" else {part}
    choices.discard(NONE)
    return NONE if not choices else next(iter(choices)) if len(choices) == 1 else ("or", frozenset(choices))


def _then(first: Expression, second: Expression) -> Expression:
    if NONE in (first, second):
        return NONE
    if first == EMPTY:
        return second
    if second == EMPTY:
        return first
    if first[0] == "then":  # to the right, so that equal expressions look alike
        return ("then", first[1], _then(first[2], second))
    return ("then", first, second)


def _star(inner: Expression) -> Expression:
    return EMPTY if inner in (NONE, EMPTY) else inner if inner[0] == "star" else ("star", inner)


def _empty(state: Expression) -> bool:
    """Whether the empty string belongs to it."""
    match state[0]:
        case "empty" | "star":
            return True
        case "then":
            return _empty(state[1]) and _empty(state[2])
        case "or":
            return any(map(_empty, state[1]))
    return False


def _after(state: Expression, symbol: str) -> Expression:
    match state[0]:
        case "symbol":
            return EMPTY if state[1] == symbol else NONE
        case "or":
            return _or([_after(part, symbol) for part in state[1]])
        case "star":
            return _then(_after(state[1], symbol), state)
        case "then":
            first = _then(_after(state[1], symbol), state[2])
            return _or([first, _after(state[2], symbol)]) if _empty(state[1]) else first
    return NONE


# ---------------------------------------------------------------- networks


class Recognizer(nn.Module):
    """Recurrent layers and a linear output: a string belongs to the language if the output is above 0."""

    def __init__(
        self, layer: RNN | LSTM, start: tuple[Tensor, ...], output: Tensor, bias: float, alphabet: str
    ) -> None:
        super().__init__()
        self.layer = layer
        self.start = start  # (H,) each
        self.output = output  # (H,)
        self.bias = bias
        self.alphabet = alphabet

    @torch.no_grad()
    def accepts(self, strings: Sequence[str]) -> list[bool]:
        """Whether each string belongs to the language; read a step at a time, in the layer's own memory."""
        return (self.scores(strings) > 0).tolist()

    @torch.no_grad()
    def scores(self, strings: Sequence[str]) -> Tensor:
        """The output after each string, (strings,)."""
        numbers: Mapping[str, int] = {a: k for k, a in enumerate(self.alphabet)}
        lengths = torch.tensor([len(text) for text in strings])
        ids = torch.zeros(max(1, int(lengths.max())), len(strings), dtype=torch.int64)
        for k, text in enumerate(strings):
            ids[: len(text), k] = torch.tensor([numbers[a] for a in text], dtype=torch.int64)
        state = tuple(part.expand(1, len(strings), -1).contiguous() for part in self.start)
        x = torch.nn.functional.one_hot(ids, len(self.alphabet)).to(self.output.dtype)
        _, last = self.layer(x, state if len(state) > 1 else state[0], lengths=lengths)
        h = last[0] if isinstance(last, tuple) else last
        return h[-1] @ self.output + self.bias


def compile_dfa(dfa: DFA) -> Recognizer:
    """The automaton as a ReLU network of states × symbols + 1 units, with weights 0 and 1 and biases -1.

    >>> network = compile_dfa(compile_pattern("(ab)*"))
    >>> network.accepts(["", "ab", "aba", "abab" * 500])
    [True, True, False, True]
    """
    pairs = [(q, a) for q in range(dfa.states) for a in range(len(dfa.alphabet))]
    size = len(pairs) + 1  # the last unit is 1 before anything was read, and never again
    layer = RNN(len(dfa.alphabet), size, nonlinearity="relu")
    reached = [dfa.moves[q][a] for q, a in pairs] + [0]
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
        w, u = (layer.get_parameter(name) for name in ("weight_ih_l0", "weight_hh_l0"))
        for k, (q, a) in enumerate(pairs):
            w[k, a] = 1
            u[k] = torch.tensor([float(to == q) for to in reached])
        layer.get_parameter("bias_ih_l0").fill_(-1)
    start = torch.zeros(size)
    start[-1] = 1
    output = torch.tensor([float(to in dfa.accepting) for to in reached])
    return Recognizer(layer.requires_grad_(False), (start,), output, -0.5, dfa.alphabet)


def count_machine() -> Recognizer:
    """An LSTM of four units that accepts aⁿbⁿ, n ≥ 1. All gates are open (1) but for the input gates of c₃ and c₄.

    c₁ = a's less b's.  c₂ = b's.  c₃ counts the a's that come after a b: its gate opens for an a if h₂ = tanh(c₂) says
    that there was a b. c₄ counts the b's that have no a left: its gate opens for a b if h₁ = tanh(c₁) ≤ 0. A string
    belongs if there was a b, c₁ = 0 and nothing was wrong; each h is 0 or at least tanh 1 = 0.76 away from it, so a
    linear output tells.

    >>> count_machine().accepts(["ab", "aabb", "aab", "abb", "abab", "ba", "", "a" * 5000 + "b" * 5000])
    [True, True, False, False, False, False, False, True]
    """
    layer = LSTM(2, 4)
    i, f, g, o = (slice(4 * k, 4 * k + 4) for k in range(4))
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
        bias, w, u = (layer.get_parameter(name) for name in ("bias_ih_l0", "weight_ih_l0", "weight_hh_l0"))
        bias[i] = bias[f] = bias[o] = SURE
        w[g] = SURE * torch.tensor([[1.0, -1.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
        w[i][2, 0] = u[i][2, 1] = 2 * SURE  # an a, and a b before it: 2 + 2·0.76 - 3 > 0; one alone: 2 - 3 < 0
        bias[i][2] = -3 * SURE
        w[i][3, 1], u[i][3, 0] = 2 * SURE, -2 * SURE  # a b, and no a left: 2 - 1 > 0; else 2 - 2·0.76 - 1 < 0
        bias[i][3] = -SURE
    zeros = torch.zeros(4)
    return Recognizer(layer.requires_grad_(False), (zeros, zeros), torch.tensor([-2.0, 1.0, -4.0, -4.0]), -0.5, "ab")
