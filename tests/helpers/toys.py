"""Small models to search, and the plainest possible account of what a search should find in them."""

import itertools
import math

import torch

from carousel.decoding import StepFunction

PLACES = 997


class Toy:
    """A model whose next token depends on all before it: a hash of the prefix picks a line of a random table."""

    def __init__(self, vocab_size, seed=0, spread=1.5, zeros=0.0):
        g = torch.Generator().manual_seed(seed)
        x = torch.randn(PLACES, vocab_size, generator=g, dtype=torch.float64) * spread
        if zeros:
            x = x.masked_fill(torch.rand(x.shape, generator=g) < zeros, -math.inf)
            x[:, 0] = x[:, 0].nan_to_num(neginf=0.0)  # some token always has a chance
        self.table = x.log_softmax(-1)
        self.vocab_size = vocab_size
        self.calls = 0

    def stepper(self):
        def step(tokens, state):
            self.calls += 1
            place = (state["place"][0] * 31 + tokens + 7) % PLACES
            return self.table[place], {"place": place.unsqueeze(0)}

        def start(items):
            return {"place": torch.zeros(1, items, dtype=torch.int64)}

        return StepFunction(step, self.vocab_size, start=start, rows={"place": 1})

    def log_probs(self, prefix):
        """Of the token after `prefix`, the start token in it."""
        place = 0
        for token in prefix:
            place = (place * 31 + token + 7) % PLACES
        return self.table[place].tolist()

    def score_tokens(self, prefix, tokens):
        """One log-probability a token, each from the prefix anew."""
        return [self.log_probs([*prefix, *tokens[:k]])[token] for k, token in enumerate(tokens)]


def brute_force(toy, prefix, end, steps, score, allowed=lambda tokens: True):
    """Every sequence after `prefix` by itertools: [(finished, score, tokens)], best first.

    `allowed(tokens)` says of a beginning whether it may stand.
    """
    found = []
    for length in range(1, steps + 1):
        for tokens in itertools.product(range(toy.vocab_size), repeat=length):
            finished = tokens[-1] == end
            if end in tokens[:-1] or not (finished or length == steps):
                continue
            if not all(allowed(tokens[:k]) for k in range(1, length + 1)):
                continue
            total = sum(toy.score_tokens(prefix, tokens))
            if total > -math.inf:
                found.append((finished, score(total, length), tokens))
    return sorted(found, key=lambda f: (not f[0], -f[1]))


def peaked(vocab_size, **probabilities):
    """A model that knows only the last token: `peaked(3, _2={1: 0.6, 0: 0.4})` gives the line after token 2."""
    table = torch.full((vocab_size, vocab_size), 1 / vocab_size, dtype=torch.float64)
    for name, line in probabilities.items():
        table[int(name[1:])] = torch.tensor([line.get(k, 0.0) for k in range(vocab_size)], dtype=torch.float64)
    return fixed(table)


def fixed(table):
    """A model with a table of probabilities (V, V): line by the last token."""
    log = table.log()
    return StepFunction(lambda tokens, state: (log[tokens], state), table.shape[0])
