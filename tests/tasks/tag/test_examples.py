"""Tagged sentences as examples: schemes, cuts and tags that are not there."""

import pytest

import carousel
from carousel.data.text.tags import illegal
from carousel.errors import DataError
from carousel.tasks.tag.examples import warnings
from carousel.tasks.tag.settings import TagSettings
from carousel.tasks.tag.task import Tag


def test_a_file_read_by_another_scheme_is_not_taken_from_the_cache(settings, tmp_path):
    (tmp_path / "names.conll").write_text("Ada I-per\nsaw O\n\nBob I-per\n")
    said = [Tag.prepare(settings(train=tmp_path / "names.conll", dev=None, column="2", scheme=scheme))[1].notes
            for scheme in ("iob1", "iob2")]  # fmt: skip
    assert not said[0] and "2 tags break the rules of iob2" in said[1][0]


def test_illegal_tags_are_counted_and_corrected(settings, tmp_path):
    path = tmp_path / "slips.conll"
    path.write_text("Ada\tB-PER\nsaw\tO\n\n" * 5 + "the\tO\nRome\tI-LOC\n\n")
    assets, data = Tag.prepare(settings(train=path, dev=None))
    store = data.train.store
    assert data.notes == [f"{path}:17: 1 tag breaks the rules of iob2, here first; read as the nearest spans"]
    last = [assets.vocabulary.tags[k] for k in store["labels"][5]]
    assert last == ["O", "S-LOC"]
    assert Tag.check(settings(train=path, dev=None)).warnings[0].startswith(f"{path}:17: 1 tag breaks")


def test_long_sentences_are_cut_for_training_but_not_for_reading(settings, tmp_path):
    path = tmp_path / "long.conll"
    path.write_text("Ada\tB-PER\nByron\tI-PER\nsaw\tO\n" * 5 + "\n" + "Rome\tB-LOC\n")
    s = settings(train=path, dev=path, max_length=4)
    assets, data = Tag.prepare(s)
    assert data.train.store.lengths.tolist() == [4, 4, 4, 3, 1]
    assert data.dev.store.lengths.tolist() == [15, 1]
    assert "1 sentence is longer than max_length and cut into parts (the longest has 15 words)" in data.notes[0]
    for row in data.train.store["labels"]:  # each part is legal by itself
        assert illegal([assets.vocabulary.tags[k] for k in row], "bioes") == []
    assert warnings(path, data.dev.store.info, "iob2") == []


def test_words_that_are_all_rare(settings, tmp_path):
    path = tmp_path / "rare.conll"
    path.write_text("Ada\tB-PER\nsat\tO\n")
    with pytest.raises(DataError, match=r"rare.conll: no word occurs 2 times or more, .*; lower min_frequency"):
        Tag.prepare(settings(train=path, min_frequency=2))
    by_default = TagSettings.read({"train": path, "dev_split": "none", "cache": tmp_path})
    assert {"ada", "sat"} < set(Tag.prepare(by_default)[0].vocabulary.words.tokens)


def test_validation_words_that_training_never_had(settings, tmp_path):
    """Their characters are read."""
    path = tmp_path / "other.conll"
    path.write_text("Zoë\tB-PER\n")
    assert len(Tag.prepare(settings(dev=path))[1].dev) == 1
    with pytest.raises(DataError, match=r"other.conll: none of its 1 token is in the vocabulary"):
        Tag.prepare(settings(dev=path, characters="none", word_features=0))


def test_a_tag_unseen_in_training_stops_an_evaluation(trained, tmp_path):
    path = tmp_path / "test.conll"
    path.write_text("Ada\tB-PER\n\nIBM\tB-ORG\n")
    with pytest.raises(DataError, match=r"test.conll:3: the tag 'B-ORG' is not in the training data; fix it"):
        carousel.load(trained).evaluate(path)
    path.write_text("Ada\tE-PER\n")  # another scheme of the same spans is understood
    assert carousel.load(trained).evaluate(path)["spans"]["PER"]["count"] == 1
