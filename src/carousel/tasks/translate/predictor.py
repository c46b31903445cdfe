"""The translator in use: translations of lines, evaluation, what its encoder reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, overload

import numpy as np
import torch

from ...data import START, UNK, Vocabulary
from ...data.sources.memory import read_texts
from ...data.text.formed import restored
from ...data.text.vocabulary import texts_of
from ...decoding import BeamTree, GenerationConfig, OptionError, stream
from ...errors import ArgumentError
from ...layers import Clamp, Trace
from ...metrics import bleu, chrf
from ...training.modes import each_evaluating, evaluating, in_eval_mode
from ...wording import counted
from ..base import NOTHING, LayerInput, Model
from ..shared.generation import SearchTree, encode_known, prefix_of, prepare, token_texts
from .data import DevBatches, TranslateAssets, dev_batches, open_pairs
from .network import TranslatorNetwork
from .pairs import PairBatch
from .search import pad_sources, search_arguments, search_batch, source_batch
from .translation import Translation, describe

WINDOW = 1024  # lines that are sorted by length, so that a batch has similar ones


class Translator(Model[TranslatorNetwork, TranslateAssets]):
    """A translator.

    >>> import tempfile, carousel
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     options = {"out": folder + "/run", "tokens": "word", "hidden": 4, "epochs": 1, "quiet": True}
    ...     model = carousel.train("translate", [("a man", "ein Mann"), ("a dog", "ein Hund")], **options)
    >>> model.translate("a dog", num_beams=2).source_tokens
    ['a', 'dog']
    """

    name = "translate"
    kind = "translator"
    item_types = (str,)
    parts = ("encoder", "decoder")

    @property
    def source_vocabulary(self) -> Vocabulary:
        return self.assets.source

    @property
    def target_vocabulary(self) -> Vocabulary:
        return self.assets.target

    @property
    def info(self) -> dict[str, Any]:
        return {"source": self.source_vocabulary, "target": self.target_vocabulary}

    def encode_line(self, line: str, tokenized: bool | None = None) -> tuple[np.ndarray, str | None]:
        """The ids of a line, truncated after `max_length`; and a note if something about it is unusual."""
        return self._encode(self.assets.read(0, [line], tokenized).texts[0])

    def _encode(self, line: str) -> tuple[np.ndarray, str | None]:
        """As `encode_line`, for a line in the form of the model."""
        ids, most = self.source_vocabulary.encode(self.settings.read_text(line)), self.settings.max_length
        if not line.strip():
            return ids[:0], "the line is empty, and so is its translation"
        if len(ids) > most:
            return ids[:most], f"cut off after {most} of {len(ids):,} tokens (max_length of the run)"
        if (ids == UNK).all():
            return ids, f"none of its {len(ids)} tokens is known to the model"
        return ids, None

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
        """As `translate`, for any number of lines, read `window` at a time.

        Of these `batch_size` at a time are translated, those of similar length together. Neither changes a translation.
        """
        models = [self, *ensemble]
        check_ensemble(models)
        return _translations(models, read_texts(lines, what="lines"), prepare(config, options, "translation"), window)

    def stream(self, line: str, config: GenerationConfig | None = None, **options: Any) -> Iterator[str]:
        """The text of `translate(line, …)` in pieces, each as soon as it is certain; a beam search is, at its end."""
        return each_evaluating(self, _stream(self, line, prepare(config, options, "translation")))

    def batches(self, *files: str | Path) -> DevBatches:
        return dev_batches(self.settings, self.assets, open_pairs(self.settings, files))

    def batch_of(self, items: Sequence[str]) -> PairBatch:
        return source_batch([self.encode_line(line)[0] for line in items])

    def surface_forms(self, items: Sequence[str]) -> list[list[str]]:
        texts = map(self.settings.read_text, self.assets.read(0, items).texts)
        return [self.source_vocabulary.split(text)[: self.settings.max_length] for text in texts]

    def _run_traced(self, items: Sequence[str], clamps: Sequence[Clamp], part: str) -> Trace:
        """Of the decoder while it generates the translations of lines: each step reads the token before its own."""
        if part == "encoder":
            return super()._run_traced(items, clamps, part)
        translations = self.translate(items)
        if not any(one.source_tokens for one in translations):
            raise ArgumentError(NOTHING)
        return self.trace_decoder(translations, clamps)

    @in_eval_mode
    @torch.no_grad()
    def trace_decoder(self, translations: Sequence[Translation], clamps: Sequence[Clamp] = ()) -> Trace:
        """The trace of the decoder's layers for translations, with some values held; the tokens are those of the
        translations."""
        batch = self.batch_of([one.source for one in translations])
        read = [[START, *one.ids[:-1]] if one.ids else [] for one in translations]  # no step reads the last token
        trace = self.network.trace_decoder(batch.source, batch.source_lengths, read, clamps)
        trace.tokens = tuple(tuple(token_texts(self.target_vocabulary, ids)) for ids in read)
        return trace

    def layer_input(self, batch: PairBatch) -> LayerInput:
        """Of the encoder."""
        lengths = batch.source_lengths
        tokens = texts_of(self.source_vocabulary, batch.source, lengths)
        return LayerInput("encoder", self.network.encoder, self.network.embed_source(batch.source), lengths, tokens)

    @in_eval_mode
    def evaluate(
        self, *files: str | Path, worst: int = 5, config: GenerationConfig | None = None, **options: Any
    ) -> dict[str, Any]:
        """BLEU and chrF of the translations of a file's texts, those of each sentence, and the `worst` by chrF."""
        s, form = self.settings, self.assets.target_form
        pairs = list(open_pairs(s, files))
        chosen, readable = prepare(config, options, "translation"), form is not None and not form.tokenized
        translations = _translations([self], [pair.source for pair in pairs], chosen, WINDOW, readable)
        texts = [str(one) for one in translations]
        references = self.assets.comparable([pair.target for pair in pairs])
        by_word = bleu(texts, references, tokenize=s.bleu_tokenize, lowercase=s.lower)
        by_character = chrf(texts, references, lowercase=s.lower)
        scores: list[dict[str, Any]] = [
            {
                "line": pair.line,
                "bleu": b,
                "chrf": c,
                "source": pair.source,
                "reference": pair.target,
                "translation": text,
            }
            for pair, text, b, c in zip(pairs, texts, by_word.sentences, by_character.sentences, strict=True)
        ]
        return {
            "bleu": by_word.score,
            "chrf": by_character.score,
            "exact": sum(text == right for text, right in zip(texts, references, strict=True)) / len(pairs),
            "sentences": len(pairs),
            "bleu_signature": by_word.signature,
            "chrf_signature": by_character.signature,
            "worst": sorted(scores, key=lambda one: one["chrf"])[:worst],
            "scores": scores,
        }


def check_ensemble(models: Sequence[Translator]) -> None:
    """Raise unless all models have the same vocabularies."""
    first, *others = models
    for k, other in enumerate(others, 2):
        for side in ("source", "target"):
            mine, theirs = (getattr(model.assets, side) for model in (first, other))
            if mine != theirs:
                raise ArgumentError(
                    f"model {k} of the ensemble has another {side} vocabulary ({len(theirs):,} tokens) than the first "
                    f"({len(mine):,} tokens); train both with the same data, tokens and vocabulary size"
                )


def _translations(
    models: Sequence[Translator], lines: Iterable[str], config: GenerationConfig, window: int,
    readable: bool | None = None,
) -> Iterator[Translation]:  # fmt: skip
    """A translation of each line, in their order; `config` is from `prepare`. Several models are an ensemble.

    `readable`: whether translations are put back into readable text; None: unless the lines are tokenized.
    """
    waiting, first = iter(lines), 0
    while group := list(islice(waiting, window)):
        with evaluating(*models):
            translations = _translate(models, group, first, config, readable)
        yield from translations
        first += len(group)
    if not isinstance(config.prefix, str) and len(config.prefix) > first:
        raise OptionError(
            f"{{prefix}}: there are {len(config.prefix):,} for {counted(first, 'line')}; give one for each line"
        )


def _translate(
    models: Sequence[Translator], lines: list[str], first: int, config: GenerationConfig, readable: bool | None
) -> list[Translation]:
    """Translations of lines, which are numbered from `first`."""
    model, networks = models[0], [model.network for model in models]
    texts, raw = model.assets.read(0, lines, True if config.tokenized else None)
    form = model.assets.target_form if (raw if readable is None else readable) else None
    encoded, notes = zip(*(model._encode(text) for text in texts), strict=True)
    model.tally.add(np.concatenate(encoded), texts)
    prefixes = [_prefix(model, config, first + k) for k in range(len(lines))]
    results: list[Translation | None] = [None] * len(lines)
    order = sorted((k for k, ids in enumerate(encoded) if len(ids)), key=lambda k: -len(encoded[k]))
    decoders = [network.search_decoder() for network in networks]  # packed once for all batches
    for start in range(0, len(order), config.batch_size):
        chosen = order[start : start + config.batch_size]
        record = BeamTree() if config.tree else None
        sources, numbers = [encoded[k] for k in chosen], [first + k for k in chosen]
        padded = pad_sources(sources)
        steppers = [network.stepper(*padded, decoder) for network, decoder in zip(networks, decoders, strict=True)]
        hypotheses = search_batch(
            steppers, model.target_vocabulary, sources, config, [prefixes[k] for k in chosen], numbers, record
        )
        given = [lines[k] for k in chosen], [texts[k] for k in chosen]
        described = describe(networks, model.assets, *given, sources, hypotheses, config)
        if form is not None:
            described = [[replace(one, text=form.restore(one.text)) for one in several] for several in described]
        for item, (k, [best, *others]) in enumerate(zip(chosen, described, strict=True)):
            tree = None if record is None else SearchTree(record, item, model.target_vocabulary, best.ids)
            results[k] = replace(best, others=tuple(others), note=notes[k], tree=tree)
    nothing = {"text": "", "tokens": [], "ids": (), "log_prob": 0.0, "score": 0.0, "finished": True}
    return [
        one or Translation(source=line, source_tokens=[], note=note, **nothing)  # type: ignore[arg-type]
        for one, line, note in zip(results, lines, notes, strict=True)
    ]


def _stream(model: Translator, line: str, config: GenerationConfig) -> Iterator[str]:
    """The translation of a line in pieces, each as soon as it is certain."""
    if config.num_return_sequences > 1:
        raise OptionError("{num_return_sequences}: a stream is one text; call translate for several")
    if config.unknown == "replace":
        raise OptionError("{unknown}: replace needs the whole translation; call translate, or use allow")
    (text,), raw = model.assets.read(0, [line], True if config.tokenized else None)
    ids, _ = model._encode(text)
    if len(ids):
        arguments = search_arguments(model.target_vocabulary, [ids], config, [_prefix(model, config, 0)])
        stepper = model.network.stepper(*pad_sources([ids]))
        chosen = stream(stepper, 1, items=[0], **arguments)
        pieces = _stripped(model.target_vocabulary.decode_stream(one.token for one in chosen))
        form = model.assets.target_form
        yield from pieces if form is None or not raw else restored(form, pieces)


def _stripped(pieces: Iterable[str]) -> Iterator[str]:
    """Text in pieces, without the spaces around the whole of it."""
    spaces = ""  # at the end so far, held back until something follows
    begun = False
    for piece in pieces:
        text = spaces + piece if begun else piece.lstrip()
        kept = text.rstrip()
        spaces = text[len(kept) :]
        if kept:
            begun = True
            yield kept


def _prefix(model: Translator, config: GenerationConfig, number: int) -> list[int]:
    """The ids that the translation of line `number` begins with."""
    text = config.prefix if isinstance(config.prefix, str) else prefix_of(config.prefix, number)
    if model.assets.target_form is not None:
        text = model.assets.target_form.read([text], True if config.tokenized else None).texts[0]
    ids = encode_known(model.target_vocabulary, model.settings.read_text(text), config, "{prefix}")
    if config.max_length is not None and len(ids) >= config.max_length:
        room = f"{counted(len(ids), 'token')} leave no room below {{max_length}}, {config.max_length:,}"
        raise OptionError(f"{{prefix}}: {room}; give a larger one")
    return ids
