"""One-hot vectors against learned embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from ...errors import check_counts
from ...layers import LSTM, RNN
from ..claim import Claim, Numbers, Verdict, by_case, exceeds, fails, holds
from ..drawing import Line, line_figure
from ..finding import Exercise, Step, Table
from ..fitting import Reader, fit, mean_path, next_token_loss, record, seeded
from ..measured import Clock, Measured
from ..options import Option, Seed, Seeds, help_text, seed_numbers
from ..words import mean_and_spread, power

VOCABULARY = ("i", "we", "go", "school")  # of the notes' example
GROUPS, WORDS = 8, 12  # groups of words that follow one another, words of each
SIZE = 8  # of the learned vectors
ALIKE = 0.2  # by which the cosine of words of one group must exceed that of others


def one_hot(tokens: Tensor, size: int) -> Tensor:
    """Tokens (...) as vectors of zeros with a single 1, (..., size).

    >>> one_hot(torch.tensor([0, 2, 3]), 4).int().tolist()
    [[1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    """
    return nn.functional.one_hot(tokens, size).double()


class OneHot(nn.Module):
    """An embedding that is fixed: the vector of a token is its row of the identity."""

    def __init__(self, tokens: int) -> None:
        super().__init__()
        self.tokens = tokens

    def forward(self, tokens: Tensor) -> Tensor:
        return nn.functional.one_hot(tokens, self.tokens).float()


def _example(numbers: Numbers, tolerance: float) -> Verdict:
    rows = numbers["example"]
    text = f"“i go school” is {rows}: the last vector has a 1, where equation 6 has a 3."
    return fails(text) if rows[2] != [0, 0, 0, 3] else holds(text)


def _better(numbers: Numbers, tolerance: float) -> Verdict:
    one, learned = numbers["perplexity"]["one-hot"], numbers["perplexity"]["learned"]
    within, across = numbers["cosine"]["within"], numbers["cosine"]["across"]
    text = (
        f"The cosine of two words of one group is {mean_and_spread(within)}, of words of different groups "
        f"{mean_and_spread(across)}; of any two one-hot vectors it is 0. After {numbers['updates']} updates on "
        f"{numbers['lines']} sentences, perplexity on others is {mean_and_spread(learned)} with learned vectors of "
        f"{SIZE} numbers ({numbers['parameters']['learned']:,} parameters) and {mean_and_spread(one)} with one-hot "
        f"vectors of {GROUPS * WORDS} ({numbers['parameters']['one-hot']:,} parameters); knowing the groups gives "
        f"{numbers['best']:.2f}."
    )
    shown = {
        "the likeness of words that occur alike": exceeds(within, across, ALIKE),
        "the perplexity of this small model": [b < a * tolerance for a, b in zip(one, learned, strict=True)],
    }
    return by_case(shown, text)


class Embedding(Measured):
    """What :func:`run` gives."""

    name = "embedding"
    title = "One-hot vectors and learned embeddings"
    trains = True
    claims = (
        Claim(
            "example",
            "and the sentence “i go school” becomes",
            "003 §3.1, equation 6",
            "the encoded sentence is the printed one.",
            _example,
            printed=(
                r"\{\begin{bmatrix} 1 & 0 & 0 & 0 \end{bmatrix}, \begin{bmatrix} 0 & 0 & 1 & 0 \end{bmatrix}, "
                r"\begin{bmatrix} 0 & 0 & 0 & 3 \end{bmatrix}\} \in \mathbb{N}^{(3 \times 4)}",
            ),
            corrected=(
                r"\{\begin{bmatrix} 1 & 0 & 0 & 0 \end{bmatrix}, \begin{bmatrix} 0 & 0 & 1 & 0 \end{bmatrix}, "
                r"\begin{bmatrix} 0 & 0 & 0 & 1 \end{bmatrix}\} \in \mathbb{N}^{(3 \times 4)}",
            ),
        ),
        Claim(
            "better",
            "word representations can be learned by Embedding Layer, which is a trainable matrix. It contains better "
            "representations than a single one-hot.",
            "003 §4.1, algorithm 2",
            f"with every seed, words that occur alike become alike, their mean cosine being more than {ALIKE:g} above "
            "that of others; and with every seed the perplexity with learned vectors is below {tolerance} of that with "
            "one-hot vectors.",
            _better,
            tolerance=0.98,
            seeds=5,
        ),
    )
    derivation = (
        Step(
            "A matrix times a one-hot vector is one of its columns: nothing needs to be multiplied.",
            r"E\, x^{(t)} = E_{:, w_t}",
            "column",
            0.0,
        ),
        Step(
            "So an embedding and then \\(W_e\\) is the same network as one-hot vectors with the product of the two. "
            "The run compares the outputs of the two layers.",
            r"W_e (E\, x^{(t)}) = (W_e E)\, x^{(t)}",
            "product",
            1e-12,
        ),
    )
    exercises = (
        Exercise(
            "What can one-hot vectors express that an embedding of 8 numbers cannot?",
            "The product \\(W_e E\\) has rank 8 at most; with one-hot vectors \\(W_e\\) may be any matrix. The "
            "embedding shares what it learns between words; one-hot vectors share nothing.",
        ),
        Exercise(
            "In algorithm 2 \\(E \\in \\mathbb{R}^{D \\times 1}\\) and \\(e \\in \\mathbb{R}^{D \\times |V|}\\). What "
            "should they be?",
            "\\(x \\in \\mathbb{R}^{|V|}\\), \\(E \\in \\mathbb{R}^{D \\times |V|}\\), \\(e \\in \\mathbb{R}^{D}\\).",
        ),
    )
    code = """
import torch
from torch.nn.functional import one_hot

vocabulary = {"i": 0, "we": 1, "go": 2, "school": 3}
print(one_hot(torch.tensor([vocabulary[word] for word in "i go school".split()]), 4))
"""
    captions = {"loss": ("Perplexity in training", "On sentences that were not trained on; mean over the seeds.")}

    @staticmethod
    def lead(numbers: Numbers) -> str:
        rows = {name: sum(values) / len(values) for name, values in numbers["perplexity"].items()}
        return (
            f"Perplexity is {rows['learned']:.2f} with learned vectors of {SIZE} numbers and {rows['one-hot']:.2f} "
            f"with one-hot vectors of {GROUPS * WORDS}. As networks, one is the other with a product of two matrices: "
            f"their outputs are {power(numbers['derivation']['product'])} apart."
        )

    @staticmethod
    def table(numbers: Numbers) -> Table:
        rows = [
            [name, f"{numbers['parameters'][name]:,}", mean_and_spread(values)]
            for name, values in numbers["perplexity"].items()
        ]
        return ["input", "parameters", "perplexity"], rows

    def setup(self) -> Sequence[str]:
        n = self.measured
        return (
            f"A language of {GROUPS * WORDS} words in {GROUPS} groups: a word of a group is followed by any word of "
            f"the next. {n['lines']} sentences of 10 words are learned by LSTMs of 16 units, which read one-hot "
            f"vectors or learned ones of {SIZE} numbers; Adam at 0.01, {n['updates']} updates of 16 sentences, "
            f"{len(n['seeds'])} seeds; then 200 others are read.",
        )

    def figures(self) -> dict[str, Any]:
        n = self.measured
        places = [n["every"] * (k + 1) for k in range(n["updates"] // n["every"])]
        curves = [Line(name, n["paths"][name], c) for name, c in (("one-hot", "#d55e00"), ("learned", "#0072b2"))]
        return {"loss": line_figure(curves, places, titles=("update", "perplexity"), height=380, type="log")}


HELP = help_text(__doc__, "embedding", "--lines 1000 --out embedding")
QUICK = {"updates": 60}


def run(
    updates: Annotated[int, Option("Updates of each training.", "N", minimum=10)] = 150,
    *,
    lines: Annotated[int, Option("Sentences to learn from.", "N", minimum=1)] = 200,
    seeds: Seeds = 5,
    seed: Seed = 0,
) -> Embedding:
    """Train with both kinds of input, and compare the two as networks.

    >>> result = run(10, lines=16, seeds=1)
    >>> result.data["example"]
    [[1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    """
    check_counts(updates=updates, lines=lines, seeds=seeds)
    clock, numbers = Clock(), seed_numbers(seed, seeds)
    every = max(1, updates // 10)
    paths: dict[str, list[list[float]]] = {"one-hot": [], "learned": []}
    within, across, parameters = [], [], {}
    for number in numbers:
        for name, found in paths.items():
            network, path = train(name, lines, updates, every, number)
            found.append(path)
            parameters[name] = sum(p.numel() for p in network.parameters())
            if name == "learned":
                same, other = cosines(network.embedding.weight.detach())
                within.append(same)
                across.append(other)
    words = torch.tensor([VOCABULARY.index(word) for word in ("i", "go", "school")])
    data = {
        "example": one_hot(words, len(VOCABULARY)).int().tolist(), "parameters": parameters, "best": float(WORDS),
        "perplexity": {name: [path[-1] for path in each] for name, each in paths.items()}, "every": every,
        "paths": {name: mean_path(each) for name, each in paths.items()}, "lines": lines,
        "cosine": {"within": within, "across": across}, "updates": updates, "seeds": numbers, "derivation": compare(),
    }  # fmt: skip
    return Embedding(data, clock.seconds)


def draw(rows: int, length: int = 10) -> Tensor:
    """Sentences (T, B): groups one after the other, words of each at random."""
    groups = (torch.randint(GROUPS, (rows,)) + torch.arange(length).unsqueeze(1)) % GROUPS
    return groups * WORDS + torch.randint(WORDS, (length, rows))


def train(name: str, lines: int, updates: int, every: int, seed: int) -> tuple[Reader, list[float]]:
    """The network, and its perplexity on other sentences after every few updates."""
    with seeded(seed):
        tokens = GROUPS * WORDS
        text, others = draw(lines), draw(200)
        network = Reader(LSTM(tokens if name == "one-hot" else SIZE, 16), tokens, tokens)
        if name == "one-hot":
            network.embedding = OneHot(tokens)  # type: ignore[assignment]
        measure = torch.no_grad()(lambda: float(next_token_loss(network, others).exp()))
        path, watch = record(every, measure)
        fit(network, lambda: next_token_loss(network, text[:, torch.randint(lines, (16,))]), updates, watch=watch)
        return network, path


def cosines(vectors: Tensor) -> tuple[float, float]:
    """The mean cosine of different words (V, E) of one group, and of words of different groups."""
    unit = nn.functional.normalize(vectors, dim=1)
    cosine, group = unit @ unit.T, torch.arange(len(vectors)) // WORDS
    same = group.unsqueeze(0) == group.unsqueeze(1)
    other = ~same
    same = same & ~torch.eye(len(vectors), dtype=torch.bool)
    return float(cosine[same].mean()), float(cosine[other].mean())


def compare() -> dict[str, float]:
    """An embedding and a layer against the layer that reads one-hot vectors with the product of their matrices."""
    with seeded(0), torch.no_grad():
        E, tokens = torch.randn(5, 9, dtype=torch.float64), torch.randint(9, (7, 2))
        hot = one_hot(tokens, 9)
        column = float((hot @ E.T - E.T[tokens]).abs().max())
        layer, wide = RNN(5, 4, dtype=torch.float64), RNN(9, 4, dtype=torch.float64)
        for name, parameter in wide.named_parameters():
            own = layer.get_parameter(name)
            parameter.copy_(own @ E if name == "weight_ih_l0" else own)
        return {"column": column, "product": float((layer(E.T[tokens])[0] - wide(hot)[0]).abs().max())}
