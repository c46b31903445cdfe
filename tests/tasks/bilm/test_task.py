"""Sentences in memory, as a file that the task reads."""

from carousel.tasks.bilm.task import Bilm


def test_sentences_as_text_or_as_words(tmp_path):
    path = Bilm.write_data(["a fine day", ["what", "a", "day"]], tmp_path / "train", {})
    assert path == tmp_path / "train.txt" and path.read_text() == "a fine day\nwhat a day\n"
