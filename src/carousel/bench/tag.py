"""Taggers against the same networks in plain PyTorch: `carousel bench tag`.

What is measured is a whole training step (forward, backward, clipping, optimizer) on one batch: sentences of random
words that come as often as words do (Zipf, short ones more often), with their characters. Sentences are as long as they
come in English treebanks (half of them 13 words or fewer, some 60): the batch of a program that shuffles. A batch of
sentences of similar length, as our own batches are, is a figure without a claim.

The plain side is what a user writes: `nn.Embedding`, `nn.LSTM` on a `PackedSequence` over the characters of every word
and over words, and either `F.cross_entropy` or a CRF that loops over time and leaves the gradient to autograd. The
claim is against that. We read each distinct word of a batch once; that is our doing, not the kernels'. To tell the two
apart, plain PyTorch is also measured with that trick; this too is a figure without a claim.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from ..data import Vocabulary
from ..data.stores.examples import NO_LABEL, Column, ExampleBatch, collate
from ..data.text.tags import Scheme, all_tags
from ..errors import CarouselError
from ..ops import backend
from ..tasks.tag.data import TagAssets
from ..tasks.tag.examples import TagVocabulary
from ..tasks.tag.network import TaggerNetwork
from ..tasks.tag.settings import TagSettings
from ..training.optimizers import make_optimizer
from .claims import measured, print_claims
from .layers import race

WORDS = 8000  # in the vocabulary
SENTENCES, LONGEST = 32, 60  # in a batch; words of the longest
LENGTHS = ("as they come", "of similar length")
SETUPS: dict[str, dict[str, Any]] = {  # the sizes of docs/tag.md
    "parts of speech, softmax": {"output": "softmax", "tags": [f"T{k}" for k in range(17)]},
    "names, CRF": {"output": "crf", "tags": all_tags("ABCDEF", "bioes")},
}  # fmt: skip
SIZES: dict[str, Any] = {"embedding": 100, "hidden": 200, "character_embedding": 50, "character_hidden": 100}
LEAST = 2.0


def make_batch(setup: dict[str, Any], kind: str = LENGTHS[0], seed: int = 0) -> tuple[TagVocabulary, ExampleBatch]:
    """A vocabulary of random words, and sentences of them."""
    draw = np.random.default_rng(seed)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    spellings = ("".join(draw.choice(letters, n)) for n in draw.integers(2, 13, 2 * WORDS))
    words = sorted(list(dict.fromkeys(spellings))[:WORDS], key=len)
    spans = setup["output"] == "crf"
    scheme: Scheme | None = "bioes" if spans else None
    known = Vocabulary.from_tokens(words, "word"), Vocabulary.train(words)
    vocabulary = TagVocabulary(*known, setup["tags"], scheme, scheme, frozenset(words))
    if kind == "as they come":
        lengths = np.clip(draw.lognormal(np.log(13), 0.75, SENTENCES), 1, LONGEST).astype(np.int64)
    else:
        lengths = draw.integers(LONGEST // 4, LONGEST // 3 + 1, SENTENCES)
    share = 1 / np.arange(1, WORDS + 1)
    sentences = [[words[k] for k in draw.choice(WORDS, n, p=share / share.sum())] for n in lengths]
    labels = draw.choice([0, 4, 8] if spans else len(setup["tags"]), lengths.sum())  # O and one-word spans are legal
    return vocabulary, collate({**vocabulary.encode(sentences), "labels": Column(labels, lengths)}, per_token=True)


def make_network(setup: dict[str, Any], vocabulary: TagVocabulary) -> TaggerNetwork:
    plain: dict[str, Any] = {"dropout": 0, "word_dropout": 0, "word_features": 0, "lm_loss": 0}
    settings = TagSettings(train=Path("text"), output=setup["output"], **plain, **SIZES)
    return TaggerNetwork(settings, TagAssets(vocabulary))


class Plain(nn.Module):
    """The tagger in plain PyTorch; `distinct` reads the characters of each distinct word once, as ours does."""

    def __init__(self, vocabulary: TagVocabulary, output: str, distinct: bool) -> None:
        super().__init__()
        s, K = SIZES, len(vocabulary.tags)
        self.distinct = distinct
        self.words = nn.Embedding(len(vocabulary.words), s["embedding"], padding_idx=0)
        self.characters = nn.Embedding(len(vocabulary.characters), s["character_embedding"], padding_idx=0)
        self.shapes = nn.LSTM(s["character_embedding"], s["character_hidden"], bidirectional=True)
        self.layers = nn.LSTM(s["embedding"] + 2 * s["character_hidden"], s["hidden"], bidirectional=True)
        self.output = nn.Linear(2 * s["hidden"], K)
        self.crf = output == "crf"
        self.transitions = nn.Parameter(torch.zeros(K, K))
        self.start, self.end = nn.Parameter(torch.zeros(K)), nn.Parameter(torch.zeros(K))

    def loss(self, batch: ExampleBatch) -> Tensor:
        """The mean loss of a word."""
        assert batch.characters is not None and batch.spelling is not None and batch.labels is not None
        letters, lengths, mask = batch.characters, batch.spelling, batch.mask
        which = None
        if self.distinct:
            letters, which = torch.unique(letters, dim=1, return_inverse=True)
            lengths = (letters != 0).sum(0)
        packed = pack_padded_sequence(self.characters(letters), lengths, enforce_sorted=False)
        last = self.shapes(packed)[1][0].transpose(0, 1).flatten(1)
        last = last if which is None else last[which]
        shapes = last.new_zeros(*mask.shape, last.shape[1]).masked_scatter(mask.unsqueeze(2), last)
        x = torch.cat((self.words(batch.tokens), shapes), 2)
        y = self.layers(pack_padded_sequence(x, batch.lengths, enforce_sorted=False))[0]
        scores = self.output(pad_packed_sequence(y)[0])
        if not self.crf:
            return F.cross_entropy(scores.flatten(0, 1), batch.labels.flatten(), ignore_index=NO_LABEL)
        return self.crf_loss(scores, batch.labels.clamp(min=0), mask) / batch.lengths.sum()

    def crf_loss(self, scores: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """−log p of all taggings, ()."""
        every = torch.arange(tags.shape[1])
        gold = self.start[tags[0]] + scores[0, every, tags[0]]
        total = self.start + scores[0]
        for t in range(1, len(scores)):
            step = self.transitions[tags[t - 1], tags[t]] + scores[t, every, tags[t]]
            gold = gold + step * mask[t]
            onward = torch.logsumexp(total.unsqueeze(2) + self.transitions, 1) + scores[t]
            total = torch.where(mask[t].unsqueeze(1), onward, total)
        last = tags[mask.sum(0) - 1, every]
        return (torch.logsumexp(total + self.end, 1) - gold - self.end[last]).sum()


def step_of(loss: Callable[[], Tensor], model: nn.Module, optimizer: torch.optim.Optimizer) -> Callable[[], None]:
    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()

    return step


def measure(seconds: float) -> list[dict[str, Any]]:
    """Training steps side by side, in words a second."""
    rows = []
    for (name, setup), kind in itertools.product(SETUPS.items(), LENGTHS):
        torch.manual_seed(0)
        vocabulary, batch = make_batch(setup, kind)
        ours = make_network(setup, vocabulary)
        sides = {"carousel": step_of(lambda ours=ours, batch=batch: ours.loss(batch).mean, ours,  # type: ignore[misc]
                                     make_optimizer(ours.settings, ours.parameters()))}  # fmt: skip
        for side, distinct in (("torch", False), ("torch, distinct words", True)):
            plain = Plain(vocabulary, setup["output"], distinct)
            adam = torch.optim.Adam(plain.parameters())
            sides[side] = step_of(lambda plain=plain, batch=batch: plain.loss(batch), plain, adam)  # type: ignore[misc]
        times = race(sides, seconds)
        words = int(batch.lengths.sum())
        rates = {side: words / t for side, t in times.items()}
        rows.append({"setup": name, "sentences": kind, "words": words, **rates})
    return rows


def main(out: Path, seconds: float = 5.0) -> dict[str, Any]:
    """Measure, print the table, write tag.json."""
    from rich.console import Console
    from rich.table import Table

    if not backend.available():
        raise CarouselError(f"bench tag: {backend.why_not()}")

    result = measured(out / "tag.json", lambda: {"training": measure(seconds)}, lambda found: claims(found["training"]))
    rows = result["training"]
    table = Table(title="training a tagger, words a second, 2 threads")
    for column in ("", "sentences", "plain", "plain, distinct words", "carousel", "ratios"):
        table.add_column(column, justify="left" if not column else "right")
    for row in rows:
        rates = [f"{row[side]:,.0f}" for side in ("torch", "torch, distinct words", "carousel")]
        ratios = [row["carousel"] / row[side] for side in ("torch", "torch, distinct words")]
        table.add_row(row["setup"], row["sentences"], *rates, f"{ratios[0]:.2f} {ratios[1]:.2f}")
    console = Console()
    console.print(table)
    print_claims(console, result["claims"])
    return result


def claims(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the project holds itself to, and what was found."""
    claim_rows = []
    for row in rows:
        if row["sentences"] != LENGTHS[0]:
            continue
        ratio = row["carousel"] / row["torch"]
        what = f"training, {row['setup']}, ratio to plain PyTorch"
        claim_rows.append({"what": what, "found": ratio, "must": f"≥ {LEAST:g}", "holds": ratio >= LEAST})
    return claim_rows
