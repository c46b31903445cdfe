"""How a language model writes: what was asked for, as a strategy and constraints, and the text that comes of it."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..data import END, PAD, START, UNK, DataError, Vocabulary, read_lines
from ..decoding import (
    Acrostic,
    Ban,
    Beam,
    Constraint,
    Form,
    Greedy,
    Hypothesis,
    NoRepeat,
    Pattern,
    Rhyme,
    Sample,
    Strategy,
    make_samplers,
    search,
    stream,
)
from ..wording import counted

if TYPE_CHECKING:
    from .language import LanguageModel

LENGTH = 300  # tokens, unless asked otherwise


@dataclass(frozen=True)
class Writing:
    """What to write. Without a sampler or a beam, the most probable token at every step.

    `temperature`, `top_k`, `top_p` and `random_k` draw instead; `beam` searches. `unknown` allows `[UNK]` in prompts
    and in what is written. `form` is a pattern by name (五言律詩), `acrostic` gives the first character of each line,
    `rhyme` maps characters to rhyme classes, `no_repeat` forbids to repeat so many tokens in a row.
    """

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    random_k: int | None = None
    beam: int | None = None
    unknown: bool = False
    form: str | None = None
    acrostic: str | None = None
    rhyme: dict[str, str] = field(default_factory=dict)
    rhyme_class: str | None = None
    no_repeat: int | None = None
    length: int = LENGTH

    def strategy(self) -> Strategy:
        samplers = make_samplers(self.temperature, self.random_k, self.top_k, self.top_p)
        if self.beam is not None and samplers:
            raise ValueError("beam searches and samplers draw; choose one of them")
        if self.beam is not None:
            return Beam(self.beam)
        return Sample(*samplers) if samplers else Greedy()

    def constraints(self, vocabulary: Vocabulary) -> list[Constraint]:
        never = [PAD, START] if self.unknown else [PAD, START, UNK]
        rules: list[Constraint] = [Ban(never)]
        marks = {c: k for k, c in enumerate(vocabulary.tokens) if len(c) == 1 and _is_mark(c)}
        if (self.form or self.acrostic or self.rhyme) and vocabulary.kind != "character":
            raise ValueError(f"form, acrostic and rhyme need a character model; this one reads {vocabulary.kind}s")
        if self.form is not None:
            if (least := len(Pattern.named(self.form)) + 1) > self.length:
                raise ValueError(
                    f"length: {self.form} takes {least} tokens, its end counted; {self.length} are too few"
                )
            rules.append(Form(self.form, marks, exclude=never))
        if self.acrostic is not None:
            if not marks:
                raise ValueError("acrostic: the model knows no punctuation, and so no end of a line")
            heads = [_known(c, vocabulary, "acrostic") for c in self.acrostic]
            rules.append(Acrostic(heads, breaks=marks.values()))
        if self.rhyme_class is not None and not self.rhyme:
            raise ValueError("rhyme_class needs a table of rhymes; give one, or leave it away")
        if self.rhyme:
            if self.form is None:
                raise ValueError("rhyme needs a form, which says where lines end; give one, such as 五言律詩")
            classes = {vocabulary.id(c): name for c, name in self.rhyme.items() if c in vocabulary}
            if not classes:
                raise ValueError("rhyme: the model knows none of the characters in the table")
            rules.append(Rhyme(Pattern.named(self.form), classes, given=self.rhyme_class))
        if self.no_repeat is not None:
            rules.append(NoRepeat(self.no_repeat, ignore=marks.values()))
        return rules


@dataclass(frozen=True)
class Written:
    """A text, its prompt included; its log-probability is that of what follows the prompt."""

    text: str
    log_prob: float
    tokens: int  # written, `[END]` counted
    finished: bool  # whether it ended by itself

    def __str__(self) -> str:
        return self.text


def write(
    model: LanguageModel, prompts: Sequence[str], wish: Writing, *, seed: int = 0, batch: int = 64
) -> Iterator[Written]:
    """One text for each prompt, in their order, as soon as a batch of them is done. Batches change nothing."""
    stepper, common = model.stepper(), _common(model, wish)
    ids = [_read_prompt(prompt, k, model.vocabulary, wish) for k, prompt in enumerate(prompts)]
    for first in range(0, len(ids), batch):
        part = ids[first : first + batch]
        numbers = list(range(first, first + len(part)))
        for prompt, [best, *_] in zip(part, search(stepper, part, seed=seed, items=numbers, **common), strict=True):
            yield _written(model.vocabulary, prompt, best)


def write_aloud(model: LanguageModel, prompt: str, wish: Writing, *, seed: int = 0, number: int = 0) -> Iterator[str]:
    """One text in pieces, each as soon as it is settled, the prompt first."""
    common = _common(model, wish)
    ids = _read_prompt(prompt, number, model.vocabulary, wish)
    chosen = stream(model.stepper(), [ids], seed=seed, items=[number], **common)
    yield from model.vocabulary.decode_stream(chain(ids, (c.token for c in chosen)))


def read_rhymes(path: str | Path) -> dict[str, str]:
    """A table of rhymes: lines of `class TAB characters`."""
    table: dict[str, str] = {}
    for number, line in read_lines(path):
        if not line.strip():
            continue
        name, _, characters = line.partition("\t")
        if not name.strip() or not characters.strip():
            raise DataError(path, number, "not of the form class TAB characters", "write, say, 東\t東同中風")
        table |= dict.fromkeys("".join(characters.split()), name)
    if not table:
        raise DataError(path, None, "no rhymes in it", "give lines of the form class TAB characters")
    return table


def _common(model: LanguageModel, wish: Writing) -> dict[str, Any]:
    layout = model.settings.layout
    return {
        "strategy": wish.strategy(),
        "constraints": wish.constraints(model.vocabulary),
        "start": END if layout == "sentences" else START,  # a sentence of running text follows the end of another
        "end": None if layout == "running" else END,
        "max_length": wish.length,
    }


def _written(vocabulary: Vocabulary, prompt: list[int], best: Hypothesis) -> Written:
    return Written(vocabulary.decode([*prompt, *best.tokens]), best.log_prob, len(best.tokens), best.finished)


def _read_prompt(prompt: str, number: int, vocabulary: Vocabulary, wish: Writing) -> list[int]:
    ids = [int(i) for i in vocabulary.encode(prompt)]
    if UNK in ids and not wish.unknown:
        parts = prompt if vocabulary.kind == "character" else prompt.split()
        strange = next(part for part, i in zip(parts, ids, strict=True) if i == UNK)
        raise ValueError(
            f"prompt {number + 1}: the model does not know {strange!r}; choose another, or allow unknown ones "
            "(--unknown)"
        )
    if len(ids) >= wish.length:
        problem = f"{counted(len(ids), 'token')}, which leaves no room in a length of {wish.length:,}"
        raise ValueError(f"prompt {number + 1}: {problem}; give a larger length")
    _check_rules(prompt, number, wish)
    return ids


def _check_rules(prompt: str, number: int, wish: Writing) -> None:
    """Refuse a prompt that breaks a rule: a search would too, but speaks of tokens by their numbers."""
    places = Pattern.named(wish.form).places() if wish.form is not None else []
    for at, (character, (_, mark)) in enumerate(zip(prompt, places, strict=False), 1):
        if character != mark and (mark is not None or _is_mark(character)):
            raise ValueError(f"prompt {number + 1}: {character!r}, its character {at}, does not fit {wish.form}")
    heads = [here for before, here in pairwise(f"。{prompt}") if _is_mark(before)]
    for line, (head, wanted) in enumerate(zip(heads, wish.acrostic or "", strict=False), 1):
        if head != wanted:
            problem = f"its line {line} begins with {head!r}, that of the acrostic with {wanted!r}"
            raise ValueError(f"prompt {number + 1}: {problem}; change one of them")


def _is_mark(character: str) -> bool:
    """Whether it is punctuation, which ends a line."""
    return unicodedata.category(character)[0] == "P"


def _known(character: str, vocabulary: Vocabulary, what: str) -> int:
    if character not in vocabulary:
        raise ValueError(f"{what}: the model does not know {character!r}; choose another")
    return vocabulary.id(character)
