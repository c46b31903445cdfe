"""The tagger's data: schemes of tags, what a run keeps, long sentences, and bad files."""

import shutil

import pytest
from helpers.untrained import new_model

import carousel
from carousel.data.text.tags import illegal
from carousel.data.text.words import LONGEST
from carousel.errors import DataError, RunError
from carousel.tasks.tag.data import TagAssets
from carousel.tasks.tag.task import Tag


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


def test_no_blank_line_between_sentences(settings, tmp_path):
    """A table of texts is refused; words without blank lines are one sentence, with a warning."""
    path = tmp_path / "train.conll"
    path.write_text("a fine film\tgood\ndull\tbad\nwarm and funny\tgood\n" * 40)
    said = "train.conll: no blank line, and most of its words are several: it looks like a table of texts; .*classify"
    with pytest.raises(DataError, match=said):
        Tag.prepare(settings(train=path))
    with pytest.raises(DataError, match=said):
        carousel.check(path, task="tag")
    path.write_text("Ada\tPER\nsat\tO\n" * 60)
    line = f"{path}: no blank line, so its 120 words are one sentence; put one after each sentence"
    assert Tag.prepare(settings(train=path, dev=None))[1].notes == [line]
    assert line in carousel.check(path, task="tag").warnings


def test_words_of_any_kind(settings):
    model, _ = new_model(Tag, settings())
    words = ["[PAD]", "<unk>", "x" * 10_000, "1 000", "\u3000", "Ada"]
    columns = model.vocabulary.encode([words, []])
    assert columns["tokens"].values.tolist()[:5] == [3] * 5
    assert columns["spelling"].values.max() == LONGEST
    assert columns["characters"].lengths.tolist() == [columns["spelling"].values.sum(), 0]
    assert len(model.predict([words])[0].tags) == 6


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
