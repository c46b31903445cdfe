"""Translation: lines in, translations out, each with its tokens, scores and, on request, attention."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ... import pictures
from ...data import END, START, UNK, Vocabulary
from ...data.stores.examples import Column
from ...decoding import BeamTree, Ensemble, GenerationConfig, Hypothesis, OptionError, Pattern, Stepper, search, stream
from ...errors import ArgumentError
from ...training.modes import evaluating
from ...wording import counted
from ..shared.generation import Generation, SearchTree, constraints_of, encode_known, prefix_of, token_texts
from .pairs import collate_pairs

if TYPE_CHECKING:
    from ...networks.decoder import Writer
    from .model import Translator

WINDOW = 1024  # lines that are sorted by length, so that a batch has similar ones


@dataclass(frozen=True, kw_only=True, repr=False)
class Translation(Generation):
    """A line and its translation.

    `attention` (tokens, source tokens) has the weights of each token's attention, if they were asked for. `note` says
    what is unusual about the line: it is empty, was truncated, or has no known token.
    """

    source: str
    source_tokens: list[str]
    attention: Tensor | None = field(default=None, compare=False)
    note: str | None = None

    def alignment(self) -> list[tuple[int, int]]:
        """(source, target): for each token but `[END]`, the place of the source with the most attention."""
        if self.attention is None or not self.source_tokens:
            return []
        count = len(self.tokens) - self.finished
        return [(place, k) for k, place in enumerate(self.attention[:count].argmax(1).tolist())]

    def attention_picture(self) -> Any:
        """The attention as a heat map: a plotly figure; `carousel.pictures.save` makes a file of it."""
        if self.attention is None:
            raise ArgumentError("no attention to show: translate with attention=True, by a model that has attention")
        return pictures.attention(self.attention, self.source_tokens, self.tokens)

    def as_dict(self) -> dict[str, Any]:
        """For JSON; the attention as an alignment, without the tree."""
        values: dict[str, Any] = {"source": self.source, **super().as_dict(), "source_tokens": self.source_tokens}
        if self.attention is not None:
            values["alignment"] = [f"{i}-{j}" for i, j in self.alignment()]
        if self.note:
            values["note"] = self.note
        if self.others:
            values["others"] = [other.as_dict() for other in self.others]
        return values

    def __repr__(self) -> str:
        return "\n".join(f"{self.source} → {one.text}  {one.score:.3f}" for one in self.sequences)


def translate(
    models: Sequence[Translator], lines: Iterable[str], config: GenerationConfig, *, window: int = WINDOW
) -> Iterator[Translation]:
    """A translation of each line, in their order; `config` is from `prepare`. Several models are an ensemble.

    Lines are read `window` at a time and translated `batch_size` at a time, those of similar length together. Neither
    changes a translation.
    """
    waiting, first = iter(lines), 0
    while group := list(islice(waiting, window)):
        with evaluating(*models):
            translations = _translate(models, group, first, config)
        yield from translations
        first += len(group)
    if not isinstance(config.prefix, str) and len(config.prefix) > first:
        raise OptionError(
            f"{{prefix}}: there are {len(config.prefix):,} for {counted(first, 'line')}; give one for each line"
        )


def stream_translation(model: Translator, line: str, config: GenerationConfig) -> Iterator[str]:
    """The translation of a line in pieces, each as soon as it is certain."""
    if config.num_return_sequences > 1:
        raise OptionError("{num_return_sequences}: a stream is one text; call translate for several")
    if config.unknown == "replace":
        raise OptionError("{unknown}: replace needs the whole translation; call translate, or use allow")
    ids, _ = model.read_source(line)
    if len(ids):
        stepper, arguments = _arguments([model], [ids], config, [_prefix(model, config, 0)])
        chosen = stream(stepper, 1, items=[0], **arguments)
        yield from model.target_vocabulary.decode_stream(one.token for one in chosen)


def check_ensemble(models: Sequence[Translator]) -> None:
    first, *others = models
    for k, other in enumerate(others, 2):
        for side in ("source", "target"):
            mine, theirs = (getattr(model, f"{side}_vocabulary") for model in (first, other))
            if mine != theirs:
                raise ArgumentError(
                    f"model {k} of the ensemble has another {side} vocabulary ({len(theirs):,} tokens) than the first "
                    f"({len(mine):,} tokens); train both with the same data, tokens and vocabulary size"
                )


def _translate(
    models: Sequence[Translator], lines: list[str], first: int, config: GenerationConfig
) -> list[Translation]:
    model = models[0]
    encoded, notes = zip(*(model.read_source(line) for line in lines), strict=True)
    prefixes = [_prefix(model, config, first + k) for k in range(len(lines))]
    results: list[Translation | None] = [None] * len(lines)
    order = sorted((k for k, ids in enumerate(encoded) if len(ids)), key=lambda k: -len(encoded[k]))
    writers = [model.writer() for model in models]
    for start in range(0, len(order), config.batch_size):
        chosen = order[start : start + config.batch_size]
        record = BeamTree() if config.tree else None
        sources, numbers = [encoded[k] for k in chosen], [first + k for k in chosen]
        hypotheses = search_batch(models, sources, config, [prefixes[k] for k in chosen], numbers, record, writers)
        described = describe(models, [lines[k] for k in chosen], sources, hypotheses, config)
        for item, (k, [best, *others]) in enumerate(zip(chosen, described, strict=True)):
            tree = None if record is None else SearchTree(record, item, model.target_vocabulary, best.ids)
            results[k] = replace(best, others=tuple(others), note=notes[k], tree=tree)
    nothing = {"text": "", "tokens": [], "ids": (), "log_prob": 0.0, "score": 0.0, "finished": True}
    return [
        one or Translation(source=line, source_tokens=[], note=note, **nothing)  # type: ignore[arg-type]
        for one, line, note in zip(results, lines, notes, strict=True)
    ]


def _prefix(model: Translator, config: GenerationConfig, number: int) -> list[int]:
    """The ids that the translation of line `number` begins with."""
    text = config.prefix if isinstance(config.prefix, str) else prefix_of(config.prefix, number)
    ids = encode_known(model.target_vocabulary, model.settings.read_text(text), config, "{prefix}")
    if config.max_length is not None and len(ids) >= config.max_length:
        room = f"{counted(len(ids), 'token')} leave no room below {{max_length}}, {config.max_length:,}"
        raise OptionError(f"{{prefix}}: {room}; give a larger one")
    return ids


def search_batch(
    models: Sequence[Translator],
    sources: Sequence[np.ndarray],
    config: GenerationConfig,
    prefixes: Sequence[Sequence[int]] = (),
    items: Sequence[int] | None = None,
    record: BeamTree | None = None,
    writers: Sequence[Writer] | None = None,
) -> list[list[Hypothesis]]:
    """The hypotheses for each of some encoded sources, best first; `record` sees the search. `writers` are those of the
    models, for callers with several batches."""
    stepper, arguments = _arguments(models, sources, config, prefixes, writers)
    return search(stepper, len(sources), items=items, record=record, **arguments)


def _arguments(
    models: Sequence[Translator],
    sources: Sequence[np.ndarray],
    config: GenerationConfig,
    prefixes: Sequence[Sequence[int]] = (),
    writers: Sequence[Writer] | None = None,
) -> tuple[Stepper, dict[str, Any]]:
    """The stepper of the sources, and what else `search` is called with."""
    writers = writers or [model.writer() for model in models]
    with torch.no_grad():
        steppers: list[Stepper] = [m.stepper(*_pad(sources), w) for m, w in zip(models, writers, strict=True)]
    vocabulary = models[0].target_vocabulary
    given = prefixes or [()] * len(sources)
    limits = [_limit(config, len(ids), len(prefix)) for ids, prefix in zip(sources, given, strict=True)]
    return steppers[0] if len(steppers) == 1 else Ensemble(steppers), {
        "strategy": config.strategy(len(vocabulary)),
        "constraints": constraints_of(config, vocabulary, prefixes, limits),
        "start": START,
        "end": END,
        "max_length": max(limits) + 1,
        "seed": config.seed or 0,
        "tokens": vocabulary.tokens if config.constraints else None,
    }


def _limit(config: GenerationConfig, source: int, prefix: int) -> int:
    """The most tokens before `[END]` in the translation of `source` tokens: max_length, or twice the source and 20."""
    if config.max_length is not None:
        return config.max_length - 1
    form = 0 if config.form is None else len(Pattern.named(config.form))
    return max(2 * source + 20, config.min_length, prefix, form)


def _pad(sources: Sequence[np.ndarray]) -> tuple[Tensor, Tensor]:
    """(S, B) and (B,)."""
    column = Column(np.concatenate(sources), np.array([len(ids) for ids in sources]))
    batch = collate_pairs(column, Column(np.zeros(0, np.int64), np.zeros(len(sources), np.int64)))
    return batch.source, batch.source_lengths


def describe(
    models: Sequence[Translator],
    lines: Sequence[str],
    sources: Sequence[np.ndarray],
    results: Sequence[Sequence[Hypothesis]],
    config: GenerationConfig,
) -> list[list[Translation]]:
    """Hypotheses as translations."""
    model = models[0]
    weights: Iterator[Tensor | None] = iter([None] * sum(map(len, results)))
    if config.attention or config.unknown == "replace":
        weights = iter(attention_of(models, sources, results))
    described = []
    for line, ids, hypotheses in zip(lines, sources, results, strict=True):
        source_tokens = _source_tokens(model.source_vocabulary, model.settings.read_text(line), ids)
        several = []
        for hypothesis in hypotheses:
            attention = next(weights)
            several.append(
                Translation(
                    source=line,
                    text=_text(model.target_vocabulary, hypothesis.tokens, source_tokens, attention, config),
                    source_tokens=source_tokens,
                    tokens=token_texts(model.target_vocabulary, hypothesis.tokens),
                    ids=hypothesis.tokens,
                    log_prob=hypothesis.log_prob,
                    score=hypothesis.score,
                    finished=hypothesis.finished,
                    seed=config.seed if config.do_sample else None,
                    attention=attention if config.attention else None,
                )
            )
        described.append(several)
    return described


def _source_tokens(vocabulary: Vocabulary, text: str, ids: np.ndarray) -> list[str]:
    """The tokens of a source as they are shown, unknown ones as the text has them."""
    if vocabulary.kind == "word":
        return text.split()[: len(ids)]
    if vocabulary.kind == "character":
        return list(text)[: len(ids)]
    return token_texts(vocabulary, ids.tolist())


def _text(
    vocabulary: Vocabulary,
    ids: Sequence[int],
    source: list[str],
    attention: Tensor | None,
    config: GenerationConfig,
) -> str:
    """The text of a translation, `[UNK]` replaced by the source token with the most attention if so configured."""
    ids = [token for token in ids if token != END]
    if config.unknown != "replace" or UNK not in ids or attention is None:
        return vocabulary.decode(ids)
    places = attention.argmax(1).tolist()
    words = [source[places[k]] if token == UNK else vocabulary.token(token) for k, token in enumerate(ids)]
    return ("" if vocabulary.kind == "character" else " ").join(words)


@torch.no_grad()
def attention_of(
    models: Sequence[Translator], sources: Sequence[np.ndarray], results: Sequence[Sequence[Hypothesis]]
) -> list[Tensor | None]:
    """The attention of each hypothesis, (tokens, source tokens), in one pass over all of them; None without attention.

    For several models, the mean.
    """
    repeated = [ids for ids, hypotheses in zip(sources, results, strict=True) for _ in hypotheses]
    tokens = [h.tokens[:-1] if h.finished else h.tokens for hypotheses in results for h in hypotheses]
    target = Column(
        np.array([t for one in tokens for t in one], np.int64), np.array([len(one) for one in tokens], np.int64)
    )
    batch = collate_pairs(Column(np.concatenate(repeated), np.array([len(ids) for ids in repeated])), target)
    every = [weights for model in models if (weights := model.attention_weights(batch)) is not None]
    if not every:
        return [None] * len(tokens)
    mean = torch.stack(every).mean(0)  # (T, B, S)
    lengths = [len(h.tokens) for hypotheses in results for h in hypotheses]
    return [mean[:length, k, : len(ids)].clone() for k, (length, ids) in enumerate(zip(lengths, repeated, strict=True))]


def perplexity(loss: float) -> float:
    return math.exp(loss) if loss < 700 else math.inf
