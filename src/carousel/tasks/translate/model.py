"""The translator: an encoder reads a text, a decoder with attention writes its translation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self, overload

import numpy as np
import torch
from pydantic import AfterValidator, BeforeValidator, model_validator
from torch import Tensor, nn

from ...data import UNK, Vocabulary
from ...data.sources.memory import write_pairs
from ...data.stores.examples import ExampleStore, keep_examples
from ...data.text.vocabulary import texts_of
from ...decoding import GenerationConfig
from ...errors import ArgumentError
from ...metrics import bleu, chrf
from ...networks.attention import AttentionName, Real, make_attention
from ...networks.decoder import Bridge, Course, Decoder, DecoderStepper, InitName, Sight, Writer
from ...networks.embedder import Embedder
from ...networks.encoder import SequenceDropout, encoder
from ...ops.cross_entropy import linear_cross_entropy
from ...ops.prediction import Predictor
from ...training import Data, Loss, Metric, Settings, key
from ...training.modes import each_evaluating, in_eval_mode
from ..base import LayerInput, Option
from ..shared.cell import CellName
from ..shared.combined import CombinedTask
from ..shared.generation import prepare
from ..shared.text import default_cache
from .check import PairCheck, check_pairs
from .pairs import Pair, PairBatch, PairBatches, Pairs, PairSource
from .report import show_translations
from .translation import WINDOW, Translation, check_ensemble, perplexity, search_batch, stream_translation, translate


def _one_or_two(files: tuple[Path, ...]) -> tuple[Path, ...]:
    if len(files) not in (1, 2):
        raise ArgumentError("give two files of as many lines, or one TSV")
    return files


Files = Annotated[
    tuple[Path, ...],
    BeforeValidator(lambda given: (given,) if isinstance(given, str | Path) else given),
    AfterValidator(_one_or_two),
]


class TranslateSettings(Settings):
    """Keys of the translator."""

    task: Literal["translate"] = key("translate", "the task", "data")
    train: Files = key(..., "text and its translation to train on: two files of as many lines, or one TSV", "data")
    dev: Files | None = key(None, "text and its translation to choose the best epoch by", "data")
    source_column: int = key(1, "the column of the text in a TSV file, from 1", "data", ge=1)
    target_column: int = key(2, "the column of its translation", "data", ge=1)
    lower: bool = key(False, "read all text in lower case", "data")
    tokens: Literal["word", "bpe", "character"] = key("bpe", "what a token is", "data")
    shared: bool = key(False, "one vocabulary for both languages", "data")
    min_frequency: int = key(1, "how often a token must occur to be known", "data", ge=1)
    vocabulary_size: int | None = key(
        None, "the most tokens a vocabulary may have; null: all words, or 8000 for bpe", "data", ge=5
    )
    max_length: int = key(
        200, "longer pairs are left out of training; longer texts are cut off when they are translated", "data", ge=1
    )
    batch_size: int = key(64, "pairs in a batch", "data", ge=1)
    batch_tokens: int | None = key(None, "the most tokens of one language in a batch", "data", ge=1)
    cache: Path | None = key(None, "where tokens are kept between runs; null: in the user's cache directory", "data")
    bleu_tokenize: Literal["13a", "none", "char", "intl", "zh"] = key(
        "13a", "how sacrebleu splits text to count; none: at spaces, for text that is tokenized already", "data"
    )
    dev_beam: int = key(1, "width of the beam by which the dev set is translated after each epoch", "data", ge=1)

    cell: CellName = key("lstm", "the recurrent cell, of encoder and decoder", "model")
    bidirectional: bool = key(True, "the encoder reads in both directions", "model")
    embedding: int = key(256, "size of a token's vector", "model", ge=1)
    hidden: int = key(256, "units in a layer and direction of the encoder", "model", ge=1)
    layers: int = key(1, "layers of the encoder", "model", ge=1)
    decoder_hidden: int | None = key(
        None, "units in a layer of the decoder; null: as many as the encoder gives", "model", ge=1
    )
    decoder_layers: int | None = key(None, "layers of the decoder; null: as the encoder", "model", ge=1)
    init: InitName = key("bridge", "how the decoder begins: a map of the encoder's last state, that state, or zeros",
                         "model")  # fmt: skip
    attention: Literal[AttentionName, "none"] = key("additive", "how the decoder looks at the source", "model")
    attention_size: int | None = key(
        None, "units of additive attention; null: as the decoder", "model", {"attention": ("additive",)}, ge=1
    )
    input_feeding: bool = key(False, "a step also reads the attentional vector of the step before", "model")
    tied: Literal["none", "output", "all"] = key(
        "output", "matrices that are one: target embedding and output, or both languages' too (needs shared)", "model"
    )
    dropout: float = key(0.3, "dropout of embeddings, between layers, and before the output", "model", ge=0, lt=1)
    label_smoothing: float = key(0.1, "share of the probability given to all tokens alike", "model", ge=0, lt=1)
    forget_bias: float | None = key(None, "the forget gate's bias at the start; null: the cell's own (1)", "model")
    teacher_forcing: float = key(
        1.0, "share of steps that read the true token before, not the model's own", "model", ge=0, le=1
    )
    teacher_forcing_end: float | None = key(
        None,
        "that share at the end of training, reached in a straight line; null: as at the start",
        "model",
        ge=0,
        le=1,
    )

    @model_validator(mode="after")
    def _together(self) -> Self:
        if self.source_column == self.target_column:
            raise ValueError(
                f"target_column: {self.target_column} is the source_column too; a text is not its translation"
            )
        if self.tied == "all" and not self.shared:
            raise ValueError("tied: all needs one vocabulary for both languages; set shared, or tie output only")
        if self.attention == "none" and self.input_feeding:
            raise ValueError("input_feeding: it feeds what attention found, and attention is none; choose one of them")
        if self.attention == "none" and self.init == "zeros":
            raise ValueError("init: zeros without attention leaves the decoder blind to the source; choose bridge")
        if self.attention in ("dot", "scaled-dot", "content") and self.decoder_size != self.encoded:
            raise ValueError(
                f"attention: {self.attention} needs decoder_hidden to be {self.encoded}, as much as the encoder gives; "
                f"it is {self.decoder_size}. general and additive take any size"
            )
        if self.init == "last" and self.decoder_size != self.encoded:
            raise ValueError(f"init: last needs decoder_hidden to be {self.encoded}, as much as the encoder gives")
        if self.init == "last" and (self.decoder_layers or 0) > self.layers:
            raise ValueError("init: last needs a decoder with no more layers than the encoder")
        return self

    @property
    def encoded(self) -> int:
        """How many numbers the encoder gives for a step."""
        return self.hidden * (2 if self.bidirectional else 1)

    @property
    def decoder_size(self) -> int:
        return self.decoder_hidden or self.encoded

    def read_text(self, text: str) -> str:
        """`text` as the model sees it."""
        return text.lower() if self.lower else text

    def pairs(self, files: Sequence[str | Path]) -> Pairs:
        return Pairs(files, (self.source_column, self.target_column))

    def make_vocabularies(self, pairs: Pairs) -> tuple[Vocabulary, Vocabulary]:
        """Of the source and of the target; one object if they are shared."""

        def learn(texts: Iterable[str]) -> Vocabulary:
            read = map(self.read_text, texts)
            return Vocabulary.train(read, self.tokens, size=self.vocabulary_size, min_frequency=self.min_frequency)

        if self.shared:
            both = learn(text for pair in pairs for text in (pair.source, pair.target))
            return both, both
        return learn(pair.source for pair in pairs), learn(pair.target for pair in pairs)

    def store(self, pairs: Pairs, source: Vocabulary, target: Vocabulary, max_length: int | None) -> ExampleStore:
        lower = "lower" if self.lower else ""
        made = PairSource(pairs, source, target, max_length, self.read_text, lower)
        return keep_examples(made, self.cache or default_cache())

    def teacher_share(self, progress: float) -> float:
        """The share of true tokens when `progress` of the training is done."""
        end = self.teacher_forcing if self.teacher_forcing_end is None else self.teacher_forcing_end
        return self.teacher_forcing + (end - self.teacher_forcing) * progress


class Translator(CombinedTask):
    """embedding → encoder; embedding → decoder with attention → vocabulary.

    >>> from carousel.data import Vocabulary
    >>> from carousel.tasks.translate.model import Translator, TranslateSettings
    >>> words = Vocabulary.train(["a b c"], "word")
    >>> model = Translator(TranslateSettings(train=("a.en", "a.de"), tokens="word"), words, words).eval()
    >>> model.translate("a b", num_beams=2).source_tokens
    ['a', 'b']
    """

    name = "translate"
    help = """Train a translator on a text and its translation: two files of as many lines, or a TSV of pairs.

    \b
    carousel train translate train.en train.de --dev dev.en dev.de --out run
    carousel train translate pairs.tsv --dev dev.tsv --shared --vocabulary-size 10000 --out run
    carousel train translate pairs.tsv --source-column 2 --target-column 1 --out run  # the other way
    carousel train translate train.en train.de --attention dot --cell gru --input-feeding --out run

    Then: carousel translate run texts.txt, carousel eval run dev.en dev.de."""
    Settings = TranslateSettings
    num_files = 2
    commands = ("translate",)
    evaluate_options = {
        "num_beams": Option(int, "Beam size; default: 5.", "N", 1),
        "worst": Option(int, "How many of the worst sentences to show; default: 5.", "N", 0),
    }

    def __init__(self, settings: TranslateSettings, source: Vocabulary, target: Vocabulary) -> None:
        super().__init__()
        self.settings = s = settings
        self.source_vocabulary = source
        self.target_vocabulary = target
        self.source_embedder = Embedder(len(source), s.embedding)
        self.own_target_embedder = None if s.tied == "all" else Embedder(len(target), s.embedding)
        self.drop = SequenceDropout(s.dropout)
        common: dict[str, Any] = {"dropout": s.dropout, "forget_bias": s.forget_bias}
        self.encoder = encoder(
            s.cell, s.embedding, s.hidden, num_layers=s.layers, bidirectional=s.bidirectional, **common
        )
        size = s.decoder_size
        attention = None
        if s.attention != "none":
            options = {"additive": {"size": s.attention_size or size}, "location": {"places": s.max_length}}
            attention = make_attention(s.attention, size, s.encoded, **options.get(s.attention, {}))
        read = s.embedding + (size if s.input_feeding else 0)
        layers = encoder(s.cell, read, size, num_layers=s.decoder_layers or s.layers, **common)
        self.decoder = Decoder(layers, attention, s.input_feeding)
        self.bridge = Bridge(s.init, self.encoder, layers)
        tied = s.tied != "none"
        self.project = nn.Linear(size, s.embedding, bias=False) if tied and size != s.embedding else None
        self.output = None if tied else nn.Parameter(torch.empty(len(target), size).uniform_(-0.1, 0.1))
        self.bias = nn.Parameter(torch.zeros(len(target)))

    # ---------------------------------------------------------------- the network

    @property
    def target_embedder(self) -> Embedder:
        return self.source_embedder if self.own_target_embedder is None else self.own_target_embedder

    @property
    def output_weight(self) -> Tensor:
        """(V, E) if tied, else (V, H)."""
        return self.target_embedder.weight if self.output is None else self.output

    def read(self, source: Tensor, lengths: Tensor) -> tuple[Sight | None, Any]:
        """source (S, B) → what the decoder looks at, and the state it begins with."""
        encoded, final = self.encoder(self.drop(self.source_embedder(source)), lengths=lengths)
        return self.decoder.prepare(encoded, lengths, self.drop), self.bridge(final)

    def write(self, batch: PairBatch) -> tuple[Tensor, Tensor, Tensor | None]:
        """What the output layer sees at each real step, (N, E or H), given the true tokens; what it should say, (N,);
        and attention (T, B, S)."""
        real = Real(batch.lengths, len(batch.inputs))
        sight, state = self.read(batch.source, batch.source_lengths)
        x = self.drop(self.target_embedder(batch.inputs))
        vectors, weights = self.decoder(x, sight, state, real)
        return self._finish(vectors), real.take(batch.targets), weights

    def write_freely(self, batch: PairBatch, share: float) -> tuple[Tensor, Tensor]:
        """As `write`, but a step reads the true token with probability `share` only, else the model's own."""
        real = Real(batch.lengths, len(batch.inputs))
        sight, state = self.read(batch.source, batch.source_lengths)
        course = Course(self.decoder, sight, state, real)
        true = batch.inputs.index_select(1, course.order)
        predict = self._predictor()
        for t, n in enumerate(course.going):
            tokens = true[t, :n]
            if t:
                with torch.no_grad():
                    own = predict(self._finish(course.found[-1][:n])).argmax(1)
                tokens = torch.where(torch.rand(n, device=own.device) < share, tokens, own)
            course.step(self.drop(self.target_embedder(tokens)))
        return self._finish(course.vectors), real.take(batch.targets)

    def _finish(self, vectors: Tensor) -> Tensor:
        return self.drop(vectors if self.project is None else self.project(vectors))

    def _predictor(self) -> Predictor:
        """(N, E or H) → log-probabilities (N, V), with the weights as they are now."""
        return Predictor(self.output_weight, self.bias)

    # ---------------------------------------------------------------- training

    def loss(self, batch: PairBatch) -> Loss:
        share = self.settings.teacher_share(self.progress)
        vectors, targets = self.write(batch)[:2] if share == 1 else self.write_freely(batch, share)
        smooth = self.settings.label_smoothing
        mean = linear_cross_entropy(vectors, self.output_weight, targets, self.bias, label_smoothing=smooth)
        return Loss(mean, batch.tokens)

    def batches(self, *files: str | Path) -> DevBatches:
        pairs = self.settings.pairs(files)
        store = self.settings.store(pairs, self.source_vocabulary, self.target_vocabulary, None)
        return DevBatches(store, list(pairs))

    def layer_input(self, batch: PairBatch) -> LayerInput:
        """Of the encoder."""
        lengths = batch.source_lengths
        tokens = texts_of(self.source_vocabulary, batch.source, lengths)
        return LayerInput("encoder", self.encoder, self.drop(self.source_embedder(batch.source)), lengths, tokens)

    @property
    def info(self) -> dict[str, Any]:
        return {"source": self.source_vocabulary, "target": self.target_vocabulary}

    def metric(self) -> DevBleu:
        return DevBleu(self)

    def describe_loss(self) -> Any:
        return lambda loss: f"loss {loss:.3f}"

    # ---------------------------------------------------------------- use

    def read_source(self, line: str) -> tuple[np.ndarray, str | None]:
        """The ids of a line, cut off after `max_length`; and what is odd about it, if something is."""
        ids, most = self.source_vocabulary.encode(self.settings.read_text(line)), self.settings.max_length
        if not line.strip():
            return ids[:0], "the line is empty, and so is its translation"
        if len(ids) > most:
            return ids[:most], f"cut off after {most} of {len(ids):,} tokens (max_length of the run)"
        if (ids == UNK).all():
            return ids, f"none of its {len(ids)} tokens is known to the model"
        return ids, None

    def writer(self) -> Writer:
        """The decoder ready for searches, with the weights as they are now."""
        return Writer(self.decoder, self.target_embedder.weight, self.project, self._predictor())

    def stepper(self, source: Tensor, lengths: Tensor, writer: Writer | None = None) -> DecoderStepper:
        """This model before some sources, (S, B) with lengths (B,), as a search sees it; `writer`: made before."""
        writer = writer or self.writer()
        return DecoderStepper(writer, *self.read(source, lengths))

    def attention_weights(self, batch: PairBatch) -> Tensor | None:
        """Where each step of a batch looks, (T, B, S); None without attention."""
        return self.write(batch)[2]

    @overload
    def translate(
        self, lines: str, config: GenerationConfig | None = None, *, ensemble: Sequence[Translator] = (), **options: Any
    ) -> Translation: ...

    @overload
    def translate(
        self, lines: Iterable[str], config: GenerationConfig | None = None, *, ensemble: Sequence[Translator] = (),
        **options: Any,
    ) -> list[Translation]: ...  # fmt: skip

    def translate(
        self, lines: str | Iterable[str], config: GenerationConfig | None = None, *,
        ensemble: Sequence[Translator] = (), **options: Any,
    ) -> Translation | list[Translation]:  # fmt: skip
        """The translation of a line, or a list of them for several lines.

        Options are the fields of `GenerationConfig`, as an object or by keyword: `num_beams=10`, `attention=True`.
        Without any, a beam search with 5 beams. `ensemble`: more models, whose probabilities are averaged with this
        one's.
        """
        if isinstance(lines, str):
            return next(self.translations([lines], config, ensemble=ensemble, **options))
        return list(self.translations(lines, config, ensemble=ensemble, **options))

    def translations(
        self, lines: Iterable[str], config: GenerationConfig | None = None, *, ensemble: Sequence[Translator] = (),
        window: int = WINDOW, **options: Any,
    ) -> Iterator[Translation]:  # fmt: skip
        """As `translate`, for any number of lines, read `window` at a time."""
        models = [self, *ensemble]
        check_ensemble(models)
        return translate(models, lines, prepare(config, options, "translate"), window=window)

    def stream(self, line: str, config: GenerationConfig | None = None, **options: Any) -> Iterator[str]:
        """The text of `translate(line, …)` in pieces, each as soon as it is certain; a beam search is, at its end."""
        return each_evaluating(self, stream_translation(self, line, prepare(config, options, "translate")))

    @in_eval_mode
    def evaluate(
        self, *files: str | Path, worst: int = 5, config: GenerationConfig | None = None, **options: Any
    ) -> dict[str, Any]:
        """BLEU and chrF of the translations of a file's texts, those of each sentence, and the `worst` by chrF."""
        pairs = list(self.settings.pairs(files))
        texts = [str(one) for one in self.translate([pair.source for pair in pairs], config, **options)]
        references = [pair.target for pair in pairs]
        found = bleu(texts, references, tokenize=self.settings.bleu_tokenize, lowercase=self.settings.lower)
        by_character = chrf(texts, references, lowercase=self.settings.lower)
        scores = [
            {"line": pair.line, "bleu": b, "chrf": c, "source": pair.source, "reference": pair.target, "said": text}
            for pair, text, b, c in zip(pairs, texts, found.sentences, by_character.sentences, strict=True)
        ]
        return {
            "bleu": found.score,
            "chrf": by_character.score,
            "exact": sum(text == right for text, right in zip(texts, references, strict=True)) / len(pairs),
            "sentences": len(pairs),
            "bleu_signature": found.signature,
            "chrf_signature": by_character.signature,
            "worst": sorted(scores, key=lambda one: one["chrf"])[:worst],
            "scores": scores,
        }

    def show(self, page: Any) -> None:
        if self.settings.dev is None:
            return
        pairs = list(self.settings.pairs(self.settings.dev))
        chosen = pairs[:: max(1, len(pairs) // 8)][:8]
        made = self.translate([pair.source for pair in chosen], attention=True)
        show_translations(self, page, made, [pair.target for pair in chosen])

    # ---------------------------------------------------------------- data

    @classmethod
    def prepare(cls, settings: TranslateSettings, network: Self | None = None) -> tuple[Self, Data]:
        s = settings
        pairs, dev_pairs = s.pairs(s.train), None if s.dev is None else s.pairs(s.dev)  # a missing file is said first
        held_out = [] if dev_pairs is None else list(dev_pairs)
        if network is None:
            source, target = s.make_vocabularies(pairs)
        else:
            source, target = network.source_vocabulary, network.target_vocabulary
        store = s.store(pairs, source, target, s.max_length)
        train = PairBatches(store, tokens=s.batch_tokens, sequences=s.batch_size, seed=s.seed)
        facts = {
            "training pairs": f"{pairs}: {len(store):,} pairs, {store.tokens:,} tokens to {train.tokens:,}",
            "vocabulary": _describe(s, source, target),
        }
        dev = None
        if dev_pairs is not None:
            dev_store = s.store(dev_pairs, source, target, None)
            dev = DevBatches(dev_store, held_out)
            rate = dev_store.unknown / dev_store.tokens
            facts["dev pairs"] = f"{dev_pairs}: {len(dev_store):,} pairs; {rate:.2%} of the source tokens are unknown"
        notes = []
        if long := store.facts["long"]:
            line, *counts = store.facts["first_long"]
            notes.append(
                f"{pairs.paths[0]}:{line}: {max(counts):,} tokens are more than max_length; such pairs are left out "
                f"of training ({long:,} of {long + len(store):,})"
            )
        return network or cls(settings, source, target), Data(train, dev, facts, notes)

    @classmethod
    def write_data(cls, data: Any, stem: Path, settings: Mapping[str, Any]) -> Path | tuple[Path, ...]:
        """(source, target) pairs, or two columns."""
        return write_pairs(data, stem, (".source", ".target"))

    @classmethod
    def check(cls, settings: TranslateSettings) -> PairCheck:
        """What is in the files that `settings` name, before training on them."""
        s = settings
        pairs, dev = s.pairs(s.train), None if s.dev is None else s.pairs(s.dev)
        return check_pairs(pairs, dev, *s.make_vocabularies(pairs), s.max_length, s.read_text)

    def save(self, folder: Path) -> None:
        if self.settings.shared:
            self.source_vocabulary.save(folder / "tokenizer.json")
            return
        self.source_vocabulary.save(folder / "source.json")
        self.target_vocabulary.save(folder / "target.json")

    @classmethod
    def load_assets(cls, settings: TranslateSettings, folder: Path) -> Self:
        if settings.shared:
            both = Vocabulary.load(folder / "tokenizer.json")
            return cls(settings, both, both)
        return cls(settings, Vocabulary.load(folder / "source.json"), Vocabulary.load(folder / "target.json"))


class DevBatches(PairBatches):
    """All pairs of a store once, in an order that does not change, with the references as they were written."""

    def __init__(self, store: ExampleStore, pairs: Sequence[Pair]) -> None:
        super().__init__(store, tokens=16_384, sequences=128, shuffle=False)
        self.texts = [pair.target for pair in pairs]

    def _of(self, chosen: np.ndarray) -> Any:
        return replace(super()._of(chosen), references=tuple(self.texts[k] for k in chosen))


class DevBleu(Metric):
    """BLEU of the dev set, translated greedily or with a small beam, and the perplexity of its references."""

    best = "bleu"

    def __init__(self, model: Translator) -> None:
        self.model = model
        self.config = GenerationConfig(num_beams=model.settings.dev_beam).resolve("translate")
        self.said: list[str] = []
        self.references: list[str] = []
        self.total = 0.0
        self.count = 0

    @torch.no_grad()
    def add(self, batch: PairBatch) -> None:
        model = self.model
        vectors, targets, _ = model.write(batch)
        losses = linear_cross_entropy(vectors, model.output_weight, targets, model.bias, reduction="sum")
        self.total += float(losses)
        self.count += batch.tokens
        lengths = batch.source_lengths.tolist()
        sources = [batch.source[:length, k].numpy() for k, length in enumerate(lengths)]
        sources = [ids[: model.settings.max_length] for ids in sources]
        found = search_batch([model], sources, self.config)
        self.said += [model.target_vocabulary.decode(best.tokens) for [best, *_] in found]
        self.references += batch.references

    def merge(self, other: DevBleu) -> None:
        self.said += other.said
        self.references += other.references
        self.total += other.total
        self.count += other.count

    def result(self) -> dict[str, float]:
        score = 0.0
        if self.said:
            s = self.model.settings
            score = bleu(self.said, self.references, tokenize=s.bleu_tokenize, lowercase=s.lower).score
        return {"bleu": score, "perplexity": perplexity(self.total / max(1, self.count))}


def _describe(s: TranslateSettings, source: Vocabulary, target: Vocabulary) -> str:
    if s.shared:
        return f"{len(source):,} {s.tokens} tokens for both languages"
    return f"{len(source):,} and {len(target):,} {s.tokens} tokens"
