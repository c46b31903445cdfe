"""The tagger in use: tags for sentences, evaluation, what its layers read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, overload

import numpy as np
import torch
from torch import Tensor, nn

from ...data.sources.conll import Conll
from ...data.sources.memory import read_texts
from ...data.stores.examples import ExampleBatch, ExampleBatches, ExampleStore, collate
from ...data.text.tags import convert
from ...data.text.vocabulary import texts_of
from ...errors import ArgumentError, check_count
from ...networks.crf import CRF, Best
from ...training.modes import in_eval_mode
from ..base import NOTHING, LayerInput, VocabularyModel
from ..shared.ensemble import with_members
from ..shared.reading import split_words
from .data import TagAssets, open_source, store_sentences
from .examples import TagVocabulary
from .network import TaggerNetwork, TagMetric
from .tagged import Tagged, TaggedList

GROUP = 1024  # sentences of a stream that are sorted by length
MOST_WORDS = 1 << 15  # in a batch, padding included


class Tagger(VocabularyModel[TaggerNetwork, TagAssets, TagVocabulary]):
    """A tagger of words.

    >>> import tempfile, carousel
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sentences = [[("Ada", "B-PER"), ("sat", "O")], [("Ada", "B-PER"), ("ran", "O")]] * 2
    ...     model = carousel.train("tag", sentences, out=folder + "/run", hidden=4, epochs=1, quiet=True)
    >>> model.network.crf
    CRF(5 tags, 13 transitions allowed)
    >>> len(model.predict("Ada sat").tags)
    2
    """

    name = "tag"
    kind = "tagger"
    item_types = (str, Sequence, np.ndarray)

    @property
    def info(self) -> dict[str, Any]:
        return {"words": self.vocabulary.words, "tags": self.vocabulary.tags, "embedder": self.network.context or ""}

    @overload
    def predict(self, sentences: str, n_best: int = 1, *, tokenized: bool | None = None) -> Tagged: ...  # type: ignore[overload-overlap]
    @overload
    def predict(
        self, sentences: Iterable[str | Sequence[str]], n_best: int = 1, *, tokenized: bool | None = None
    ) -> TaggedList: ...
    def predict(
        self, sentences: str | Iterable[str | Sequence[str]], n_best: int = 1, *, tokenized: bool | None = None
    ) -> Tagged | TaggedList:
        """The tags of a sentence, or of each of several, given as text or as lists of words.

        Raw text is split into words as the training data is; the result has every word as the text spells it.
        `tokenized`: it has spaces between all words and marks; None: if it looks so. `n_best` also gives the next best
        taggings of each.
        """
        if isinstance(sentences, str):
            return next(self.predictions([sentences], n_best, tokenized=tokenized))
        return TaggedList(self.predictions(sentences, n_best, tokenized=tokenized))

    @in_eval_mode
    @torch.no_grad()
    def predictions(
        self, sentences: Iterable[str | Sequence[str]], n_best: int = 1, *, tokenized: bool | None = None
    ) -> Iterator[Tagged]:
        """As `predict`, for a stream of sentences; an empty one has no tags."""
        check_count("n_best", n_best)
        waiting = read_texts(sentences, (Sequence, np.ndarray), "sentences")
        while group := list(islice(waiting, GROUP)):
            read, written = split_words(self.assets.form, group, tokenized)
            tagged: dict[int, Tagged] = {}
            for part in batches_by_length([len(words) for words in read]):
                chosen = [read[k] for k in part]
                tagged |= zip(part, self._decode(chosen, n_best), strict=True)
            yield from (replace(tagged[k], words=words) for k, words in enumerate(written))

    def _decode(self, sentences: list[list[str]], n: int) -> Iterator[Tagged]:
        """The n best taggings of the sentences of one batch."""
        network, scheme = self.network, self.vocabulary.scheme
        batch = self.batch_of(sentences)
        self.tally.add(batch.tokens[batch.mask], (" ".join(words) for words in sentences))
        if not len(batch.tokens):
            yield from (Tagged(words, [[]], [], [0.0], scheme) for words in sentences)
            return
        emissions = network.emissions(batch)
        if network.crf is not None:
            emissions = emissions.double()  # log_prob is the difference of two large numbers
            best, scores = network.crf.n_best(emissions, n, batch.lengths)
            scores = scores - network.crf.log_partition(emissions, batch.lengths)
            confidence = network.crf.marginals(emissions, batch.lengths)
        else:
            best, scores = _independent(emissions, n, batch)
            confidence = emissions.exp()
        confidence = confidence.gather(2, best[0].unsqueeze(2)).squeeze(2)
        for b, words in enumerate(sentences):
            numbers = best[:, : len(words), b].tolist()
            log_probs = [float(p) for p in scores[:, b] if p > -torch.inf]
            tags = [self._tags(numbers[k]) for k in range(len(log_probs))]
            yield Tagged(words, tags, confidence[: len(words), b].tolist(), log_probs, scheme)

    def _tags(self, numbers: Sequence[int]) -> list[str]:
        """Tags by their numbers, in the scheme of the training file."""
        tags = [self.vocabulary.tags[k] for k in numbers]
        return tags if self.vocabulary.written is None else convert(tags, self.vocabulary.written)

    def predict_lines(
        self, lines: Iterable[str], *, n_best: int = 1, tokenized: bool | None = None
    ) -> Iterator[dict[str, Any]]:
        return (tagged.as_dict() for tagged in self.predictions(lines, n_best, tokenized=tokenized))

    def predict_file(
        self, path: str | Path, *, n_best: int = 1, conll: bool = True, tokenized: bool = True
    ) -> Iterator[dict[str, Any]]:
        """As `predict_lines`, for a file in columns, which is tokenized; its tags, if there are any, are not read."""
        words = (sentence.words for sentence in open_source(self.settings, path, tagged=False))
        return (tagged.as_dict() for tagged in self.predictions(words, n_best))

    def format(self, result: dict[str, Any], **options: Any) -> str:
        """CoNLL columns with tabs between: word, tag, confidence, and the tags of the next best taggings."""
        others = [other["tags"] for other in result.get("n_best", [])[1:]]
        columns = zip(result["words"], result["tags"], map(str, result["confidences"]), *others, strict=True)
        return "".join("\t".join(cells) + "\n" for cells in columns)

    def batches(self, path: str | Path | Conll) -> ExampleBatches:
        store = store_sentences(self.settings, self.assets, open_source(self.settings, path))
        return self.settings.reading_batches(store)

    def batch_of(self, items: Sequence[str | Sequence[str]]) -> ExampleBatch:
        sentences, _ = split_words(self.assets.form, items)
        return collate(self.vocabulary.encode(sentences, self.network.shapes is not None))

    def surface_forms(self, items: Sequence[str | Sequence[str]]) -> list[list[str]]:
        return split_words(self.assets.form, items)[1]

    def layer_input(self, batch: ExampleBatch) -> LayerInput:
        if not batch.lengths.sum():  # and no characters of words either
            raise ArgumentError(NOTHING)
        tokens = texts_of(self.vocabulary.words, batch.tokens, batch.lengths)
        return LayerInput("layers", self.network.layers, self.network.read(batch), batch.lengths, tokens)

    @in_eval_mode
    def measure(self, path: str | Path | Conll) -> tuple[TagMetric, ExampleStore]:
        """The metric of a file, and its examples."""
        batches, metric = self.batches(path), self.network.metric()
        unseen = batches.store["unseen"]
        for batch in batches:
            rows = [unseen[int(row)] for row in batch.rows]
            metric.add(batch, torch.from_numpy(np.concatenate(rows).astype(bool)))
        return metric, batches.store

    @with_members
    def evaluate(self, path: str | Path | Conll) -> dict[str, Any]:
        """Accuracy, also on words unseen in training; precision, recall and F1 of each tag or type of span; the
        confusion matrix, of types where tags are parts of spans."""
        metric, store = self.measure(path)
        self.tally.include(self.vocabulary.usual(one.words for one in open_source(self.settings, path)))
        result: dict[str, Any] = {
            **metric.result(),
            "accuracy_unseen": metric.accuracy_unseen,
            "unseen": metric.unseen,
            "words": store.tokens,
            "sentences": len(store),
        }
        if self.vocabulary.scheme is None:
            result["tags"] = metric.confusion.classes()
        else:
            result["illegal"] = store.info["illegal"]
            result["spans"] = {**metric.spans.types(), "all": metric.spans.overall()}
        return {**result, "confusion": metric.confusion_by_type.table()}


def batches_by_length(lengths: Sequence[int]) -> Iterator[list[int]]:
    """The numbers of sentences of these lengths in batches, similar ones together, each of at most MOST_WORDS words,
    padding included, unless one sentence alone has more.

    >>> list(batches_by_length([3, 40_000, 5]))
    [[1], [2, 0]]
    """
    part: list[int] = []
    for k in sorted(range(len(lengths)), key=lambda k: -lengths[k]):
        if part and (len(part) + 1) * lengths[part[0]] > MOST_WORDS:
            yield part
            part = []
        part.append(k)
    if part:
        yield part


def _independent(emissions: Tensor, n: int, batch: ExampleBatch) -> Best:
    """The n best taggings where tags do not depend on each other: emissions (T, B, K) are log-probabilities."""
    if n == 1:
        best = emissions.max(2)
        return Best(best.indices[None], (best.values * batch.mask).sum(0)[None])
    crf = CRF(emissions.shape[2])  # one whose transitions all cost the same
    nn.init.zeros_(crf.transitions)
    return crf.n_best(emissions, n, batch.lengths)
