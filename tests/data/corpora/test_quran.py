"""Verses of two languages are aligned, and joined where a translator joined them."""

from helpers.corpora import lines

from carousel.data import corpora


def test_quran_is_aligned_and_joined_where_the_translator_joined(registry):
    registry.offer("quran")
    source = corpora.get(corpora.find("quran")).source
    pairs = [
        pair
        for part in ("train", "dev", "test")
        for pair in zip(lines(f"data/quran/{part}.en"), lines(f"data/quran/{part}.tr"), strict=True)
    ]
    assert ("verse 1 verse 2", "birlikte") in pairs
    assert {("verse 4", "sınır"), ("verse 5", "sınır")} <= set(pairs)
    assert ("verse 0", "ayet 0") in pairs  # a line break within a verse is a space
    assert len(pairs) == len(set(pairs)) == 58
    assert list(source["left_out"].values()) == [1]
    assert list(source["changed"].values()) == [1]
    assert source["pair"] == "en-tr"
