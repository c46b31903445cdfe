"""Reviews that words tell apart, and classifiers of them."""

import random

import torch

from carousel.data.stores.examples import collate
from carousel.tasks.classify.task import Classify

WORDS = ["the", "a", "film", "scene", "plot", "actor", "was", "is", "rather", "quite"]
TELLING = {"good": ["warm", "funny", "fine"], "bad": ["dull", "flat", "endless"]}


def write_reviews(path, count, seed):
    """Texts in which one word tells the class."""
    draw = random.Random(seed)
    rows = []
    for k in range(count):
        label = ("good", "bad")[k % 2]
        words = [draw.choice(WORDS) for _ in range(draw.randint(0, 6))]
        words.insert(draw.randint(0, len(words)), draw.choice(TELLING[label]))
        rows.append(f"{' '.join(words)}\t{label}\n")
    path.write_text("".join(rows), "utf-8")


def new_model(settings):
    """A model that has not been trained, and its data."""
    assets, data = Classify.prepare(settings)
    return Classify.make_model(Classify.make_network(settings, assets), assets), data


def batch_of(model, texts, labels=None):
    batch = collate(model.encoder(texts)[0])
    if labels is None:
        return batch
    return type(batch)(batch.tokens, batch.lengths, torch.tensor(labels), batch.rows)
