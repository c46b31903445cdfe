"""Sequences read back from their ends, against lists that are copied at every step."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from carousel.decoding.backpointers import Backpointers


@given(st.data())
def test_against_lists(data):
    """Any number of rows at each step, with and without parents, read at any steps and rows."""
    backpointers, written, width = Backpointers(), [[[]]], data.draw(st.integers(1, 4))
    for step in range(data.draw(st.integers(1, 6))):
        parents = None
        if step:
            if data.draw(st.booleans()):
                size = data.draw(st.integers(1, 4))
                parents = np.array(data.draw(st.lists(st.integers(0, width - 1), min_size=size, max_size=size)))
                width = size
        else:
            written = [[[]] * width]
        tokens = np.array(data.draw(st.lists(st.integers(0, 99), min_size=width, max_size=width)))
        before = written[-1] if parents is None else [written[-1][p] for p in parents]
        written.append([[*line, token] for line, token in zip(before, tokens.tolist(), strict=True)])
        backpointers.push(tokens, -tokens / 2, parents)
    assert len(backpointers) == len(written) - 1
    ends = [(step, row) for step in range(len(backpointers)) for row in range(len(written[step + 1]))]
    chosen = data.draw(st.lists(st.sampled_from(ends), max_size=6))
    steps, rows = (np.array([end[k] for end in chosen], np.int64) for k in (0, 1))
    found, log_probs = backpointers.read(steps, rows)
    assert found == [written[step + 1][row] for step, row in chosen]
    assert log_probs == [[-token / 2 for token in line] for line in found]


def test_before_the_first_step_is_nothing():
    backpointers = Backpointers()
    assert backpointers.read(np.array([-1, -1]), np.array([0, 1])) == ([[], []], [[], []])
    backpointers.push(np.array([7]), np.array([-1.0]))
    assert backpointers.read(np.array([-1, 0]), np.array([0, 0])) == ([[], [7]], [[], [-1.0]])
