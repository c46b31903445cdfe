"""Adaptive against full softmax at equal processor time, on text of known structure.

    python evaluation/adaptive.py --words 50000 200000 --seconds 180

Word k has frequency proportional to 1 / k. Half of the time a word is followed by its one successor, whose frequency is
like its own (ranks are shuffled from each power of 2 to the next), and else by a word drawn by frequency. So the lowest
perplexity that any model can have is known. One thread; time is the processor's, of training steps alone.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import torch

from carousel.data import TextBatch, Vocabulary
from carousel.tasks.lm.data import LanguageAssets
from carousel.tasks.lm.network import LanguageNetwork
from carousel.tasks.lm.settings import LanguageSettings
from carousel.training.optimizers import clip_norm, make_optimizer

STEPS, STREAMS, FIRST = 35, 20, 4  # the first four ids are special


class Text:
    """Batches of words without end."""

    def __init__(self, words, seed):
        self.words, self.draw = words, np.random.default_rng(seed)
        weights = 1 / np.arange(1, words + 1)
        self.frequency = weights / weights.sum()
        self.cumulative = np.cumsum(self.frequency)
        octave = np.log2(np.arange(1, words + 1)).astype(int)
        self.successor = np.lexsort((np.random.default_rng(0).random(words), octave))

    def batch(self):
        ids = np.empty((STEPS + 1, STREAMS), np.int64)
        for t in range(STEPS + 1):
            free = np.minimum(np.searchsorted(self.cumulative, self.draw.random(STREAMS)), self.words - 1)
            ids[t] = free if t == 0 else np.where(self.draw.random(STREAMS) < 0.5, self.successor[ids[t - 1]], free)
        tensor = torch.from_numpy(ids + FIRST)
        lengths = torch.full((STREAMS,), STEPS)
        return TextBatch(tensor[:-1], tensor[1:], lengths, torch.arange(STREAMS), STEPS * STREAMS)

    def floor(self, batches):
        """The perplexity of the true distribution."""
        total = 0.0
        for batch in batches:
            before, after = (ids.numpy() - FIRST for ids in (batch.inputs, batch.targets))
            total -= np.log(0.5 * (self.successor[before] == after) + 0.5 * self.frequency[after]).mean()
        return np.exp(total / len(batches))


def train(words, output, seconds, dev):
    torch.manual_seed(0)
    text = Text(words, 1)
    vocabulary = Vocabulary.from_tokens([f"w{k}" for k in range(words)], "word")
    settings = LanguageSettings(train=Path("text"), tied=False, output=output, embedding=128, hidden=128, dropout=0)
    network = LanguageNetwork(settings, LanguageAssets(vocabulary))
    optimizer = make_optimizer(settings, network.parameters())
    spent, steps = 0.0, 0
    while spent < seconds:
        batch, begun = text.batch(), time.process_time()
        loss = network.loss(batch).mean
        optimizer.zero_grad()
        loss.backward()
        clip_norm(network.parameters(), 5.0)
        optimizer.step()
        spent, steps = spent + time.process_time() - begun, steps + 1
    network.eval()
    with torch.no_grad():
        perplexity = float(torch.stack([network.loss(batch).mean for batch in dev]).mean().exp())
    rate = steps * STEPS * STREAMS / spent
    print(
        f"{words:,} words, {output}: {rate:,.0f} tokens/s, {steps:,} steps, dev perplexity {perplexity:,.0f}",
        flush=True,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=int, nargs="+", default=[50_000, 200_000])
    parser.add_argument("--seconds", type=float, default=180)
    given = parser.parse_args()
    torch.set_num_threads(1)
    for words in given.words:
        text = Text(words, 2)
        dev = [text.batch() for _ in range(20)]
        print(f"{words:,} words: no model can be below {text.floor(dev):,.0f}", flush=True)
        for output in ("softmax", "adaptive"):
            train(words, output, given.seconds, dev)
