"""Small bidirectional language models, and torch's layers with their weights."""

import random

import torch
import torch.nn.functional as F
from torch import nn

from carousel.data import END, PAD, START, Vocabulary
from carousel.data.stores.examples import collate
from carousel.data.text.words import WordVocabulary
from carousel.networks.embedder import Embedder
from carousel.tasks.bilm.data import BilmAssets
from carousel.tasks.bilm.network import BilmNetwork
from carousel.tasks.bilm.predictor import BiLanguageModel
from carousel.tasks.bilm.settings import BilmSettings

SENTENCES = ["the cat sat", "a dog", "dog", "the old dog saw the cat", "Zoe sat", "the cat saw a dog and sat down"]
SMALL = {"embedding": 6, "hidden": 6, "character_embedding": 4, "character_hidden": 5, "batch_size": 3, "lr": 0.02,
         "log_steps": 2, "min_frequency": 1, "epochs": 2}  # fmt: skip


def network(**given):
    """A model with weights far from zero, so that errors show; it does not know Zoe."""
    settings = BilmSettings(train="text.txt", **{**SMALL, **given})
    words = Vocabulary.train(SENTENCES[:4] + SENTENCES[5:], "word")
    characters = None if settings.characters == "none" else Vocabulary.train("".join(SENTENCES).replace(" ", ""))
    assets = BilmAssets(WordVocabulary(words, characters))
    model = BiLanguageModel(BilmNetwork(settings, assets).eval(), assets)
    with torch.no_grad():
        for parameter in model.network.parameters():
            parameter.mul_(2).add_(torch.randn_like(parameter) * 0.3)
        for part in model.modules():
            if isinstance(part, Embedder):
                part.weight[PAD] = 0
    return model


def batch_of(model, sentences):
    return collate(model.assets.words.encode([sentence.split() for sentence in sentences]))


def torch_stack(model, stack):
    """The same layers in torch."""
    s = model.settings
    lstm = nn.LSTM(s.embedding, s.hidden, s.layers, proj_size=s.embedding if s.hidden > s.embedding else 0)
    weights = {}
    for k, layer in enumerate(stack.layers):
        weights |= {name.replace("_l0", f"_l{k}"): value for name, value in layer.state_dict().items()}
    lstm.load_state_dict(weights)
    return lstm


def own_vectors(model, sentence):
    """[START], words, [END] as vectors, one by one; and their numbers."""
    ids = [START]
    vectors = [model.network.embedder.embedder.weight[START]]
    for word in sentence.split():
        ids.append(model.assets.words.words.id(word))
        vector = model.network.embedder.embedder.weight[ids[-1]]
        if model.network.shapes is not None:
            letters = torch.tensor([model.assets.words.characters.id(letter) for letter in word]).unsqueeze(1)
            vector = (
                vector
                + model.network.spelled.weight @ model.network.shapes.readers[0](letters, torch.tensor([len(word)]))[0]
            )
        vectors.append(vector)
    return [*ids, END], torch.stack([*vectors, model.network.embedder.embedder.weight[END]])


@torch.no_grad()
def plain_losses(model, sentence):
    """−log p of each word and mark, forwards and backwards, with torch's layers on this sentence alone."""
    ids, x = own_vectors(model, sentence)
    found = []
    for stack, numbers, vectors in (
        (model.network.forward_layers, ids, x),
        (model.network.backward_layers, ids[::-1], x.flip(0)),
    ):
        y, _ = torch_stack(model, stack)(vectors[:-1].unsqueeze(1))
        logits = y[:, 0] @ model.network.output_weight.T + model.network.bias
        found.append(F.cross_entropy(logits.double(), torch.tensor(numbers[1:]), reduction="none").tolist())
    return found


def write_sentences(path, count, seed):
    """Sentences in which a word tells the next: every adjective has its noun."""
    draw = random.Random(seed)
    pairs = [("old", "dog"), ("small", "cat"), ("red", "house"), ("wild", "goose")]
    lines = []
    for _ in range(count):
        parts = [word for pair in draw.choices(pairs, k=draw.randint(1, 3)) for word in ("the", *pair)]
        lines.append(" ".join(parts))
    path.write_text("\n".join(lines) + "\n", "utf-8")
