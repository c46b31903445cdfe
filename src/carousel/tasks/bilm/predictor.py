"""The bidirectional language model in use: vectors of words in their context, evaluation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ...data.sources.memory import read_texts
from ...data.stores.examples import ExampleBatch, ExampleBatches, collate
from ...data.text.vocabulary import mark_unknown, texts_of
from ...layers import Clamp, Trace
from ...training.modes import in_eval_mode
from ..base import LayerInput, Model
from ..shared.reading import split_words
from .data import BilmAssets, open_source, store_sentences
from .network import BilmNetwork, turned
from .sentences import Sentences


class BiLanguageModel(Model[BilmNetwork, BilmAssets]):
    """A bidirectional language model.

    >>> import tempfile, carousel
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     options = {"out": folder + "/run", "embedding": 16, "hidden": 16, "epochs": 1, "quiet": True}
    ...     model = carousel.train("bilm", ["the cat sat", "the cat ran"], **options)
    >>> model.embed("the cat sat down").shape  # the words' own vectors, and those of two layers in both directions
    (3, 4, 32)
    """

    name = "bilm"
    kind = "bidirectional language model"
    item_types = (str, Sequence, np.ndarray)
    parts = ("forward", "backward")

    @property
    def info(self) -> dict[str, Any]:
        return {"words": self.assets.words.words}

    def embed(self, sentences: str | Iterable[str | Sequence[str]], *, tokenized: bool | None = None) -> Any:
        """The vectors of a sentence's words, (layers + 1, words, 2·embedding), or of each of several, in a list.

        A sentence is text, which is split into words as the training text is, or a list of words. The first layer has
        the words' own vectors (twice); in the others the forward half has read up to the word, the backward half from
        the end down to it. `tokenized`: text has the form of the training text and is split at spaces only; None: if
        it looks so.
        """
        if isinstance(sentences, str):
            return next(self.vectors([sentences], tokenized=tokenized))
        return list(self.vectors(sentences, tokenized=tokenized))

    @in_eval_mode
    @torch.no_grad()
    def vectors(
        self, sentences: Iterable[str | Sequence[str]], batch: int = 64, *, tokenized: bool | None = None
    ) -> Iterator[np.ndarray]:
        """As `embed`, for sentences that stream past, `batch` at a time."""
        waiting = read_texts(sentences, (Sequence, np.ndarray), "sentences")
        while given := list(islice(waiting, batch)):
            group, _ = split_words(self.assets.form, given, tokenized)
            columns = self.assets.words.encode(group)
            self.tally.add(columns["tokens"].values, (" ".join(words) for words in group))
            layers = torch.stack(self.network.contexts(collate(columns)))
            yield from (layers[:, : len(words), b].numpy() for b, words in enumerate(group))

    def table(
        self, texts: Sequence[str], *, tokenized: bool | None = None
    ) -> tuple[dict[str, Any], np.ndarray, list[int]]:
        """A row for each word: its line and itself, and beside them the vectors, all layers end to end; none is cut."""
        sentences, written = split_words(self.assets.form, texts, tokenized)
        words = [(line, word) for line, sentence in enumerate(written, 1) for word in sentence]
        size = (self.settings.layers + 1) * 2 * self.settings.embedding
        rows = [layers.transpose(1, 0, 2).reshape(-1, size) for layers in self.vectors(sentences)]
        beside = {"line": [line for line, _ in words], "word": [word for _, word in words]}
        return beside, np.concatenate([np.zeros((0, size), np.float32), *rows]), []

    @in_eval_mode
    def evaluate(self, path: str | Path | Sentences) -> dict[str, float]:
        """The perplexity of both directions together and of each; how much was read, and how much of it unknown."""
        batches, metric = self.batches(path), self.network.metric()
        for batch in batches:
            metric.add(batch)
        store, source = batches.store, open_source(self.settings, path).prepared(self.assets.form)
        self.tally.include(self.assets.words.usual(one.words for one in source.sentences()))
        return {**metric.result(), "sentences": len(store), "words": store.tokens, "unknown": store.unknown}

    def batches(self, path: str | Path | Sentences) -> ExampleBatches:
        store = store_sentences(self.settings, self.assets, open_source(self.settings, path).prepared(self.assets.form))
        return self.settings.reading_batches(store)

    def batch_of(self, items: Sequence[str | Sequence[str]]) -> ExampleBatch:
        return collate(self.assets.words.encode(split_words(self.assets.form, items)[0]))

    def surface_forms(self, items: Sequence[str | Sequence[str]]) -> list[list[str]]:
        return split_words(self.assets.form, items)[1]

    def _run_traced(self, items: Sequence[str | Sequence[str]], clamps: Sequence[Clamp], part: str) -> Trace:
        """Of all layers of a direction; the steps of `backward` are those from the end to the beginning."""
        network, batch, words = self.network, self.batch_of(items), self.surface_forms(items)
        marked, x = network.words(batch)
        stack = network.forward_layers
        if part == "backward":
            marked, x = (turned(one, batch.lengths + 2) for one in (marked, x))
            stack, words = network.backward_layers, [own[::-1] for own in words]
        steps = batch.lengths + 1
        trace = stack.intervene(x[:-1], clamps, steps)
        tokens = texts_of(self.assets.words.words, marked[:-1], steps)
        trace.tokens = mark_unknown(tokens, [["", *own] for own in words])
        return trace

    def layer_input(self, batch: ExampleBatch) -> LayerInput:
        """Of the lowest layer from left to right."""
        network = self.network
        marked, x = network.words(batch)
        steps = batch.lengths + 1
        tokens = texts_of(self.assets.words.words, marked[:-1], steps)
        lowest = network.forward_layers.layers[0]
        return LayerInput("forward_layers.layers.0", lowest, network.drop(x)[:-1], steps, tokens)
