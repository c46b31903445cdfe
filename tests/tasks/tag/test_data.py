"""The tagger's data: schemes of tags, what a run keeps, long sentences, and bad files."""

import shutil

import pytest
from helpers.untrained import new_model

import carousel
from carousel.data.text.tags import illegal
from carousel.data.text.words import LONGEST
from carousel.errors import DataError, RunError, SettingsError
from carousel.tasks.tag.data import TagAssets
from carousel.tasks.tag.examples import warnings
from carousel.tasks.tag.settings import TagSettings
from carousel.tasks.tag.task import Tag


def test_a_file_read_by_another_scheme_is_not_taken_from_the_cache(settings, tmp_path):
    (tmp_path / "names.conll").write_text("Ada I-per\nsaw O\n\nBob I-per\n")
    said = [Tag.prepare(settings(train=tmp_path / "names.conll", dev=None, column="2", scheme=scheme))[1].notes
            for scheme in ("iob1", "iob2")]  # fmt: skip
    assert not said[0] and "2 tags break the rules of iob2" in said[1][0]


@pytest.mark.parametrize("scheme", ["iob1", "iob2", "bioes"])
def test_every_scheme_is_recognised_and_given_back(settings, tmp_path, write_names, scheme):
    path = tmp_path / "train.conll"
    write_names(path, 40, seed=3, scheme=scheme)
    model, data = new_model(Tag, settings(train=path, dev=None))
    assert model.vocabulary.written == scheme and data.notes == []
    assert all(illegal(tagged.tags, scheme) == [] for tagged in model.predict(["Ada met Alan", "Paris Rome"]))


def test_a_resumed_run_learns_nothing_from_the_file(settings, tmp_path):
    """Saved and loaded, and then used with a file that has other words, other counts and another scheme."""
    assets, _ = Tag.prepare(settings())
    assets.save(tmp_path)
    kept = TagAssets.load(settings(), tmp_path)
    assert kept.vocabulary == assets.vocabulary
    path = tmp_path / "other.conll"
    path.write_text("Zoe\tS-PER\nmet\tO\n\n" * 9)
    again, data = Tag.prepare(settings(train=path), kept)
    assert again is kept and again.vocabulary == assets.vocabulary
    assert data.info["words"] == f"vocabulary of {len(assets.vocabulary.words):,}; 50.00% unknown"
    assert {assets.vocabulary.tags[k] for k in data.train.store["labels"][0]} == {"S-PER", "O"}


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


def test_words_of_any_kind(settings):
    model, _ = new_model(Tag, settings())
    words = ["[PAD]", "<unk>", "x" * 10_000, "1 000", "\u3000", "Ada"]
    columns = model.vocabulary.encode([words, []])
    assert columns["tokens"].values.tolist()[:5] == [3] * 5
    assert columns["spelling"].values.max() == LONGEST
    assert columns["characters"].lengths.tolist() == [columns["spelling"].values.sum(), 0]
    assert len(model.predict([words])[0].tags) == 6


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
    with pytest.raises(DataError, match=r"other.conll: none of its 1 tokens is in the vocabulary"):
        Tag.prepare(settings(dev=path, characters="none", word_features=0))


@pytest.mark.parametrize(
    ("train", "dev", "line"),
    [
        ("a\tX\nb\n", None, "train.conll:2: 1 column, where line 1 has 2"),
        ("a\tX\nb\tX\n", None, "train.conll: every word has the tag 'X'; give examples of at least two tags"),
        ("a\tO\nb\tB-P\nc\tBP\n", None, "train.conll:3: the tag 'BP' is not O, B-TYPE, I-TYPE and so on"),
        ("a\tX\nb\tY\n", "a\tX\n\nb\tZ\n", "dev.conll:3: the tag 'Z' is not in the training data"),
        ("a\tO\nb\tB-P\n", "a\tB-Q\n", "dev.conll:1: the tag 'B-Q' is not in the training data"),
    ],
)
def test_bad_files_leave_nothing_behind(tmp_path, command, train, dev, line):
    (tmp_path / "train.conll").write_text(train)
    files = [tmp_path / "train.conll"]
    if dev is not None:
        (tmp_path / "dev.conll").write_text(dev)
        files += ["--dev", tmp_path / "dev.conll"]
    options = ("--out", tmp_path / "run", "--cache", tmp_path / "cache", "--min-frequency", 1)
    code, _, err = command("train", "tag", *files, *options)
    assert code == 1 and line in err.replace(str(tmp_path) + "/", "") and err.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_a_tag_unseen_in_training_stops_an_evaluation(trained, tmp_path):
    path = tmp_path / "test.conll"
    path.write_text("Ada\tB-PER\n\nIBM\tB-ORG\n")
    with pytest.raises(DataError, match=r"test.conll:3: the tag 'B-ORG' is not in the training data; fix it"):
        carousel.load(trained).evaluate(path)
    path.write_text("Ada\tE-PER\n")  # another scheme of the same spans is understood
    assert carousel.load(trained).evaluate(path)["spans"]["PER"]["count"] == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"column": "pos"}, "column: a column is upos, xpos or a number from 1"),
        ({"output": "crf", "label_smoothing": 0.1}, "label_smoothing is for output softmax"),
        ({"characters": "lstm"}, "characters: .*'none', 'rnn' or 'cnn'"),
        ({"chars": "rnn"}, "chars: there is no such key; did you mean characters"),
    ],
)
def test_wrong_settings(settings, given, message):
    with pytest.raises(SettingsError, match=message):
        settings(**given)


@pytest.mark.parametrize("data", [b"", b"\xff", b"[]", b"{}", b'{"more": 1}', b"[" * 99999])
def test_damaged_tags_are_one_line(trained, tmp_path, data):
    folder = shutil.copytree(trained, tmp_path / "run")
    (folder / "tags.json").write_bytes(data)
    with pytest.raises(RunError, match=r"tags\.json: damaged or changed; copy it again"):
        carousel.load(folder)
    (folder / "manifest.json").write_text("{}")
    with pytest.raises(RunError, match=r"tags\.json: damaged \(.{5,200}\); copy it again"):
        carousel.load(folder)


def test_a_misspelt_key_of_the_tags_is_named(trained, tmp_path):
    folder = shutil.copytree(trained, tmp_path / "run")
    (folder / "manifest.json").write_text("{}")
    tags = (folder / "tags.json").read_text("utf-8")
    for wrong, said in (
        (tags.replace('"written"', '"writen"'), "there is no key 'writen'; did you mean written"),
        (tags.replace('"lower": true', '"lower": "yes"'), "lower: input should be a valid boolean"),
    ):
        assert wrong != tags
        (folder / "tags.json").write_text(wrong, "utf-8")
        with pytest.raises(RunError, match=rf"tags\.json: damaged \({said}"):
            carousel.load(folder)
