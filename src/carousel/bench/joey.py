"""Joey NMT's side of `carousel bench translate`: its model, loss and search, called as its own programs call them."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..data import END
from ..errors import ArgumentError, CarouselError
from ..networks.attention import Additive
from ..tasks.translate.network import TranslatorNetwork
from ..tasks.translate.pairs import PairBatch
from ..tasks.translate.settings import TranslateSettings

NETWORK: dict[str, tuple[Any, ...]] = {  # of what our network may have, what its network has
    "cell": ("lstm",), "bidirectional": (True,), "layers": (1,), "decoder_layers": (None, 1), "init": ("bridge",),
    "attention": ("additive",), "decoder": ("luong",), "tied": ("none",),
}  # fmt: skip


def need_joey() -> None:
    if importlib.util.find_spec("joeynmt") is None:
        raise CarouselError("bench translate: Joey NMT is not installed; pip install --no-deps joeynmt==2.3.0 "
                         "sentencepiece subword-nmt 'importlib-metadata<8.6' zipp")  # fmt: skip


def need_like(settings: TranslateSettings) -> None:
    """Refuse settings of a network that Joey NMT does not have."""
    for name, accepted in {**NETWORK, "attention_size": (None, settings.decoder_size)}.items():
        value = getattr(settings, name)
        if value not in accepted:
            raise ArgumentError(f"{name} is {value}, and Joey NMT's network has {accepted[-1]}; give a run that was "
                             f"trained with {name}={accepted[-1]}")  # fmt: skip


def make_joey(ours: TranslatorNetwork) -> Any:
    """Joey NMT's model of the sizes and with the weights of `ours`.

    What only ours has becomes 0 there: biases of keys and outputs; and its c begins with the map for h.
    """
    before = logging.root.manager.disable
    logging.disable(logging.INFO)
    try:
        from joeynmt.model import build_model
        from joeynmt.vocabulary import Vocabulary as JoeyVocabulary

        s = ours.settings
        special = SimpleNamespace(
            unk_token="<unk>", pad_token="<pad>", bos_token="<s>", eos_token="</s>", sep_token=None, lang_tags=[],
            unk_id=0, pad_id=1, bos_id=2, eos_id=3, sep_id=None,
        )  # fmt: skip
        source, target = (
            JoeyVocabulary([f"w{k}" for k in range(len(embedder.weight) - 4)], special)
            for embedder in (ours.source_embedder, ours.target_embedder)
        )
        common = {"type": "recurrent", "rnn_type": "lstm", "num_layers": 1, "dropout": s.dropout,
                  "embeddings": {"embedding_dim": s.embedding, "dropout": s.dropout}}  # fmt: skip
        encoder = {**common, "hidden_size": s.hidden, "bidirectional": True}
        decoder = {**common, "hidden_size": s.decoder_size, "attention": "bahdanau", "init_hidden": "bridge",
                   "input_feeding": s.input_feeding, "hidden_dropout": s.dropout}  # fmt: skip
        model: Any = build_model({"encoder": encoder, "decoder": decoder}, source, target)
        model.loss_function = ("crossentropy", s.label_smoothing)
    finally:
        logging.disable(before)
    share_weights(ours, model)
    return model


@torch.no_grad()
def share_weights(ours: TranslatorNetwork, joey: Any) -> None:
    """Let `joey` compute what `ours` does."""
    decoder, attention = joey.decoder, ours.decoder.attention
    assert isinstance(attention, Additive)
    source, target = (theirs(torch.arange(len(e.weight))) for e in (ours.source_embedder, ours.target_embedder))
    assert ours.decoder.join is not None and ours.output is not None
    ours.bias.zero_()
    if attention.key.bias is not None:
        attention.key.bias.zero_()
    bridges = [part.chunk(2) for part in (ours.bridge.map.weight, ours.bridge.map.bias)]
    for of_h, of_c in bridges:
        of_c.copy_(of_h)
    context, query = ours.decoder.join.weight.split([attention.memory_size, ours.decoder.size], 1)
    joey.src_embed.lut.weight[source] = ours.source_embedder.weight
    joey.trg_embed.lut.weight[target] = ours.target_embedder.weight
    decoder.output_layer.weight[target] = ours.output
    joey.encoder.rnn.load_state_dict(ours.encoder.state_dict())
    decoder.rnn.load_state_dict(ours.decoder.layers.state_dict())
    for to, value in (
        (decoder.bridge_layer.weight, bridges[0][0]),
        (decoder.bridge_layer.bias, bridges[1][0]),
        (decoder.att_vector_layer.weight, torch.cat((query, context), 1)),
        (decoder.att_vector_layer.bias, ours.decoder.join.bias),
        (decoder.attention.query_layer.weight, attention.query.weight),
        (decoder.attention.key_layer.weight, attention.key.weight),
        (decoder.attention.energy_layer.weight, attention.v.unsqueeze(0)),
    ):
        to.copy_(value)


def theirs(tokens: Tensor) -> Tensor:
    """Our ids as Joey NMT's: both have four special ones first, which are [PAD] [START] [END] [UNK] here and there
    [UNK] [PAD] [START] [END]."""
    return torch.where(tokens < 4, (tokens + 1) % 4, tokens)


def joey_batch(batch: PairBatch) -> Any:
    from joeynmt.batch import Batch

    target = torch.cat((batch.inputs[:1], batch.targets)).T.contiguous()
    return Batch(theirs(batch.source.T.contiguous()), batch.source_lengths.clone(), None, theirs(target), None,
                 torch.arange(len(target)), torch.device("cpu"), pad_index=1, eos_index=3)  # fmt: skip


def joey_loss(model: Any, batch: Any) -> Tensor:
    """The mean loss of a token, as its trainer takes it."""
    batch.sort_by_src_length()
    total = model(return_type="loss", **vars(batch))[0]
    return batch.normalize(total, normalization="tokens")


def joey_trainer(model: Any) -> Callable[[Any], None]:
    """A step of training on a batch of its own, as in its `TrainManager`."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)

    def step(batch: Any) -> None:
        model.train()
        joey_loss(model, batch).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        model.zero_grad()

    return step


def joey_translations(
    model: Any, batches: Iterable[Any], beam: int, length: int = -1, **wish: Any
) -> Iterator[list[int]]:
    """The best translations of its batches, one by one, in our ids and without [END].

    `length` is the longest; by default, as with it, one and a half times the longest source of a batch.
    """
    from joeynmt.search import search

    model.eval()
    for batch in batches:
        order = batch.sort_by_src_length()
        outputs, _, _ = search(model, batch, max_output_length=length, beam_size=beam, generate_unk=False, **wish)
        for row in np.asarray(outputs, int)[order]:
            ours = np.where(row < 4, (row + 3) % 4, row).tolist()
            yield ours[: ours.index(END)] if END in ours else ours
