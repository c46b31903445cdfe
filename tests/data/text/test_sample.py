"""The sample that a vocabulary is learned from."""

from itertools import pairwise

import pytest

from carousel.data import Lines
from carousel.data.sources.blocks import spaced
from carousel.data.text import sample
from carousel.data.text.sample import Sample


def test_a_small_text_is_taken_whole(tmp_path):
    file = tmp_path / "text.txt"
    file.write_text("one\ntwo\n")
    whole = Sample(Lines(file), 1)
    assert whole.share == 1 and list(whole) == ["one", "two"]


def test_blocks_are_evenly_spaced(tmp_path, monkeypatch):
    monkeypatch.setattr(sample, "SMALL", 20_000)
    file = tmp_path / "text.txt"
    file.write_text("".join(f"{k:099d}\n" for k in range(40_000)))  # 4 MB
    part = Sample(Lines(file), 1)
    numbers = [int(text) for text in part]
    assert part.share == 0.25 and len(numbers) == pytest.approx(10_000, rel=0.02)
    assert max(b - a for a, b in pairwise(numbers)) < 700  # three blocks left out, of 200 lines
    assert numbers == [int(text) for text in part]


@pytest.mark.parametrize("share", [0.05, 0.3, 0.9])
def test_share(share):
    blocks = [[str(k)] for k in range(1000)]
    assert len(list(spaced(blocks, share))) == pytest.approx(1000 * share, abs=1)
