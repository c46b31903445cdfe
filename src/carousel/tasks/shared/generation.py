"""Generation by a language model, and what it shares with translation: the result, and constraints from options."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from ... import pictures
from ...data import END, PAD, START, UNK, Vocabulary, read_lines
from ...data.text.form import TextForm
from ...data.text.formed import restored
from ...decoding import (
    Acrostic,
    Ban,
    BeamTree,
    Constraint,
    Form,
    GenerationConfig,
    Hypothesis,
    Length,
    NoRepeat,
    OptionError,
    Pattern,
    Prefix,
    Rhyme,
    Stepper,
    search,
    stream,
)
from ...errors import DataError
from ...training.modes import Modules, evaluating
from ...wording import counted

T = TypeVar("T")


class TextModel(Modules, Protocol):
    """What generation needs of a language model."""

    @property
    def vocabulary(self) -> Vocabulary: ...

    @property
    def settings(self) -> Any: ...  # with `layout` and `first_token`

    @property
    def assets(self) -> Any: ...  # with `form`

    def stepper(self) -> Stepper: ...


@dataclass(frozen=True, repr=False)
class SearchTree:
    """All that a search considered for one input; prints as text, `picture()` draws it."""

    record: BeamTree
    item: int
    vocabulary: Vocabulary
    best: tuple[int, ...]

    def name(self, token: int) -> str:
        return token_texts(self.vocabulary, [token])[0]

    def picture(self) -> Any:
        """A plotly figure, with the best result highlighted."""
        return pictures.tree(self.record, self.item, self.name, best=self.best)

    def __str__(self) -> str:
        return self.record.show(self.item, self.name)


@dataclass(frozen=True, kw_only=True, repr=False)
class Generation:
    """A generated text; `str()` gives the text.

    `text` includes the prompt. `tokens` are the generated ones, without the prompt, and end with `[END]` if the text is
    `finished`, that is, was not cut off at `max_length`; `ids` are their numbers. `log_prob` is the sum of their
    log-probabilities, `score` what the search ranks by: `log_prob` normalised by length, with what constraints added.
    `seed` repeats the sample; None if nothing was sampled. `others` are the rest of `num_return_sequences`, and
    `sequences` all of them. `tree` is the search tree, if it was asked for.
    """

    text: str
    tokens: list[str]
    ids: tuple[int, ...]
    log_prob: float
    score: float
    finished: bool
    seed: int | None = None
    others: tuple[Generation, ...] = ()
    tree: SearchTree | None = field(default=None, compare=False)

    @property
    def sequences(self) -> tuple[Generation, ...]:
        """This one and the others: best first, or in the order sampled."""
        return self, *self.others

    def as_dict(self) -> dict[str, Any]:
        """For JSON; without others and tree."""
        values: dict[str, Any] = {
            "text": self.text,
            "log_prob": round(self.log_prob, 6),
            "score": round(self.score, 6),
            "finished": self.finished,
            "tokens": self.tokens,
        }
        return values if self.seed is None else {**values, "seed": self.seed}

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return "\n".join(f"{one.text}  {one.score:.3f}" for one in self.sequences)


def prepare(
    config: GenerationConfig | None, options: dict[str, Any], kind: Literal["text", "translation"]
) -> GenerationConfig:
    """The config of a call, complete: with the defaults for what is generated and the table of rhymes."""
    config = GenerationConfig.of(config, options).resolve(kind)
    if isinstance(config.rhyme, str | Path):
        config = replace(config, rhyme=read_rhymes(config.rhyme))
    return config


def generate(model: TextModel, prompts: Sequence[str], config: GenerationConfig) -> Iterator[Generation]:
    """A generation for each prompt, in their order, as soon as its batch is done; `config` is from `prepare`.

    Each sample is an item of its own, numbered through all prompts. Batches change no result.
    """
    reader = _Reader(model, config)
    with evaluating(model):
        stepper = model.stepper()
    encoded = [reader.encode(prompt, k) for k, prompt in enumerate(prompts)]
    if not isinstance(config.prefix, str) and len(config.prefix) > len(prompts):
        raise OptionError(f"{{prefix}}: there are {len(config.prefix):,} for {counted(len(prompts), 'prompt')}")
    copies = config.num_return_sequences if config.do_sample else 1
    numbers = range(len(prompts) * copies)
    generations: list[Generation] = []
    for first in range(0, len(numbers), config.batch_size):
        items = numbers[first : first + config.batch_size]
        record = BeamTree() if config.tree else None
        batch = [encoded[number // copies] for number in items]
        with evaluating(model):
            results = search(stepper, batch, record=record, **reader.arguments(items, copies))
        for row, (number, prompt, hypotheses) in enumerate(zip(items, batch, results, strict=True)):
            tree = None if record is None else SearchTree(record, row, model.vocabulary, hypotheses[0].tokens)
            generations += [replace(reader.result(prompt, one, number // copies), tree=tree) for one in hypotheses]
            if (number + 1) % copies == 0:
                yield replace(generations[0], others=tuple(generations[1:]))
                generations = []


def stream_text(model: TextModel, prompt: str, config: GenerationConfig, number: int = 0) -> Iterator[str]:
    """One text in pieces, each as soon as it is certain, the prompt first; `number` is that of the sample."""
    if config.num_return_sequences > 1:
        raise OptionError("{num_return_sequences}: a stream is one text; call generate for several")
    reader = _Reader(model, config)
    ids = reader.encode(prompt, 0)
    chosen = stream(model.stepper(), [ids], **reader.arguments(range(1), 1) | {"items": [number]})
    pieces = model.vocabulary.decode_stream(chain(ids, (one.token for one in chosen)))
    yield from restored(reader.form, pieces) if reader.form is not None and reader.raw[0] else pieces


class _Reader:
    """Texts to tokens and back, with what a search is called with, for one model and config."""

    def __init__(self, model: TextModel, config: GenerationConfig) -> None:
        if config.attention:
            raise OptionError("{attention}: a language model has no attention to return")
        if config.unknown == "replace":
            raise OptionError("{unknown}: replace needs a source to copy from, a language model has none; use allow")
        self.vocabulary, self.config = model.vocabulary, config
        self.form: TextForm | None = model.assets.form
        self.raw: list[bool] = []  # whether each prompt was raw text
        self.layout = model.settings.layout
        self.first_token = model.settings.first_token
        self.prefixes: list[list[int]] = []  # of each prompt, with the prompt

    def encode(self, prompt: str, number: int) -> list[int]:
        """The ids of prompt `number`."""
        config = self.config
        prefix = config.prefix if isinstance(config.prefix, str) else prefix_of(config.prefix, number)
        raw = True
        if self.form is not None:
            tokenized = True if config.tokenized else None
            (prompt,), raw = self.form.read([prompt], tokenized)
            (prefix,), _ = self.form.read([prefix], tokenized)
        self.raw.append(raw)
        ids = encode_known(self.vocabulary, prompt, config, f"prompt {number + 1}")
        forced = [*ids, *encode_known(self.vocabulary, prefix, config, "{prefix}")]
        if config.max_length is not None and len(forced) >= config.max_length:
            room = f"{counted(len(forced), 'token')} leave no room below {{max_length}}, {config.max_length:,}"
            raise OptionError(f"prompt {number + 1}: {room}; give a larger one")
        _check_prompt(prompt, number, config)
        self.prefixes.append(forced if prefix else [])
        return ids

    def arguments(self, items: range, copies: int) -> dict[str, Any]:
        """What `search` is called with for samples of these numbers."""
        prefixes = [self.prefixes[number // copies] for number in items] if any(self.prefixes) else []
        return {
            "strategy": self.config.strategy(len(self.vocabulary), copies=1),
            "constraints": constraints_of(self.config, self.vocabulary, prefixes, ends=self.layout != "running"),
            "start": self.first_token,
            "end": None if self.layout == "running" else END,
            "max_length": self.config.max_length,
            "seed": self.config.seed or 0,
            "items": list(items),
            "tokens": self.vocabulary.tokens if self.config.constraints else None,
        }

    def result(self, prompt: list[int], best: Hypothesis, number: int) -> Generation:
        """The generation of prompt `number`: readable text, unless the prompt was tokenized."""
        text = self.vocabulary.decode([*prompt, *best.tokens])
        return Generation(
            text=self.form.restore(text) if self.form is not None and self.raw[number] else text,
            tokens=token_texts(self.vocabulary, best.tokens),
            ids=best.tokens,
            log_prob=best.log_prob,
            score=best.score,
            finished=best.finished,
            seed=self.config.seed if self.config.do_sample else None,
        )


def constraints_of(
    config: GenerationConfig,
    vocabulary: Vocabulary,
    prefixes: Sequence[Sequence[int]] = (),
    limits: Sequence[int] | None = None,
    ends: bool = True,
) -> list[Constraint]:
    """The constraints that a config asks for: its own options, then the user's.

    `prefixes` and `limits`, the most tokens before the end token, are of each item of the search. Text that does not
    end (`ends`) has no end token.
    """
    banned = [PAD, START, *([UNK] if config.unknown == "ban" else []), *([] if ends else [END])]
    rules: list[Constraint] = [Ban(banned)]
    if config.min_length or limits is not None:
        rules.append(Length(config.min_length, limits))
    if any(prefixes):
        rules.append(Prefix(prefixes))
    if any((config.form, config.acrostic, config.rhyme, config.no_repeat_ngram_size)):
        marks = {c: k for k, c in enumerate(vocabulary.tokens) if len(c) == 1 and _is_mark(c)}
        rules += _verse(config, vocabulary, marks, banned)
        if config.no_repeat_ngram_size is not None:
            rules.append(NoRepeat(config.no_repeat_ngram_size, ignore=marks.values()))
    return [*rules, *config.constraints]


def _verse(
    config: GenerationConfig, vocabulary: Vocabulary, marks: dict[str, int], banned: list[int]
) -> Iterator[Constraint]:
    """The constraints of form, acrostic and rhyme."""
    given = [name for name in ("form", "acrostic", "rhyme") if getattr(config, name)]
    if given and vocabulary.kind != "character":
        raise OptionError(f"{{{given[0]}}}: it needs a character model; this one generates {vocabulary.kind}s")
    if config.form is not None:
        yield Form(config.form, marks, exclude=banned)
    if config.acrostic is not None:
        if not marks:
            raise OptionError("{acrostic}: the model knows no punctuation, and so no end of a line")
        if strange := [c for c in config.acrostic if c not in vocabulary]:
            raise OptionError(f"{{acrostic}}: the model does not know {strange[0]!r}; choose another")
        yield Acrostic([vocabulary.id(c) for c in config.acrostic], breaks=marks.values())
    if config.rhyme is not None and config.form is not None:
        table = config.rhyme if not isinstance(config.rhyme, str | Path) else read_rhymes(config.rhyme)
        classes = {vocabulary.id(c): name for c, name in table.items() if c in vocabulary}
        if not classes:
            raise OptionError("{rhyme}: the model knows none of the characters in the table")
        if config.rhyme_class is not None and config.rhyme_class not in classes.values():
            raise OptionError(f"{{rhyme_class}}: no known character of the table has the class {config.rhyme_class!r}")
        yield Rhyme(Pattern.named(config.form), classes, given=config.rhyme_class)


def encode_known(vocabulary: Vocabulary, text: str, config: GenerationConfig, what: str) -> list[int]:
    """The ids of a prompt or prefix; raises if one of its tokens is unknown and `unknown` is ban."""
    ids = [int(i) for i in vocabulary.encode(text)]
    if UNK in ids and config.unknown == "ban":
        parts = text if vocabulary.kind == "character" else text.split()
        strange = next(part for part, i in zip(parts, ids, strict=True) if i == UNK)
        raise OptionError(f"{what}: the model does not know {strange!r}; choose another, or set {{unknown}} to allow")
    return ids


def prefix_of(prefixes: Sequence[str], number: int) -> str:
    """The prefix of input `number`, if there is one for each."""
    if number >= len(prefixes):
        raise OptionError(f"{{prefix}}: there are {len(prefixes):,} for more inputs; give one text, or one for each")
    return prefixes[number]


def token_texts(vocabulary: Vocabulary, ids: Sequence[int]) -> list[str]:
    """Each token as it is shown: its text, or its name in the vocabulary if it is special or part of a character."""
    texts = []
    for i in map(int, ids):
        text = vocabulary.token(i) if i <= UNK else vocabulary.decode([i])
        texts.append(vocabulary.token(i) if "\ufffd" in text else text)
    return texts


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


def _check_prompt(prompt: str, number: int, config: GenerationConfig) -> None:
    """Refuse a prompt that breaks a rule: a search would too, but with tokens by their numbers."""
    places = Pattern.named(config.form).places() if config.form is not None else []
    for at, (character, (_, mark)) in enumerate(zip(prompt, places, strict=False), 1):
        if character != mark and (mark is not None or _is_mark(character)):
            raise OptionError(f"prompt {number + 1}: {character!r}, its character {at}, does not fit {config.form}")
    heads = [here for before, here in pairwise(f"。{prompt}") if _is_mark(before)]
    for line, (head, wanted) in enumerate(zip(heads, config.acrostic or "", strict=False), 1):
        if head != wanted:
            problem = f"its line {line} begins with {head!r}, that of the {{acrostic}} with {wanted!r}"
            raise OptionError(f"prompt {number + 1}: {problem}; change one of them")


def _is_mark(character: str) -> bool:
    """Whether it is punctuation, which ends a line."""
    return unicodedata.category(character)[0] == "P"
