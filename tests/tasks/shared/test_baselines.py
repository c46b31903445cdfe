"""What the baselines of several tasks share."""

import pytest

import carousel
from carousel.tasks.shared import baselines as shared

pytestmark = pytest.mark.usefixtures("own_cache")


def test_a_sample_of_too_much_text_is_named(monkeypatch):
    monkeypatch.setattr(shared, "CHARACTERS", 40)
    rows = [("good film", "pos"), ("dull film", "neg")] * 10
    names = [one.name for one in carousel.baseline("classify", rows, dev=rows[:2]).results]
    assert names == ["majority class", f"{shared.LINEAR} (on 4 of 20 texts)"]
