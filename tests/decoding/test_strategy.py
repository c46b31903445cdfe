"""The best hypotheses as one choice that is final at the end of a search."""

from carousel.decoding import Hypothesis
from carousel.decoding.strategy import best_choice


def hypothesis(*tokens):
    log_probs = tuple(-token / 10 for token in tokens)
    return Hypothesis(tokens, sum(log_probs), 0.0, log_probs, True)


def test_the_tokens_of_the_best_of_each_item():
    choice = best_choice([[hypothesis(4, 2), hypothesis(9)], [hypothesis(2)], [hypothesis(5, 6, 2)]])
    rows = zip(choice.items, choice.copies, choice.tokens, choice.log_probs, choice.last, strict=True)
    assert [tuple(value.item() for value in row) for row in rows] == [
        (0, 0, 4, -0.4, False),
        (0, 0, 2, -0.2, True),
        (1, 0, 2, -0.2, True),
        (2, 0, 5, -0.5, False),
        (2, 0, 6, -0.6, False),
        (2, 0, 2, -0.2, True),
    ]
