"""Texts in memory, as a file that the task reads."""

import pytest

from carousel.errors import CarouselError
from carousel.tasks.lm.task import LanguageTask


def test_line_breaks_belong_to_running_text_alone(tmp_path):
    path = LanguageTask.write_data(["ab", "c"], tmp_path / "train", {})
    assert path.name == "train.txt" and path.read_text() == "ab\nc\n"
    with pytest.raises(CarouselError, match="data"):
        LanguageTask.write_data(["a\nb"], tmp_path / "lines", {})
    running = LanguageTask.write_data(["a\nb"], tmp_path / "running", {"layout": "running"})
    assert running.read_text().rstrip("\n") == "a\nb"
