"""Translations: hypotheses of a search as texts, each with its tokens, scores and, on request, attention."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ... import pictures
from ...data import END, UNK, Vocabulary
from ...data.stores.examples import Column
from ...decoding import GenerationConfig, Hypothesis
from ...errors import ArgumentError
from ..shared.generation import Generation, token_texts
from .data import TranslateAssets
from .network import TranslatorNetwork
from .pairs import collate_pairs


@dataclass(frozen=True, kw_only=True, repr=False)
class Translation(Generation):
    """A line and its translation.

    `attention` (tokens, source tokens) has the weights of each token's attention, if they were requested. `note` says
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


def describe(
    networks: Sequence[TranslatorNetwork],
    assets: TranslateAssets,
    lines: Sequence[str],
    texts: Sequence[str],
    sources: Sequence[np.ndarray],
    results: Sequence[Sequence[Hypothesis]],
    config: GenerationConfig,
) -> list[list[Translation]]:
    """Hypotheses for lines, which in the model's form are `texts`, encoded as `sources`, as translations in the form of
    the model. The attention is that of `networks`."""
    weights: Iterator[Tensor | None] = iter([None] * sum(map(len, results)))
    if config.attention or config.unknown == "replace":
        weights = iter(attention_of(networks, sources, results))
    read_text = networks[0].settings.read_text
    described = []
    for line, text, ids, hypotheses in zip(lines, texts, sources, results, strict=True):
        source_tokens = _source_tokens(assets.source, read_text(text), ids)
        several = []
        for hypothesis in hypotheses:
            attention = next(weights)
            several.append(
                Translation(
                    source=line,
                    text=_text(assets.target, hypothesis.tokens, source_tokens, attention, config),
                    source_tokens=source_tokens,
                    tokens=token_texts(assets.target, hypothesis.tokens),
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


@torch.no_grad()
def attention_of(
    networks: Sequence[TranslatorNetwork], sources: Sequence[np.ndarray], results: Sequence[Sequence[Hypothesis]]
) -> list[Tensor | None]:
    """The attention of each hypothesis, (tokens, source tokens), in one pass over all of them; None without attention.

    For several networks, the mean.
    """
    repeated = [ids for ids, hypotheses in zip(sources, results, strict=True) for _ in hypotheses]
    tokens = [h.tokens[:-1] if h.finished else h.tokens for hypotheses in results for h in hypotheses]
    target = Column(
        np.array([t for one in tokens for t in one], np.int64), np.array([len(one) for one in tokens], np.int64)
    )
    batch = collate_pairs(Column(np.concatenate(repeated), np.array([len(ids) for ids in repeated])), target)
    every = [weights for network in networks if (weights := network.attention_weights(batch)) is not None]
    if not every:
        return [None] * len(tokens)
    mean = torch.stack(every).mean(0)  # (T, B, S)
    lengths = [len(h.tokens) for hypotheses in results for h in hypotheses]
    return [mean[:length, k, : len(ids)].clone() for k, (length, ids) in enumerate(zip(lengths, repeated, strict=True))]


def _source_tokens(vocabulary: Vocabulary, text: str, ids: np.ndarray) -> list[str]:
    """The tokens of a source as they are shown, unknown ones as the text has them."""
    return vocabulary.split(text)[: len(ids)] or token_texts(vocabulary, ids.tolist())


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
        return vocabulary.decode(ids).strip()  # a BPE token can begin with a space, the first of a line too
    places = attention.argmax(1).tolist()
    words = [source[places[k]] if token == UNK else vocabulary.token(token) for k, token in enumerate(ids)]
    return ("" if vocabulary.kind == "character" else " ").join(words)
