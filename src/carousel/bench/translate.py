"""The translator against Joey NMT: `carousel bench translate`.

Both sides have the same network, the same weights and the same batches: a bidirectional LSTM encoder, an LSTM decoder
with additive attention, 11.5 million weights. Training is measured in whole steps (forward, backward, clipping,
optimizer), translation in whole searches of a fixed number of steps. The sentences are random words whose lengths are
distributed like those of Multi30k, since speed does not depend on what they say. Joey NMT's model, loss and search are
its own code, called as its trainer calls them.
"""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .. import kernels
from ..data import END, PAD, START, UNK, Vocabulary
from ..data.examples import Column
from ..data.pairs import PairBatch, collate_pairs
from ..decoding import Ban, Beam, Mean, search
from ..models.translate import TranslateSettings, Translator
from ..training.optimizers import make_optimizer
from .claims import measured, print_claims
from .layers import race

SIZE: dict[str, Any] = {"vocabulary": 7400, "embedding": 256, "hidden": 256, "decoder": 512, "feeding": False,
                        "dropout": 0.3, "smoothing": 0.1}  # fmt: skip
SETUPS: dict[str, dict[str, Any]] = {  # both have 11.5 million weights
    "plain": SIZE,
    "input feeding": {**SIZE, "vocabulary": 6350, "feeding": True},
}
PAIRS, BEAM, STEPS = 64, 5, 15  # sentences in a batch; width and length of a search
LEAST = 4.0


def make_batch(size: dict[str, Any], pairs: int = PAIRS, alike: bool = False, seed: int = 0) -> PairBatch:
    """A batch as it is drawn at random, as Joey NMT draws it, or of pairs that are `alike` in length, as ours is.

    Lengths are as in Multi30k's English and German: the logarithms have means 2.52 and 2.47, deviations 0.30 and 0.32
    and a correlation of 0.85. Longer sources come first, as Joey NMT wants them.
    """
    draw = np.random.default_rng(seed)
    covariance = [[0.30**2, 0.85 * 0.30 * 0.32], [0.85 * 0.30 * 0.32, 0.32**2]]
    many = 100 if alike else 1
    lengths = np.exp(draw.multivariate_normal([2.52, 2.47], covariance, pairs * many)).round().astype(int).clip(1)
    middle = np.argsort(lengths.max(1), kind="stable")[(many // 2) * pairs :][:pairs]
    lengths = lengths[middle]
    lengths = lengths[np.argsort(-lengths[:, 0], kind="stable")]
    source, target = (Column(draw.integers(4, size["vocabulary"], n.sum()), n) for n in lengths.T)
    return collate_pairs(source, target)


# ---------------------------------------------------------------- ours


def make_model(size: dict[str, Any]) -> Translator:
    words = Vocabulary.from_tokens([f"w{k}" for k in range(size["vocabulary"] - 4)], "word")
    settings = TranslateSettings(
        train=(Path("source"), Path("target")), embedding=size["embedding"], hidden=size["hidden"],
        decoder_hidden=size["decoder"], attention="additive", input_feeding=size["feeding"], tied="none",
        dropout=size["dropout"], label_smoothing=size["smoothing"], optimizer="adam",
    )  # fmt: skip
    return Translator(settings, words, words)


def our_step(model: Translator, batch: PairBatch) -> Callable[[], None]:
    """A step of training."""
    optimizer = make_optimizer(model.settings, model.parameters())

    def step() -> None:
        model.train()
        optimizer.zero_grad()
        model.loss(batch).mean.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()

    return step


def our_search(model: Translator, batch: PairBatch, steps: int = STEPS) -> Callable[[], list[list[int]]]:
    """A beam search of `steps` steps; the end token is banned, so that neither side has less to do. Weights are packed
    once, as for a file of many batches."""
    writer = model.eval().writer()

    def run() -> list[list[int]]:
        with torch.no_grad():
            stepper = model.stepper(batch.source, batch.source_lengths, writer)
        rules = [Ban([PAD, START, UNK, END])]
        beam = Beam(BEAM, length=Mean())
        found = search(stepper, batch.source.shape[1], beam, start=START, end=END, max_length=steps, constraints=rules)
        return [list(best.tokens) for [best] in found]

    return run


# ---------------------------------------------------------------- Joey NMT


def need_joey() -> None:
    if importlib.util.find_spec("joeynmt") is None:
        raise ValueError("bench translate: Joey NMT is not installed; pip install --no-deps joeynmt==2.3.0 "
                         "sentencepiece subword-nmt 'importlib-metadata<8.6' zipp")  # fmt: skip


def make_joey(size: dict[str, Any]) -> Any:
    """Joey NMT's model of these sizes."""
    before = logging.root.manager.disable
    logging.disable(logging.INFO)
    try:
        from joeynmt.model import build_model
        from joeynmt.vocabulary import Vocabulary as JoeyVocabulary

        special = SimpleNamespace(
            unk_token="<unk>", pad_token="<pad>", bos_token="<s>", eos_token="</s>", sep_token=None, lang_tags=[],
            unk_id=0, pad_id=1, bos_id=2, eos_id=3, sep_id=None,
        )  # fmt: skip
        words = JoeyVocabulary([f"w{k}" for k in range(size["vocabulary"] - 4)], special)
        common = {"type": "recurrent", "rnn_type": "lstm", "num_layers": 1, "dropout": size["dropout"],
                  "embeddings": {"embedding_dim": size["embedding"], "dropout": size["dropout"]}}  # fmt: skip
        encoder = {**common, "hidden_size": size["hidden"], "bidirectional": True}
        decoder = {**common, "hidden_size": size["decoder"], "attention": "bahdanau", "init_hidden": "bridge",
                   "input_feeding": size["feeding"], "hidden_dropout": size["dropout"]}  # fmt: skip
        model = build_model({"encoder": encoder, "decoder": decoder}, words, words)
        model.loss_function = ("crossentropy", size["smoothing"])
        return model
    finally:
        logging.disable(before)


def theirs(tokens: Tensor) -> Tensor:
    """Our ids as Joey NMT's: both have four special ones first, which are [PAD] [START] [END] [UNK] here and there
    [UNK] [PAD] [START] [END]."""
    return torch.where(tokens < 4, (tokens + 1) % 4, tokens)


def joey_batch(batch: PairBatch) -> Any:
    from joeynmt.batch import Batch

    target = torch.cat((batch.inputs[:1], batch.targets)).T.contiguous()
    return Batch(theirs(batch.source.T.contiguous()), batch.source_lengths, None, theirs(target), None,
                 torch.arange(len(target)), torch.device("cpu"), pad_index=1, eos_index=3)  # fmt: skip


def joey_loss(model: Any, batch: Any) -> Tensor:
    """The mean loss of a token, as its trainer takes it."""
    batch.sort_by_src_length()
    total = model(return_type="loss", **vars(batch))[0]
    return batch.normalize(total, normalization="tokens")


def joey_step(model: Any, batch: PairBatch) -> Callable[[], None]:
    """A step of training, as in its `TrainManager`."""
    own = joey_batch(batch)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)

    def step() -> None:
        model.train()
        joey_loss(model, own).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        model.zero_grad()

    return step


def joey_search(model: Any, batch: PairBatch, steps: int = STEPS) -> Callable[[], list[list[int]]]:
    from joeynmt.search import search as joey

    own = joey_batch(batch)

    def run() -> list[list[int]]:
        model.eval()
        found, _, _ = joey(model, own, max_output_length=steps, beam_size=BEAM, beam_alpha=0, generate_unk=False,
                           min_output_length=steps)  # fmt: skip
        return np.asarray(found, int).tolist()

    return run


def copy_weights(joey: Any, ours: Translator) -> None:
    """Let `ours` compute what `joey` does. What only we have, biases of keys and outputs, becomes 0."""
    order = theirs(torch.arange(joey.decoder.output_size))
    decoder: Any = joey.decoder
    attention: Any = ours.decoder.attention
    size = ours.decoder.size
    assert ours.decoder.join is not None and ours.output is not None and attention is not None
    with torch.no_grad():
        ours.source_embedder.weight.copy_(joey.src_embed.lut.weight[order])
        ours.target_embedder.weight.copy_(joey.trg_embed.lut.weight[order])
        ours.output.copy_(decoder.output_layer.weight[order])
        ours.bias.zero_()
        ours.encoder.load_state_dict(joey.encoder.rnn.state_dict())
        ours.decoder.layers.load_state_dict(decoder.rnn.state_dict())
        ours.bridge.map.weight.copy_(decoder.bridge_layer.weight.repeat(2, 1))  # one map for h and c
        ours.bridge.map.bias.copy_(decoder.bridge_layer.bias.repeat(2))
        query, context = decoder.att_vector_layer.weight.split([size, decoder.att_vector_layer.in_features - size], 1)
        ours.decoder.join.weight.copy_(torch.cat((context, query), 1))
        ours.decoder.join.bias.copy_(decoder.att_vector_layer.bias)
        attention.query.weight.copy_(decoder.attention.query_layer.weight)
        attention.key.weight.copy_(decoder.attention.key_layer.weight)
        attention.key.bias.zero_()
        attention.v.copy_(decoder.attention.energy_layer.weight[0])


# ---------------------------------------------------------------- the race


def measure(seconds: float) -> dict[str, list[dict[str, Any]]]:
    """Target tokens a second in training, sentences a second in translation."""
    training, translation = [], []
    for name, size in SETUPS.items():
        torch.manual_seed(0)
        joey, ours = make_joey(size), make_model(size)
        copy_weights(joey, ours)
        weights = {"joey weights": sum(p.numel() for p in joey.parameters()), "weights": ours.size}
        for kind in ("mixed", "alike"):
            batch = make_batch(size, alike=kind == "alike")
            found = race({"joey": joey_step(joey, batch), "carousel": our_step(ours, batch)}, seconds, 3)
            rates = {side: batch.tokens / time for side, time in found.items()}
            training.append({"setup": name, "batch": kind, "tokens": batch.tokens, **weights, **rates})
        copy_weights(joey, ours)
        batch = make_batch(size)
        found = race({"joey": joey_search(joey, batch), "carousel": our_search(ours, batch)}, seconds, 3)
        translation.append({"setup": name, **{side: PAIRS / time for side, time in found.items()}})
    return {"training": training, "translation": translation}


def claims(result: dict[str, Any]) -> list[dict[str, Any]]:
    """What the project holds itself to, of the network without input feeding and batches as they come."""
    [trained] = (row for row in result["training"] if (row["setup"], row["batch"]) == ("plain", "mixed"))
    [translated] = (row for row in result["translation"] if row["setup"] == "plain")
    made = [("training", trained), (f"beam of {BEAM}", translated)]
    found = [(what, row["carousel"] / row["joey"]) for what, row in made]
    return [
        {"what": f"{what}, ratio to Joey NMT", "found": ratio, "must": f"≥ {LEAST:g}", "holds": ratio >= LEAST}
        for what, ratio in found
    ]


def main(out: Path, seconds: float = 5.0) -> dict[str, Any]:
    """Measure, print the table, write translate.json."""
    from rich.console import Console
    from rich.table import Table

    if not kernels.available():
        raise ValueError(f"bench translate: {kernels.why_not()}")
    need_joey()
    result = measured(out / "translate.json", lambda: measure(seconds), claims)
    table = Table(title=f"translation, batches of {PAIRS}, 2 threads")
    for column in ("", "Joey NMT", "carousel", "ratio"):
        table.add_column(column, justify="left" if not column else "right")
    for row in result["training"]:
        what = f"training {row['setup']}, lengths {row['batch']}, target tokens/s"
        table.add_row(what, *(f"{row[side]:,.0f}" for side in ("joey", "carousel")),
                      f"{row['carousel'] / row['joey']:.2f}")  # fmt: skip
    for row in result["translation"]:
        table.add_row(f"beam of {BEAM}, {row['setup']}, sentences/s",
                      *(f"{row[side]:,.1f}" for side in ("joey", "carousel")),
                      f"{row['carousel'] / row['joey']:.2f}")  # fmt: skip
    console = Console()
    console.print(table)
    print_claims(console, result["claims"])
    return result
