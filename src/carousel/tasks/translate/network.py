"""The translator's network: an encoder reads a text, a decoder with attention generates its translation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from ...data import PAD
from ...decoding import GenerationConfig
from ...layers import Clamp, Trace
from ...metrics import bleu, perplexity
from ...networks.attention import Unpadded, make_attention
from ...networks.decoder import AttentionMemory, Bridge, Decoder, DecoderRollout, DecoderStepper, SearchDecoder
from ...networks.embedder import Embedder
from ...networks.encoder import SequenceDropout
from ...ops.cross_entropy import linear_cross_entropy
from ...ops.prediction import Predictor
from ...training import Loss, Network, SummedMetric
from .data import TranslateAssets
from .pairs import PairBatch
from .search import search_batch
from .settings import TranslateSettings


class TranslatorNetwork(Network):
    """embedding → encoder; embedding → decoder with attention → vocabulary."""

    def __init__(self, settings: TranslateSettings, assets: TranslateAssets) -> None:
        super().__init__()
        self.settings = s = settings
        self.target_vocabulary, self.target_form = assets.target, assets.target_form
        self.source_embedder = Embedder(len(assets.source), s.embedding)
        self.own_target_embedder = None if s.tied == "all" else Embedder(len(assets.target), s.embedding)
        self.drop = SequenceDropout(s.dropout)
        common: dict[str, Any] = {"dropout": s.dropout, "forget_bias": s.forget_bias}
        self.encoder = s.recurrent(s.embedding, num_layers=s.layers, bidirectional=s.bidirectional, **common)
        size = s.decoder_size
        attention = None
        if s.attention != "none":
            additive = {"size": s.attention_size or size, "bias": s.attention_bias}
            options: dict[str, dict[str, Any]] = {"additive": additive, "location": {"places": s.max_length}}
            attention = make_attention(s.attention, size, s.encoded, **options.get(s.attention, {}))
        read = Decoder.input_size(s.decoder_kind, s.embedding, size, s.encoded)
        layers = s.recurrent(read, size, num_layers=s.decoder_layers or s.layers, **common)
        self.decoder = Decoder(layers, attention, s.decoder_kind)
        self.bridge = Bridge(s.init, self.encoder, layers)
        tied = s.tied != "none"
        self.project = nn.Linear(size, s.embedding, bias=False) if tied and size != s.embedding else None
        self.output = None if tied else nn.Parameter(torch.empty(len(assets.target), size).uniform_(-0.1, 0.1))
        self.bias = nn.Parameter(torch.zeros(len(assets.target)))

    @property
    def target_embedder(self) -> Embedder:
        return self.source_embedder if self.own_target_embedder is None else self.own_target_embedder

    @property
    def output_weight(self) -> Tensor:
        """(V, E) if tied, else (V, H)."""
        return self.target_embedder.weight if self.output is None else self.output

    def row_names(self, assets: TranslateAssets) -> dict[str, tuple[Sequence[str], ...]]:
        source, target = (assets.source.tokens,), (assets.target.tokens,)
        rows = {"source_embedder.weight": source, "own_target_embedder.weight": target}
        return {**rows, "output": target, "bias": target}

    def embed_source(self, source: Tensor) -> Tensor:
        """source (S, B) → what the encoder reads, (S, B, E)."""
        return self.drop(self.source_embedder(source))

    def encode(self, source: Tensor, lengths: Tensor) -> tuple[AttentionMemory | None, Any]:
        """source (S, B), lengths (B,) → the memory of the decoder's attention, and the decoder's initial state."""
        encoded, final = self.encoder(self.embed_source(source), lengths=lengths)
        return self.decoder.prepare(encoded, lengths, self.drop), self.bridge(final)

    def forward(self, batch: PairBatch) -> tuple[Tensor, Tensor, Tensor | None]:
        """Teacher-forced: the input of the output layer at each real step, (N, E or H), given the true tokens; the
        targets, (N,); and attention weights (T, B, S)."""
        real = Unpadded(batch.lengths, len(batch.inputs))
        memory, state = self.encode(batch.source, batch.source_lengths)
        x = self.drop(self.target_embedder(batch.inputs))
        vectors, weights = self.decoder(x, memory, state, real)
        return self.output_input(vectors), real.take(batch.targets), weights

    def scheduled_sampling(self, batch: PairBatch, share: float) -> tuple[Tensor, Tensor]:
        """As `forward`, but a step reads the true token with probability `share` only, else the model's own."""
        real = Unpadded(batch.lengths, len(batch.inputs))
        memory, state = self.encode(batch.source, batch.source_lengths)
        rollout = DecoderRollout(self.decoder, memory, state, real)
        true = batch.inputs.index_select(1, rollout.order)
        predict = self.predictor()
        for t, n in enumerate(rollout.batch_sizes):
            tokens = true[t, :n]
            if t:
                with torch.no_grad():
                    own = predict(self.output_input(rollout.last[:n])).argmax(1)
                tokens = torch.where(torch.rand(n, device=own.device) < share, tokens, own)
            rollout.step(self.drop(self.target_embedder(tokens)))
        return self.output_input(rollout.vectors), real.take(batch.targets)

    def output_input(self, vectors: Tensor) -> Tensor:
        """The decoder's vectors (N, H) → the input of the output layer, (N, E or H)."""
        return self.drop(vectors if self.project is None else self.project(vectors))

    def predictor(self) -> Predictor:
        """(N, E or H) → log-probabilities (N, V), with the weights as they are now."""
        return Predictor(self.output_weight, self.bias)

    def search_decoder(self) -> SearchDecoder:
        """The decoder for searches, with the weights as they are now."""
        return SearchDecoder(self.decoder, self.target_embedder.weight, self.project, self.predictor())

    @torch.no_grad()
    def stepper(self, source: Tensor, lengths: Tensor, decoder: SearchDecoder | None = None) -> DecoderStepper:
        """This network with some sources, (S, B) with lengths (B,), as a search sees it. `decoder` is from
        `search_decoder`, for callers with several batches."""
        return DecoderStepper(decoder or self.search_decoder(), *self.encode(source, lengths))

    def trace_decoder(
        self, source: Tensor, lengths: Tensor, tokens: Sequence[Sequence[int]], clamps: Sequence[Clamp] = ()
    ) -> Trace:
        """The trace of the decoder's layers while they read `tokens`, a sequence for each source of (S, B) with lengths
        (B,), with some values held."""
        memory, state = self.encode(source, lengths)
        read = pad_sequence([torch.tensor(one, dtype=torch.int64) for one in tokens], padding_value=PAD)
        real = Unpadded(torch.tensor([len(one) for one in tokens]), len(read))
        return self.decoder.intervene(self.target_embedder(read), memory, state, real, clamps)

    def attention_weights(self, batch: PairBatch) -> Tensor | None:
        """The attention weights of each step of a batch, (T, B, S); None without attention."""
        return self(batch)[2]

    def loss(self, batch: PairBatch) -> Loss:
        """The mean cross-entropy of a target token."""
        share = self.settings.teacher_share(self.progress)
        vectors, targets = self(batch)[:2] if share == 1 else self.scheduled_sampling(batch, share)
        smooth = self.settings.label_smoothing
        mean = linear_cross_entropy(vectors, self.output_weight, targets, self.bias, label_smoothing=smooth)
        return Loss(mean, batch.tokens)

    def metric(self) -> DevBleu:
        return DevBleu(self)

    def describe_loss(self) -> Callable[[float], str]:
        return lambda loss: f"loss {loss:.3f}"


class DevBleu(SummedMetric):
    """BLEU of greedy or small-beam translations of the dev set, and the perplexity of its references."""

    best = "bleu"
    tie_breaker = "perplexity"
    sums = ("translations", "references", "total", "count")

    def __init__(self, network: TranslatorNetwork) -> None:
        self.network = network
        self.config = GenerationConfig(num_beams=network.settings.dev_beam).resolve("translation")
        self.translations: list[str] = []
        self.references: list[str] = []
        self.total = 0.0
        self.count = 0

    @torch.no_grad()
    def add(self, batch: PairBatch) -> None:
        network = self.network
        vectors, targets, _ = network(batch)
        losses = linear_cross_entropy(vectors, network.output_weight, targets, network.bias, reduction="sum")
        self.total += float(losses)
        self.count += batch.tokens
        lengths = batch.source_lengths.clamp(max=network.settings.max_length)
        stepper = network.stepper(batch.source[: int(lengths.max())], lengths)
        sources = [batch.source[:length, k].numpy() for k, length in enumerate(lengths.tolist())]
        results = search_batch([stepper], network.target_vocabulary, sources, self.config)
        texts = [network.target_vocabulary.decode(best.tokens) for [best, *_] in results]
        form = network.target_form
        self.translations += texts if form is None or form.tokenized else map(form.restore, texts)
        self.references += batch.references

    def label(self, name: str) -> str:
        """BLEU with the search it is of: `eval` has another by default."""
        beams = self.config.num_beams
        search = "greedy" if beams == 1 else f"beam {beams}"
        return f"BLEU ({search})" if name == "bleu" else super().label(name)

    def result(self) -> dict[str, float]:
        score = 0.0
        if self.translations:
            s = self.network.settings
            score = bleu(self.translations, self.references, tokenize=s.bleu_tokenize, lowercase=s.lower).score
        return {"bleu": score, "perplexity": perplexity(self.total / max(1, self.count))}
