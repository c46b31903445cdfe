"""The language model: what comes next, for characters, words or BPE; a line at a time, or running text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, overload

import torch
from torch import Tensor, nn

from ...data import END, PAD, START, TextBatch, Vocabulary
from ...data.batches.base import Batches
from ...data.sources.memory import write_lines
from ...data.text.vocabulary import texts_of
from ...decoding import GenerationConfig
from ...layers import RecurrentStepper
from ...networks.embedder import Embedder
from ...networks.encoder import SequenceDropout, encoder
from ...ops.cross_entropy import linear_cross_entropy
from ...training import Data, Loss, Metric, key
from ...training.modes import each_evaluating, in_eval_mode
from ..base import LayerInput
from ..shared.cell import CellName
from ..shared.combined import CombinedTask
from ..shared.generation import Generation, generate, prepare, stream_text
from ..shared.text import TextSettings
from .check import TextCheck, check_text

WINDOW = 1024  # steps of a line that are in memory at once when it is evaluated: a line may have ten million


class LanguageSettings(TextSettings):
    """Keys of the language model."""

    task: Literal["lm"] = key("lm", "the task", "data")
    cell: CellName = key("lstm", "the recurrent cell", "model")
    embedding: int = key(256, "size of a token's vector", "model", ge=1)
    hidden: int = key(256, "units in a layer", "model", ge=1)
    layers: int = key(1, "recurrent layers", "model", ge=1)
    tied: bool = key(True, "output and embedding share one matrix", "model")
    forget_bias: float | None = key(None, "the forget gate's bias at the start; null: the cell's own (1)", "model")
    dropout: float = key(0.2, "dropout before, between and after the layers", "model", ge=0, lt=1)
    input_dropout: float | None = key(None, "before the layers; null: as dropout", "model", ge=0, lt=1)
    output_dropout: float | None = key(None, "after the layers; null: as dropout", "model", ge=0, lt=1)
    embedding_dropout: float = key(0.0, "share of the vocabulary hidden from each batch", "model", ge=0, lt=1)
    variational: bool = key(False, "one dropout mask for a whole sequence", "model")
    recurrent_dropout: float = key(0.0, "units of h hidden from the gates, one mask a sequence", "model", ge=0, lt=1)
    weight_drop: float = key(0.0, "share of the recurrent weights dropped", "model", ge=0, lt=1)
    zoneout: float = key(0.0, "share of units that keep their state at a step", "model", ge=0, lt=1)
    label_smoothing: float = key(0.0, "share of the probability given to all tokens alike", "model", ge=0, lt=1)


class LanguageModel(CombinedTask):
    """embedding → layers → (projection) → vocabulary.

    >>> import pathlib, tempfile
    >>> from carousel.tasks.lm.model import LanguageModel, LanguageSettings
    >>> from carousel.data import Vocabulary
    >>> lm = LanguageModel(LanguageSettings(train="poems.txt", hidden=32), Vocabulary.train(["abba"]))
    >>> lm.read(torch.tensor([[1], [4], [5]]))[0].shape
    torch.Size([3, 1, 256])
    """

    name = "lm"
    help = """Train a language model on a text file; afterwards it can be evaluated and can write.

    \b
    carousel train lm poems.txt --dev dev.txt --out run    # each line is one item
    carousel train lm play.txt --layout running --out run  # one stream of characters
    carousel train lm ptb.txt --layout sentences --tokens word --layers 2 --out run
    carousel train lm --out run --resume                   # go on after a stop
    carousel train lm --config run/config.yaml --seed 1 --out again

    Then: carousel eval run dev.txt, carousel generate run."""
    Settings = LanguageSettings
    commands = ("generate", "score")
    extensions = (".txt",)

    def __init__(self, settings: LanguageSettings, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.settings = s = settings
        self.vocabulary = vocabulary
        size = len(vocabulary)
        self.embedder = Embedder(size, s.embedding, s.embedding_dropout)
        self.layers = encoder(
            s.cell,
            s.embedding,
            s.hidden,
            num_layers=s.layers,
            dropout=s.dropout,
            variational=s.variational,
            recurrent_dropout=s.recurrent_dropout,
            weight_drop=s.weight_drop,
            zoneout=s.zoneout,
            forget_bias=s.forget_bias,
        )
        self.drop_input = SequenceDropout(s.dropout if s.input_dropout is None else s.input_dropout, s.variational)
        self.drop_output = SequenceDropout(s.dropout if s.output_dropout is None else s.output_dropout, s.variational)
        self.project = nn.Linear(s.hidden, s.embedding, bias=False) if s.tied and s.hidden != s.embedding else None
        self.bias = nn.Parameter(torch.zeros(size))
        if not s.tied:
            self.output = nn.Parameter(torch.empty(size, s.hidden).uniform_(-0.1, 0.1))
        self._state: Any = None  # carried from one window of running text to the next

    # ---------------------------------------------------------------- the network

    @property
    def output_weight(self) -> Tensor:
        """(V, E) if tied, else (V, H)."""
        return self.embedder.weight if self.settings.tied else self.output

    def read(self, inputs: Tensor, state: Any = None, lengths: Tensor | None = None) -> tuple[Tensor, Any]:
        """inputs (T, B) → what the output layer sees, (T, B, E or H), and the state after it."""
        x = self.drop_input(self.embedder(inputs))
        x, state = self.layers(x, state, lengths=lengths)
        if self.project is not None:
            x = self.project(x)
        return self.drop_output(x), state

    def log_probs(self, batch: TextBatch, state: Any = None) -> tuple[Tensor, Any]:
        """The log-probability of each target, (T, B), 0 past the end of a sequence; and the state after them."""
        losses = []
        for first in range(0, len(batch.inputs), WINDOW):
            inputs, targets = (part[first : first + WINDOW] for part in (batch.inputs, batch.targets))
            x, state = self.read(inputs, state, (batch.lengths - first).clamp(0, len(inputs)))
            losses.append(
                linear_cross_entropy(x, self.output_weight, targets, self.bias, ignore_index=PAD, reduction="none")
            )
        return -torch.cat(losses), state

    # ---------------------------------------------------------------- training

    def loss(self, batch: TextBatch) -> Loss:
        running = self.settings.layout != "lines"
        state = self._state if running and not batch.reset else None
        full = batch.tokens == batch.inputs.numel()
        x, state = self.read(batch.inputs, state, None if full else batch.lengths)
        if running:
            self._state = _detach(state)
        smooth = self.settings.label_smoothing
        mean = linear_cross_entropy(
            x, self.output_weight, batch.targets, self.bias, ignore_index=PAD, label_smoothing=smooth
        )
        return Loss(mean, batch.tokens)

    def layer_input(self, batch: TextBatch) -> LayerInput:
        """Of a long text the first steps."""
        inputs = batch.inputs[:WINDOW]
        lengths = batch.lengths.clamp(max=len(inputs))
        x = self.drop_input(self.embedder(inputs))
        return LayerInput("layers", self.layers, x, lengths, texts_of(self.vocabulary, inputs, lengths))

    @property
    def info(self) -> dict[str, Any]:
        return {"tokens": self.vocabulary}

    def metric(self) -> Perplexity:
        return Perplexity(self)

    def describe_loss(self) -> Any:
        return lambda loss: f"loss {loss:.3f}  perplexity {math.exp(min(loss, 50)):,.1f}"

    @property
    def carried(self) -> dict[str, Tensor]:
        state = self._state
        if state is None:
            return {}
        return {str(k): part for k, part in enumerate(state if isinstance(state, tuple) else (state,))}

    @carried.setter
    def carried(self, state: dict[str, Tensor]) -> None:
        parts = tuple(state[str(k)] for k in range(len(state)))
        self._state = None if not parts else parts[0] if len(parts) == 1 else parts

    # ---------------------------------------------------------------- use

    def stepper(self) -> RecurrentStepper:
        """This model as a search sees it."""
        projection = None if self.project is None else self.project.weight
        return RecurrentStepper(self.embedder.weight, self.layers, self.output_weight, self.bias, projection=projection)

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
        return generate(self, list(prompts), prepare(config, options, "lm"))

    def stream(self, prompt: str = "", config: GenerationConfig | None = None, **options: Any) -> Iterator[str]:
        """The text of `generate(prompt, …)` in pieces, each as soon as it is certain, the prompt first."""
        return each_evaluating(self, stream_text(self, prompt, prepare(config, options, "lm")))

    @in_eval_mode
    @torch.no_grad()
    def score(self, lines: str | Iterable[str]) -> Iterator[Scored]:
        """Each line's tokens with their log-probabilities, `[END]` included unless the text is running."""
        for line in [lines] if isinstance(lines, str) else lines:
            ids = [int(i) for i in self.vocabulary.encode(line)]
            ends = self.settings.layout != "running"
            targets = torch.tensor([*ids, END] if ends else ids).unsqueeze(1)
            if not len(targets):
                yield Scored(line, [], [])
                continue
            start = END if self.settings.layout == "sentences" else START
            inputs = torch.cat((torch.tensor([[start]]), targets[:-1]))
            batch = TextBatch(
                inputs, targets, torch.tensor([len(targets)]), torch.zeros(1, dtype=torch.int64), len(targets)
            )
            found, _ = self.log_probs(batch)
            yield Scored(line, [self.vocabulary.token(int(t)) for t in targets], found.flatten().tolist())

    def show(self, page: Any) -> None:
        page.heading("Samples").text("Sampled from the model's own distribution, then with temperature 0.7.")
        for temperature in (1.0, 0.7):
            page.text(*map(str, self.generate(num_return_sequences=4, temperature=temperature, seed=0).sequences))

    # ---------------------------------------------------------------- data

    @classmethod
    def prepare(cls, settings: LanguageSettings, network: Self | None = None) -> tuple[Self, Data]:
        s = settings
        s.source(s.train)  # before the vocabulary: a missing file is said first
        if s.dev is not None:
            s.source(s.dev)
        vocabulary = s.make_vocabulary() if network is None else network.vocabulary
        store = s.store(s.train, vocabulary)
        train = s.training_batches(store)
        facts = {
            "training text": f"{s.train}: {len(store):,} lines, {train.tokens:,} tokens to predict",
            "vocabulary": f"{len(vocabulary):,} {s.tokens} tokens; {store.unknown / len(store.tokens):.2%} unknown",
        }
        dev = None
        if s.dev is not None:
            held_out = s.store(s.dev, vocabulary)
            dev = s.reading_batches(held_out)
            rate = held_out.unknown / len(held_out.tokens)
            facts["dev text"] = f"{s.dev}: {len(held_out):,} lines, {dev.tokens:,} tokens; {rate:.2%} unknown"
        return network or cls(settings, vocabulary), Data(train, dev, facts)

    @classmethod
    def write_data(cls, data: Any, stem: Path, settings: Mapping[str, Any]) -> Path:
        """Texts; with the layout `running` they may have line breaks in them."""
        return write_lines(
            data, stem.with_suffix(".txt"), lambda text: text, settings.get("layout", "lines") == "running"
        )

    @classmethod
    def check(cls, settings: LanguageSettings) -> TextCheck:
        """What is in the files that `settings` name, before training on them."""
        s = settings
        dev = None if s.dev is None else s.source(s.dev)
        return check_text(s.source(s.train), dev, s.make_vocabulary())

    def batches(self, path: str | Path) -> Batches:
        return self.settings.reading_batches(self.settings.store(Path(path), self.vocabulary))

    @in_eval_mode
    def evaluate(self, path: str | Path) -> dict[str, float]:
        """Perplexity with and without `[END]`, and bits for each character of the file, newlines counted."""
        meter, batches = self.metric(), self.batches(path)
        for batch in batches:
            meter.add(batch)
        pieces = self.settings.source(Path(path)).pieces()
        characters = sum(len(piece.text) + piece.end for piece in pieces)
        if self.settings.layout == "lines":
            characters += len(batches.store)
        bits = meter.total / math.log(2) / characters
        unknown = batches.store.unknown
        return {**meter.result(), "bits_per_character": bits, "tokens": int(meter.count), "unknown": unknown}

    def save(self, folder: Path) -> None:
        self.vocabulary.save(folder / "tokenizer.json")

    @classmethod
    def load_assets(cls, settings: LanguageSettings, folder: Path) -> Self:
        return cls(settings, Vocabulary.load(folder / "tokenizer.json"))


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
        return _exp(-self.total / len(self.tokens)) if self.tokens else math.nan


class Perplexity(Metric):
    """exp of the mean negative log-probability of a token: of all tokens, and of all but `[END]`."""

    best = "perplexity"
    lower_is_better = True

    def __init__(self, model: LanguageModel) -> None:
        self.model = model
        self.state: Any = None
        self.total = self.count = self.ends = self.end_count = 0.0

    @torch.no_grad()
    def add(self, batch: TextBatch) -> None:
        found, state = self.model.log_probs(batch, None if batch.reset else self.state)
        self.state = None if self.model.settings.layout == "lines" else state
        self.total -= float(found.sum(dtype=torch.float64))
        self.count += batch.tokens
        end = batch.targets == END
        self.ends -= float(found[end].sum(dtype=torch.float64))
        self.end_count += int(end.sum())

    def merge(self, other: Perplexity) -> None:
        self.total += other.total
        self.count += other.count
        self.ends += other.ends
        self.end_count += other.end_count

    def result(self) -> dict[str, float]:
        every = self.total / max(1.0, self.count)
        inner = (self.total - self.ends) / max(1.0, self.count - self.end_count)
        return {"perplexity": _exp(every), "perplexity_without_end": _exp(inner)}


def _exp(x: float) -> float:
    return math.exp(x) if x < 700 else math.inf


def _detach(state: Any) -> Any:
    return tuple(part.detach() for part in state) if isinstance(state, tuple) else state.detach()
