"""The baseline of a bidirectional language model."""

import random

import pytest

import carousel

pytestmark = pytest.mark.usefixtures("own_cache")


def test_both_directions(tmp_path):
    """Reversed text has the forward n-grams of the text as backward ones: the two together are symmetric."""
    draw = random.Random(1)
    lines = [[draw.choice("abc") for _ in range(draw.randint(2, 6))] for _ in range(40)]
    values = []
    for step in (1, -1):
        files = {name: tmp_path / f"{name}{step}.txt" for name in ("train", "dev")}
        for name, some in (("train", lines[:30]), ("dev", lines[30:])):
            files[name].write_text("".join(" ".join(line[::step]) + "\n" for line in some))
        found = carousel.baseline("bilm", files["train"], dev=files["dev"], min_frequency=1)
        values.append(found.best.value)
    assert values[0] == pytest.approx(values[1]) and 1 < values[0] < 6
