"""Progress of reading: reported to whoever listens, shown by training, silent otherwise."""

import io
import threading

import pytest
from rich.console import Console

from carousel.data import Lines, Vocabulary
from carousel.progress import listening, stage
from carousel.training.progress import FIRST, Bar


@pytest.fixture
def text(tmp_path):
    file = tmp_path / "text.txt"
    file.write_text("to be or not to be\n" * 150_000)  # 2.9 MB
    return file


def test_reading_is_reported(text):
    seen = []
    with listening(seen.append), stage("counting"):
        list(Lines(text))
    assert [one.stage for one in seen] == ["counting"] * 2
    assert [one.done // 2**20 for one in seen] == [1, 2] and seen[0].total == text.stat().st_size
    list(Lines(text))
    assert len(seen) == 2


def test_a_line_is_printed_after_a_second(text):
    """Without a terminal: one line after the first second, then one each minute."""
    now = 0.0
    bar = Bar(clock=lambda: now)
    bar.console, bar.bar.disable = Console(file=io.StringIO(), width=100), True
    with bar.preparing():
        list(Lines(text))
        assert bar.console.file.getvalue() == ""
        now += FIRST
        list(Lines(text))
        now += 10
        list(Lines(text))
        assert bar.console.file.getvalue() == "reading text.txt: 1 of 3 MB\n"
        now += 60
        list(Lines(text))
    assert bar.console.file.getvalue().count("\n") == 2


def test_learning_bpe_is_reported_and_can_be_interrupted(tmp_path):
    """It runs in a thread of its own, so that the main thread handles signals; its errors are raised here."""
    seen, threads = [], set()
    file = tmp_path / "text.txt"
    file.write_text("to be or not to be\n" * 60_000)

    def texts():
        for text in Lines(file):
            threads.add(threading.current_thread())
            yield text

    with listening(seen.append):
        Vocabulary.train(texts(), "bpe", size=300)
    assert seen and threading.main_thread() not in threads

    def failing():
        yield "to be"
        raise ValueError("no more text")

    with pytest.raises(ValueError, match="no more text"):
        Vocabulary.train(failing(), "bpe", size=300)
