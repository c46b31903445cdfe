"""Pairs: two files or a TSV, what is complained of, and batches that hold every pair once."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from carousel.data import END, PAD, START, UNK, Vocabulary
from carousel.data.stores.examples import Column, build_store
from carousel.errors import DataError
from carousel.tasks.translate.pairs import Pair, PairBatches, Pairs, PairSource, collate_pairs

SOURCE = ["a b", "b", "a a a a", "c"]
TARGET = ["x", "y y", "x y x", "y"]


@pytest.fixture
def write(tmp_path):
    def make(name, lines):
        path = tmp_path / name
        path.write_text("".join(line + "\n" for line in lines), "utf-8")
        return path

    return make


@pytest.fixture
def files(write):
    return [write("a.en", SOURCE), write("a.de", TARGET)]


@pytest.fixture
def store(files, tmp_path):
    def make(max_length=None):
        vocabularies = Vocabulary.train(SOURCE, "word"), Vocabulary.train(TARGET, "word")
        return build_store(PairSource(Pairs(files), *vocabularies, max_length), tmp_path / "cache")

    return make


def test_two_files_and_a_table_say_the_same(files, write):
    table = write("a.tsv", map("\t".join, zip(SOURCE, TARGET, strict=True)))
    expected = [Pair(k, *pair) for k, pair in enumerate(zip(SOURCE, TARGET, strict=True), 1)]
    assert list(Pairs(files)) == list(Pairs([table])) == expected
    assert [pair.sides[::-1] for pair in Pairs([table], (2, 1))] == [pair.sides for pair in expected]
    wide = write("wide.tsv", (f"{a}\tCC-BY\t{b}" for a, b in zip(SOURCE, TARGET, strict=True)))
    assert list(Pairs([wide], (1, 3))) == expected


def test_pairs_that_are_blank_on_both_sides_are_left_out(write):
    pairs = Pairs([write("a.en", ["a", "", "b"]), write("a.de", ["x", " ", "y"])])
    assert [pair.line for pair in pairs] == [1, 3]
    assert pairs.blank == 1


@pytest.mark.parametrize(("more", "counts"), [(0, ("4", "7")), (1, ("7", "4"))])
def test_files_of_different_length(files, write, more, counts):
    paths = list(files)
    paths[1 - more] = write("long", ["x"] * 7)
    with pytest.raises(DataError) as error:
        list(Pairs(paths))
    assert str(error.value).startswith(f"{paths[0]}: {counts[0]} lines, but {paths[1]} has {counts[1]};")


@pytest.mark.parametrize(
    ("source", "target", "said"),
    [
        (["a", " ", "b"], ["x", "y", "z"], "a.en:2: the source is empty; write it, or remove the pair (target: y)"),
        (["a", "b"], ["x", ""], "a.de:2: the target is empty; write it, or remove the pair (source: b)"),
        (["", ""], ["", ""], "a.en: there is no pair in it; give files with text in them"),
    ],
)
def test_an_empty_side(write, source, target, said):
    with pytest.raises(DataError) as error:
        list(Pairs([write("a.en", source), write("a.de", target)]))
    assert str(error.value).split("/")[-1] == said


@pytest.mark.parametrize(
    ("lines", "columns", "said"),
    [
        (["a\tb", "c"], (1, 2), "a.tsv:2: 1 column, where the lines before have 2; look for a tab too many or too few"),
        (["a b"], (1, 2), "a.tsv:1: there is no column 2, only 1; put a tab between source and target, or choose "
                          "source_column and target_column"),
        (["a\tb"], (1, 3), "a.tsv:1: there is no column 3, only 2; put a tab between source and target, or choose "
                           "source_column and target_column"),
    ],
)  # fmt: skip
def test_a_bad_table(write, lines, columns, said):
    with pytest.raises(DataError) as error:
        list(Pairs([write("a.tsv", lines)], columns))
    assert str(error.value).split("/")[-1] == said


def test_files_that_cannot_be_pairs(files):
    with pytest.raises(DataError, match=r"a\.en: is one side of the pairs only; give the file of translations too"):
        Pairs(files[:1])
    with pytest.raises(DataError, match="no such file"):
        Pairs([files[0], "nowhere.de"])
    with pytest.raises(ValueError, match="got 3 files"):
        Pairs([*files, files[0]])


def test_long_pairs_are_left_out_and_counted(store):
    assert len(store()) == 4 and store().info["long"] == 0
    short = store(max_length=2)
    assert [row.tolist() for row in (short["lines"][k] for k in range(len(short)))] == [[1], [2], [4]]
    assert (short.info["long"], short.info["first_long"]) == (1, [3, 4, 3])
    with pytest.raises(DataError, match=r"every pair has more than 0 tokens \(max_length\)"):
        store(max_length=0)


def test_translations_nobody_knows(files, tmp_path):
    known, strange = Vocabulary.train(SOURCE, "word"), Vocabulary.train(["q"], "word")
    with pytest.raises(DataError, match=r"a\.de: none of its 7 tokens is in the vocabulary"):
        build_store(PairSource(Pairs(files), known, strange), tmp_path / "cache")


def test_the_cache_is_used_again_until_something_changes(store, files):
    assert store().built and not store().built
    files[1].write_text("x\ny\nx\ny\n", "utf-8")
    assert store().built


words = st.lists(st.lists(st.integers(UNK, 9), max_size=5), min_size=1, max_size=4)


@given(words)
def test_a_batch_is_its_pairs(source):
    target = [ids[::-1] for ids in source]
    columns = [
        Column(np.array([i for ids in side for i in ids], np.uint16), np.array([len(ids) for ids in side]))
        for side in (source, target)
    ]
    batch = collate_pairs(*columns)
    for k, (one, other) in enumerate(zip(source, target, strict=True)):
        length, steps = len(one), len(other) + 1
        assert batch.source[:, k].tolist() == one + [PAD] * (len(batch.source) - length)
        assert batch.inputs[:, k].tolist() == [START, *other] + [PAD] * (len(batch.inputs) - steps)
        assert batch.targets[:, k].tolist() == [*other, END] + [PAD] * (len(batch.targets) - steps)
        assert (batch.source_lengths[k], batch.lengths[k]) == (length, steps)
    assert batch.tokens == int((batch.targets != PAD).sum())


@pytest.mark.parametrize("size", [{"sequences": 2}, {"tokens": 5}, {"tokens": 8, "sequences": 3}])
def test_an_epoch_has_every_pair_once(store, size):
    batches = PairBatches(store(), seed=1, **size)
    seen = [row for batch in batches for row in batch.rows.tolist()]
    assert sorted(seen) == [0, 1, 2, 3]
    assert batches.tokens == sum(len(line.split()) + 1 for line in TARGET)
    for batch in batches:
        assert len(batch.rows) <= size.get("sequences", 4)
        longest = max(len(batch.source), len(batch.targets))
        assert len(batch.rows) == 1 or longest * len(batch.rows) <= size.get("tokens", 1000)


def test_batches_go_where_they_are_sent(store):
    [batch] = PairBatches(store(), sequences=4)
    assert batch.to("meta").source.device == torch.device("meta")
    assert batch.to("cpu").tokens == batch.tokens
    assert repr(batch) == "PairBatch(4 steps to 4, 4 pairs, 11 target tokens)"
