"""What the report of a model of trees shows."""

from __future__ import annotations

from collections.abc import Sequence

from ...data.sources.brackets import Tree
from ...pictures.confusion import show_confusion
from ...report import Page
from ..shared.analysis import Classified, first_examples, lengths_and_unknown, show_breakdown, show_misclassified
from .data import open_data
from .examples import encode_trees
from .predictor import LabelledTree, TreeModel


def report(model: TreeModel, page: Page) -> None:
    """The confusion matrix at the roots of the dev set, misclassified trees, and some trees with all their labels."""
    sources = open_data(model.settings)
    if sources.dev is None:
        return
    metric, _ = model.measure(sources.dev)
    lead = f"`{sources.name}`: accuracy *{metric.roots.accuracy:.2%}* of {metric.roots.total:,} roots, "
    lead += f"*{metric.nodes.accuracy:.2%}* of {metric.nodes.total:,} labelled nodes."
    show_confusion(page, metric.roots, lead, of=" of the roots")
    trees = first_examples(sources.dev)
    predictions = list(model.predictions(trees))
    show_errors(model, page, predictions)
    page.heading("Some trees").text("Each node with the most probable class and its probability.")
    for prediction in [one for one in predictions if len(one.tree) <= 40][:3]:
        page.code(prediction.drawing())


def show_errors(model: TreeModel, page: Page, predictions: Sequence[LabelledTree]) -> None:
    """The sentences of misclassified roots; accuracy by length and by unknown words."""
    classes = model.assets.classes
    labelled = [(one, classes.number(one.tree.labels[-1])) for one in predictions]
    labelled = [(one, number) for one, number in labelled if number >= 0]
    if not labelled:
        return
    examples = [
        Classified(_sentence(one.tree), classes.names[number], one.label, one.confidence) for one, number in labelled
    ]
    show_misclassified(page, examples, "trees")
    tokens = encode_trees([one.tree for one, _ in labelled], model.assets.vocabulary, model.settings.lower)["tokens"]
    words = [len(one.tree.leaves) for one, _ in labelled]
    nodes, unknown = lengths_and_unknown(tokens)
    shares = [share * n / max(1, count) for share, n, count in zip(unknown, nodes, words, strict=True)]

    def accuracy(numbers: list[int]) -> list[str]:
        right = sum(examples[k].gold == examples[k].predicted for k in numbers)
        return [f"{right / len(numbers):.1%}"]

    show_breakdown(page, words, shares, ["accuracy"], accuracy, unit="trees", token="word")


def _sentence(tree: Tree) -> str:
    return " ".join(tree.leaves)
