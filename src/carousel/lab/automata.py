"""Automata, and recurrent networks that are automata: weights that nobody trained.

A deterministic finite automaton becomes a ReLU network whose weights are 0, 1 and -1. There is a unit for every pair
(state, symbol), which is 1 when that symbol was just read in that state and 0 otherwise:

    h(q, a) = relu([the state before is q] + [the symbol is a] - 1)

and the state before is q if a unit (q', a') is 1 whose automaton goes from q' with a' to q: a sum of units. All of
these are whole numbers, so nothing is rounded, and a string may be as long as it likes.

A counter becomes a cell of an LSTM: with its gates open, c = c₋ ± 1.
"""

from __future__ import annotations

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


def parse(pattern: str, alphabet: str) -> Expression:
    """Of symbols, `.`, `|`, `*`, `+`, `?` and brackets."""
    place = 0

    def peek() -> str:
        return pattern[place] if place < len(pattern) else ""

    def either() -> Expression:
        nonlocal place
        found = [sequence()]
        while peek() == "|":
            place += 1
            found.append(sequence())
        return _or(found)

    def sequence() -> Expression:
        found = EMPTY
        while peek() and peek() not in "|)":
            found = _then(found, repeated())
        return found

    def repeated() -> Expression:
        nonlocal place
        found = atom()
        while peek() and peek() in "*+?":
            mark = peek()
            place += 1
            found = _star(found) if mark == "*" else _then(found, _star(found)) if mark == "+" else _or([found, EMPTY])
        return found

    def atom() -> Expression:
        nonlocal place
        symbol = peek()
        place += 1
        if symbol == "(":
            found = either()
            if peek() != ")":
                raise ArgumentError(f"pattern {pattern!r}: a bracket is never closed")
            place += 1
            return found
        if symbol == ".":
            return _or([("symbol", a) for a in alphabet])
        if symbol in "*+?" or symbol not in alphabet:
            raise ArgumentError(f"pattern {pattern!r}: {symbol!r} at place {place} is not in the alphabet {alphabet!r}")
        return ("symbol", symbol)

    found = either()
    if place < len(pattern):
        raise ArgumentError(f"pattern {pattern!r}: a closing bracket too many at place {place + 1}")
    return found


def compile_pattern(pattern: str, alphabet: str | None = None) -> DFA:
    """The automaton of a regular expression; the alphabet is that of its letters, unless given.

    >>> compile_pattern("ab*").accepts("abbb"), compile_pattern("ab*").accepts("aba"), compile_pattern("ab*").states
    (True, False, 3)
    """
    alphabet = "".join(sorted(set(pattern) - set("|*+?().") if alphabet is None else set(alphabet)))
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
    found: set[Expression] = set()
    for part in parts:
        found |= set(part[1]) if part[0] == "or" else {part}
    found.discard(NONE)
    return NONE if not found else next(iter(found)) if len(found) == 1 else ("or", frozenset(found))


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
            found = _then(_after(state[1], symbol), state[2])
            return _or([found, _after(state[2], symbol)]) if _empty(state[1]) else found
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
