"""Language models against a plain loop over the tokens."""

import torch
import torch.nn.functional as F
from torch import nn

from carousel.data import END, START, UNK, TextBatch


@torch.no_grad()
def plain_log_probs(model, ids, start=START):
    """log p of each id given those before it, from one unbroken pass in torch's own parts."""
    lstm = nn.LSTM(model.settings.embedding, model.settings.hidden, model.settings.layers)
    lstm.load_state_dict(model.network.layers.state_dict())
    x = F.embedding(torch.tensor([start, *ids[:-1]]), model.network.embedder.weight)
    x, _ = lstm(x.unsqueeze(1))
    x = x.squeeze(1)
    if model.network.project is not None:
        x = x @ model.network.project.weight.T
    logits = x @ model.network.output_weight.T + model.network.bias
    return logits.double().log_softmax(-1)[range(len(ids)), ids].tolist()


def ids_of(model, text):
    """By hand: a character is its place in the vocabulary, or unknown."""
    return [model.vocabulary.tokens.index(c) if c in model.vocabulary.tokens else UNK for c in text]


def batch_of(model, lines, padding=0):
    """A batch by hand; `padding` more steps of it."""
    rows = [[*ids_of(model, line), END] for line in lines]
    steps = max(map(len, rows)) + padding
    targets = torch.tensor([row + [0] * (steps - len(row)) for row in rows]).T
    inputs = torch.cat((torch.full((1, len(rows)), START), targets[:-1])) * (targets > 0)
    lengths = torch.tensor([len(row) for row in rows])
    return TextBatch(inputs, targets, lengths, torch.arange(len(rows)), int(lengths.sum()))


def gradients(model, *losses):
    model.network.zero_grad()
    sum(losses).backward()
    return {name: parameter.grad.clone() for name, parameter in model.network.named_parameters()}


LINES = ["abba", "a cab", "back and forth", "b", "dada is cabaret", "a bad cad", "fade  away", "zebra"]
