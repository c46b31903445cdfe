"""Poems of eight lines of five characters are kept, one per line; the others are counted."""

from itertools import chain

from helpers.corpora import lines, poem

from carousel.data import corpora


def test_tang_keeps_the_form_and_counts_the_rest(registry):
    registry.offer("tang")
    source = corpora.get(corpora.find("tang")).source
    parts = [lines(f"data/tang/{part}.txt") for part in ("train", "dev", "test")]
    assert sorted(chain(*parts)) == sorted(poem(at) for at in range(61))
    assert list(source["files"].values()) == [len(part) for part in parts]
    assert list(source["left_out"].values()) == [2, 1, 1]  # other forms, illegible, twice
    assert list(source["changed"].values()) == [1]
    assert lines("data/tang/train.txt") == [poem(at) for at in range(61) if poem(at) in parts[0]]  # the book's order
    assert lines("data/tang/LICENSE.txt") == ["MIT, in full"]
