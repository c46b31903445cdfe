"""Small translators with random weights, and batches for them."""

import numpy as np
import torch

from carousel.data import Vocabulary
from carousel.data.stores.examples import Column
from carousel.tasks.translate.data import TranslateAssets
from carousel.tasks.translate.network import TranslatorNetwork
from carousel.tasks.translate.pairs import collate_pairs
from carousel.tasks.translate.predictor import Translator
from carousel.tasks.translate.settings import TranslateSettings

LETTERS = "abcdef"
ATTENTIONS = ["additive", "dot", "scaled-dot", "general", "content", "location", "none"]
SMALL = {"tokens": "word", "hidden": 6, "embedding": 5, "batch_size": 16, "bleu_tokenize": "none", "log_steps": 3}
BATCH = [([4, 5, 6], [7, 8]), ([9], [4, 4, 4, 5]), ([5, 5], [])]


def untrained(seed=0, words=LETTERS, scale=2.5, **given):
    """A model in eval mode whose weights are random, and large enough for it to prefer some tokens."""
    torch.manual_seed(seed)
    settings = TranslateSettings.read({"train": "a.tsv", **SMALL, **given})
    known = Vocabulary.from_tokens(words, settings.tokens)
    assets = TranslateAssets(known, known)
    network = TranslatorNetwork(settings, assets).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(scale)
    return Translator(network, assets)


def batch_of(*pairs):
    """A batch of pairs of ids."""
    sides = list(zip(*pairs, strict=True))
    columns = [
        Column(np.array([i for ids in side for i in ids], np.int64), np.array([len(ids) for ids in side], np.int64))
        for side in sides
    ]
    return collate_pairs(*columns)


def spread(batch, vectors):
    """Vectors of the real steps, (N, H), sequence by sequence, at their place in (T, B, H)."""
    real = torch.arange(len(batch.inputs)) < batch.lengths.unsqueeze(1)
    whole = vectors.new_zeros(*real.shape, vectors.shape[1])
    whole[real] = vectors
    return whole.transpose(0, 1)


def teacher_forced(network, batch):
    """What the output layer reads at each step, (T, B, ·), and attention weights (T, B, S)."""
    vectors, _, weights = network(batch)
    return spread(batch, vectors), weights
