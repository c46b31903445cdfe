"""Verse constraints: form, acrostic and rhyme, for vocabularies in which a token is a character."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence

import torch
from torch import Tensor

from ..errors import ArgumentError
from .constraint import NEVER, Constraint, ConstraintError, SearchContext, check_tokens, force
from .constraints import look_up, per_item, shorten
from .pattern import Pattern
from .stepper import State


class Form(Constraint):
    """A verse pattern: its marks in their places, no mark where a character belongs, then the end token.

    `punctuation` maps every mark in the vocabulary to its token, including marks that the pattern does not use;
    `exclude` are other tokens that are not characters ([UNK], [PAD], [START]).

    >>> form = Form(Pattern(1, 1, "。"), {"。": 2, "，": 3})
    >>> state = form.start(SearchContext(items=1, vocab_size=5, end=4))
    >>> x = torch.zeros(1, 5)
    >>> form.apply(x, state)
    >>> x                                                  # a character: no mark, no end
    tensor([[0., 0., -inf, -inf, -inf]])
    """

    rows = (0, None, None)
    binds_prompt = True

    def __init__(self, pattern: Pattern | str, punctuation: Mapping[str, int], exclude: Iterable[int] = ()):
        self.pattern = Pattern.named(pattern) if isinstance(pattern, str) else pattern
        self.punctuation = dict(punctuation)
        self.exclude = sorted(set(exclude))
        missing = {mark for _, mark in self.pattern.places() if mark is not None} - self.punctuation.keys()
        if missing:
            raise ArgumentError(f"Form: punctuation has no token for {' '.join(sorted(missing))}")

    def start(self, context: SearchContext) -> State:
        end = context.need_end(self)
        marks = sorted(set(self.punctuation.values()))
        check_tokens(self, [*marks, *self.exclude], context.vocab_size)
        context.need_length(self, len(self.pattern) + 1)
        # The tokens that each kind of place allows: one row of (kinds, V), 0 or -inf. Kind 0 is a character.
        only = [*marks, end]
        allowed = torch.full((1 + len(only), context.vocab_size), NEVER, device=context.device)
        allowed[0] = 0.0
        allowed[0, [*only, *self.exclude]] = NEVER
        allowed[range(1, 1 + len(only)), only] = 0.0
        kind = [0 if mark is None else 1 + only.index(self.punctuation[mark]) for _, mark in self.pattern.places()]
        kinds = torch.tensor([*kind, len(only)], device=context.device)
        return torch.zeros(context.items, dtype=torch.int64, device=context.device), kinds, allowed

    def apply(self, log_probs: Tensor, state: State) -> None:
        position, kinds, allowed = state
        log_probs.add_(allowed[kinds[position]])

    def advance(self, state: State, tokens: Tensor) -> State:
        position, kinds, allowed = state
        return (position + 1).clamp_max(len(kinds) - 1), kinds, allowed

    def __repr__(self) -> str:
        lengths = sorted(set(self.pattern.lengths))
        return f"Form({self.pattern.lines} lines of {', '.join(map(str, lengths))})"


class Acrostic(Constraint):
    """The first token of each line is given (藏頭), by one list for all items or one for each.

    A line ends with any of `breaks`; for the heads of couplets, give only the mark that ends a couplet. The end token
    is forbidden until all heads have occurred.

    >>> rule = Acrostic([5, 6], breaks=[1])
    >>> state = rule.start(SearchContext(items=1, vocab_size=7, end=0))
    >>> for token in (5, 3, 1):
    ...     state = rule.advance(state, torch.tensor([token]))
    >>> x = torch.zeros(1, 7)
    >>> rule.apply(x, state)
    >>> x.argmax().item(), x.isfinite().sum().item()
    (6, 1)
    """

    rows = (0, 0, 0, None)
    binds_prompt = True

    def __init__(self, heads: Sequence[int] | Sequence[Sequence[int]], breaks: Iterable[int]):
        self.heads = heads
        self.breaks = sorted(set(breaks))
        if not self.breaks:
            raise ArgumentError("Acrostic: breaks is empty; it takes the tokens that end a line")

    def start(self, context: SearchContext) -> State:
        check_tokens(self, self.breaks, context.vocab_size)
        heads = per_item(self, self.heads, context)
        line = torch.zeros(context.items, dtype=torch.int64, device=context.device)
        breaks = torch.tensor(self.breaks, device=context.device)
        return line, torch.ones_like(line, dtype=torch.bool), heads, (breaks, context.end)

    def apply(self, log_probs: Tensor, state: State) -> None:
        line, at_head, heads, (_, end) = state
        force(log_probs, torch.where(at_head, look_up(line, heads), -1))
        if end is not None:
            log_probs[:, end].masked_fill_(look_up(line + ~at_head, heads) >= 0, NEVER)

    def advance(self, state: State, tokens: Tensor) -> State:
        line, _, heads, (breaks, end) = state
        at_head = torch.isin(tokens, breaks)
        return line + at_head, at_head, heads, (breaks, end)

    def __repr__(self) -> str:
        return f"Acrostic({shorten(self.heads)})"


class Rhyme(Constraint):
    """Some lines of a pattern end in tokens of one rhyme class.

    `classes` maps a token to its class, any hashable value; a token without a class rhymes with nothing. `lines` are
    the rhymed lines, counted from 1, by default the even ones. The class is `given`, otherwise that of the first rhymed
    line. With `distinct`, all rhymed tokens differ.

    >>> rule = Rhyme(Pattern(2, 1, [""]), {3: "ang", 4: "ang", 5: "ou"}, lines=[1, 2])
    >>> state = rule.start(SearchContext(items=1, vocab_size=6))
    >>> state = rule.advance(state, torch.tensor([3]))
    >>> x = torch.zeros(1, 6)
    >>> rule.apply(x, state)
    >>> x
    tensor([[-inf, -inf, -inf, -inf, 0., -inf]])
    """

    rows = (0, 0, 0, None)
    binds_prompt = True

    def __init__(
        self,
        pattern: Pattern | str,
        classes: Mapping[int, Hashable],
        *,
        lines: Iterable[int] | None = None,
        given: Hashable | None = None,
        distinct: bool = True,
    ):
        self.pattern = Pattern.named(pattern) if isinstance(pattern, str) else pattern
        self.classes = dict(classes)
        count = self.pattern.lines
        self.lines = list(range(2, count + 1, 2)) if lines is None else sorted(set(lines))
        self.given = given
        self.distinct = distinct
        if not self.classes:
            raise ArgumentError("Rhyme: classes is empty; it maps tokens to their rhyme classes")
        if not self.lines or not 1 <= self.lines[0] <= self.lines[-1] <= count:
            raise ArgumentError(f"Rhyme: lines must lie between 1 and {count}, the pattern's, got {self.lines}")
        if given is not None and given not in self.classes.values():
            raise ArgumentError(f"Rhyme: no token has the given class {given!r}")

    def start(self, context: SearchContext) -> State:
        check_tokens(self, self.classes, context.vocab_size)
        names = list(dict.fromkeys(self.classes.values()))
        number = {name: k for k, name in enumerate(names)}
        class_of = torch.full((context.vocab_size,), -1)
        class_of[list(self.classes)] = torch.tensor([number[c] for c in self.classes.values()], dtype=torch.int64)
        sizes = torch.bincount(class_of[class_of >= 0], minlength=len(names))
        enough = sizes >= (len(self.lines) if self.distinct else 1)
        possible = enough if self.given is None else enough[number[self.given] :][:1]
        if not possible.any():
            raise ConstraintError(f"{self}: no class has the {len(self.lines)} tokens that as many rhymed lines need")
        can_begin = (class_of >= 0) & enough[class_of]
        ends = self.pattern.line_ends()
        rhymed = torch.full((len(self.pattern) + 1,), -1)
        rhymed[[ends[line - 1] for line in self.lines]] = torch.arange(len(self.lines))

        device = context.device
        position = torch.zeros(context.items, dtype=torch.int64, device=device)
        chosen = torch.full_like(position, -1 if self.given is None else number[self.given])
        used = torch.full((context.items, len(self.lines)), -1, device=device)
        return position, chosen, used, (class_of.to(device), can_begin.to(device), rhymed.to(device))

    def apply(self, log_probs: Tensor, state: State) -> None:
        position, chosen, used, (class_of, can_begin, rhymed) = state
        due = rhymed[position] >= 0
        if not bool(due.any()):
            return
        fits = torch.where((chosen >= 0).unsqueeze(1), class_of == chosen.unsqueeze(1), can_begin)  # (N, V)
        log_probs.masked_fill_(due.unsqueeze(1) & ~fits, NEVER)
        if self.distinct:
            row, slot = ((used >= 0) & due.unsqueeze(1)).nonzero(as_tuple=True)
            log_probs[row, used[row, slot]] = NEVER

    def advance(self, state: State, tokens: Tensor) -> State:
        position, chosen, used, tables = state
        class_of, _, rhymed = tables
        line = rhymed[position]
        due = line >= 0
        if bool(due.any()):
            chosen = torch.where(due & (chosen < 0), class_of[tokens], chosen)
            column = line.clamp_min(0).unsqueeze(1)
            kept = torch.where(due.unsqueeze(1), tokens.unsqueeze(1), used.gather(1, column))
            used = used.scatter(1, column, kept)
        return (position + 1).clamp_max(len(rhymed) - 1), chosen, used, tables

    def __repr__(self) -> str:
        return f"Rhyme(lines {', '.join(map(str, self.lines))})"
