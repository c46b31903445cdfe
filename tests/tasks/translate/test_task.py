"""Pairs in memory, as two files whose lines correspond."""

from carousel.tasks.translate.task import Translate


def test_two_files(tmp_path):
    source, target = Translate.write_data([("a dog", "ein Hund"), ("x", "y")], tmp_path / "train", {})
    assert (source.suffix, target.suffix) == (".source", ".target")
    assert source.read_text().splitlines() == ["a dog", "x"]
    assert target.read_text().splitlines() == ["ein Hund", "y"]
