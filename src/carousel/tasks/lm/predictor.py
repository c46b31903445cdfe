"""The language model in use: generation, scores of lines, evaluation."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import torch
from torch.nn.utils.rnn import pad_sequence

from ...data import END, PAD, TextBatch, Vocabulary
from ...data.batches.base import Batches
from ...data.sources.memory import read_texts
from ...data.text.vocabulary import texts_of
from ...decoding import GenerationConfig
from ...layers import RecurrentStepper
from ...metrics import perplexity
from ...training.modes import each_evaluating, in_eval_mode
from ..base import LayerInput, VocabularyModel
from ..shared.generation import Generation, generate, prepare, stream_text
from .data import LanguageAssets
from .network import WINDOW, LanguageNetwork


class LanguageModel(VocabularyModel[LanguageNetwork, LanguageAssets, Vocabulary]):
    """A language model.

    >>> import tempfile, carousel
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model = carousel.train("lm", ["abba", "baab"], out=folder + "/run", hidden=8, epochs=1, quiet=True)
    >>> model.generate("ab", max_length=3, seed=1).text.startswith("ab")
    True
    """

    name = "lm"
    kind = "language model"
    item_types = (str,)

    @property
    def info(self) -> dict[str, Any]:
        return {"tokens": self.vocabulary}

    def stepper(self) -> RecurrentStepper:
        return self.network.stepper()

    @overload
    def generate(self, prompt: str = "", config: GenerationConfig | None = None, **options: Any) -> Generation: ...

    @overload
    def generate(
        self, prompt: Iterable[str], config: GenerationConfig | None = None, **options: Any
    ) -> list[Generation]: ...

    def generate(
        self, prompt: str | Iterable[str] = "", config: GenerationConfig | None = None, **options: Any
    ) -> Generation | list[Generation]:
        """The continuation of a prompt, or a list of them for several prompts.

        Options are the fields of `GenerationConfig`, as an object or by keyword: `top_k=10`, `num_beams=5`,
        `form="五言律詩"`. Without any, the text is sampled from the model's own distribution.
        """
        if isinstance(prompt, str):
            return next(self.generations([prompt], config, **options))
        return list(self.generations(prompt, config, **options))

    def generations(
        self, prompts: Iterable[str], config: GenerationConfig | None = None, **options: Any
    ) -> Iterator[Generation]:
        """As `generate`, for several prompts, each result as soon as its batch is done."""
        return generate(self, list(read_texts(prompts, what="prompts")), prepare(config, options, "text"))

    def stream(self, prompt: str = "", config: GenerationConfig | None = None, **options: Any) -> Iterator[str]:
        """The text of `generate(prompt, …)` in pieces, each as soon as it is certain, the prompt first."""
        return each_evaluating(self, stream_text(self, prompt, prepare(config, options, "text")))

    @in_eval_mode
    @torch.no_grad()
    def score(self, lines: str | Iterable[str], *, tokenized: bool | None = None) -> Iterator[Scored]:
        """Each line's tokens with their log-probabilities, `[END]` included unless the text is running.

        Raw text is brought to the form of the training text; `tokenized`: it has that form. None: if it looks so.
        """
        for line in [lines] if isinstance(lines, str) else read_texts(lines, what="lines"):
            batch = self.batch_of([line], tokenized)
            if not len(batch.targets):
                yield Scored(line, [], [])
                continue
            log_probs, _ = self.network.log_probs(batch)
            yield Scored(line, [self.vocabulary.token(int(t)) for t in batch.targets], log_probs.flatten().tolist())

    def batch_of(self, items: Sequence[str], tokenized: bool | None = None) -> TextBatch:
        """Lines as the model reads and predicts them, `[END]` included unless the text is running."""
        running, start = self.settings.layout == "running", self.settings.first_token
        texts = items if self.assets.form is None else self.assets.form.read(items, tokenized).texts
        rows = [[int(i) for i in self.vocabulary.encode(line)] for line in texts]
        self.tally.add([i for row in rows for i in row], texts)
        targets = [torch.tensor(row if running else [*row, END], dtype=torch.int64) for row in rows]
        inputs = [torch.cat((row.new_tensor([start]), row[:-1])) if len(row) else row for row in targets]
        lengths = torch.tensor([len(row) for row in targets])
        read, predicted = (pad_sequence(part, padding_value=PAD) for part in (inputs, targets))
        return TextBatch(read, predicted, lengths, torch.arange(len(rows)), int(lengths.sum()))

    def surface_forms(self, items: Sequence[str]) -> list[list[str]]:
        texts = items if self.assets.form is None else self.assets.form.read(items).texts
        end = -1 if self.settings.layout == "running" else None  # its last token is only predicted
        return [["", *self.vocabulary.split(text)][:end] for text in texts]

    def _read_items(self, items: Sequence[Any]) -> LayerInput:
        return self.layer_input(self.batch_of(items), None)  # all steps: each is asked for

    def layer_input(self, batch: TextBatch, steps: int | None = WINDOW) -> LayerInput:
        """Of a long text the first steps."""
        network, inputs = self.network, batch.inputs[:steps]
        lengths = batch.lengths.clamp(max=len(inputs))
        x = network.drop_input(network.embedder(inputs))
        return LayerInput("layers", network.layers, x, lengths, texts_of(self.vocabulary, inputs, lengths))

    def batches(self, path: str | Path) -> Batches:
        return self.settings.reading_batches(
            self.settings.store(self.assets.formed(self.settings.source(path)), self.vocabulary)
        )

    @in_eval_mode
    def evaluate(self, path: str | Path) -> dict[str, float]:
        """Perplexity with and (unless the text is running) without `[END]`, and bits for each character of the file,
        newlines counted."""
        metric, batches = self.network.metric(), self.batches(path)
        for batch in batches:
            metric.add(batch)
        self.tally.include(self.assets.tally(self.assets.formed(self.settings.source(path))))
        pieces = self.settings.source(path).pieces()
        characters = sum(len(piece.text) + piece.end for piece in pieces)
        if self.settings.layout == "lines":
            characters += len(batches.store)
        bits = metric.total / math.log(2) / characters
        unknown = batches.store.unknown
        return {**metric.result(), "bits_per_character": bits, "tokens": int(metric.count), "unknown": unknown}


@dataclass(frozen=True)
class Scored:
    """A line and what the model thinks of it, token by token."""

    line: str
    tokens: list[str]
    log_probs: list[float]

    @property
    def total(self) -> float:
        return sum(self.log_probs)

    @property
    def perplexity(self) -> float:
        return perplexity(-self.total / len(self.tokens)) if self.tokens else math.nan
