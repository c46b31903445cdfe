"""Labelled examples: the store, its cache, and batches that hold every example once, padded and in its place."""

import os

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from carousel.data import UNK, Vocabulary
from carousel.data.sources.tables import Table
from carousel.data.stores.examples import NO_LABEL, Column, ExampleBatches, ExampleStore, build_store, collate
from carousel.data.stores.ragged import Ragged
from carousel.data.text.encoder import TextEncoder
from carousel.errors import DataError
from carousel.tasks.classify.examples import LabelledTexts
from carousel.tasks.classify.targets import Target

ROWS = st.lists(st.lists(st.integers(4, 20), min_size=1, max_size=7), min_size=1, max_size=12)


def column_of(rows):
    return Column(np.array([v for row in rows for v in row], np.int64), np.array(list(map(len, rows))))


def store_of(rows, labels, per_token, characters=None):
    columns = {"tokens": column_of(rows), "labels": column_of(labels)}
    if characters is not None:
        columns["characters"] = column_of([[c for word in row for c in word] for row in characters])
        columns["spelling"] = column_of([list(map(len, row)) for row in characters])
    ragged = {name: Ragged(c.values, np.cumsum([0, *c.lengths])) for name, c in columns.items()}
    files = [{"path": "rows", "size": 0, "digest": str((rows, labels))}]
    return ExampleStore(None, ragged, {"per_token": per_token, "files": files, "made_by": {}, "unknown": 0})


@given(ROWS, st.integers(1, 20), st.integers(0, 3))
def test_every_example_once_with_its_class(rows, budget, epoch):
    store = store_of(rows, [[k] for k in range(len(rows))], per_token=False)
    batches = ExampleBatches(store, tokens=budget, seed=3)
    batches.set_epoch(epoch)
    seen = []
    for batch in batches:
        assert batch.tokens.shape[1] == 1 or batch.tokens.numel() <= budget
        assert torch.equal(batch.mask, batch.tokens > 0)
        for b, row in enumerate(batch.rows.tolist()):
            assert batch.tokens[: batch.lengths[b], b].tolist() == rows[row]
            assert batch.labels[b] == row
            seen.append(row)
    assert sorted(seen) == list(range(len(rows)))


@given(ROWS, st.integers(1, 5))
def test_labels_and_characters_of_every_token(rows, size):
    spelt = [[[4 + (token * k) % 9 for k in range(1 + token % 4)] for token in row] for row in rows]
    store = store_of(rows, [[token % 5 for token in row] for row in rows], True, spelt)
    for batch in ExampleBatches(store, sequences=size, seed=1):
        assert batch.labels[~batch.mask].eq(NO_LABEL).all()
        where = torch.nonzero(batch.mask)  # step by step, as x[mask] counts
        assert batch.characters.shape[1] == len(where) == len(batch.spelling)
        for word, (t, b) in enumerate(where.tolist()):
            row = int(batch.rows[b])
            assert batch.labels[t, b] == rows[row][t] % 5
            letters = batch.characters[:, word]
            assert letters[: batch.spelling[word]].tolist() == spelt[row][t]
            assert letters[batch.spelling[word] :].eq(0).all()


def test_going_on_in_the_middle_of_an_epoch():
    rows = [[4] * (1 + k % 5) for k in range(23)]
    labels = [[k % 2] for k in range(23)]

    def fresh():
        return ExampleBatches(store_of(rows, labels, False), sequences=3, seed=5)

    whole = fresh()
    expected = [batch.rows.tolist() for _ in range(2) for batch in whole]
    first, second = fresh(), fresh()
    reading = iter(first)
    before = [next(reading).rows.tolist() for _ in range(3)]
    second.load_state_dict(first.state_dict())
    after = [batch.rows.tolist() for _ in range(2) for batch in second]
    assert before + after == expected
    other = ExampleBatches(store_of(rows, [[1]] * 23, False), sequences=3, seed=5)
    with pytest.raises(ValueError, match="data has changed"):
        other.load_state_dict(first.state_dict())


def test_batches_without_labels_and_on_the_way_to_a_device():
    batch = collate({"tokens": column_of([[5, 6], [7]])}).to("cpu")
    assert batch.labels is None
    assert batch.rows.tolist() == [0, 1]
    assert repr(batch) == "ExampleBatch(2 steps, 2 examples, 3 tokens)"


# ---------------------------------------------------------------- the store


@pytest.fixture
def made(tmp_path):
    """A function that keeps the examples of two tables."""
    (tmp_path / "a.tsv").write_text("one two three\tx\nfour\ty\n")
    (tmp_path / "b.tsv").write_text("two five\ty\n")
    words = Vocabulary.from_tokens(["one", "two", "three", "four"], "word")

    def make(labels=("x", "y"), max_length=100, names=("a.tsv", "b.tsv"), words=words):
        tables = [Table(tmp_path / name) for name in names]
        texts = LabelledTexts(tables, TextEncoder(words, max_length), Target(labels=labels))
        return build_store(texts, tmp_path / "cache")

    make.folder = tmp_path
    return make


def test_two_tables_in_one_store(made):
    store = made()
    assert [row.tolist() for row in store["tokens"]] == [[4, 5, 6], [7], [5, UNK]]
    assert store["labels"].values.tolist() == [0, 1, 1]
    assert store["lines"].values.tolist() == [1, 2, 1]
    assert (store.unknown, store.built, made().built) == (1, True, False)


def test_long_texts_are_cut_off_and_counted(made):
    store = made(max_length=2)
    assert [row.tolist() for row in store["tokens"]] == [[4, 5], [7], [5, UNK]]
    assert store.info["cut"] == 1


def test_whatever_changes_the_numbers_is_noticed(made):
    first = made()
    assert made(labels=("y", "x")).built
    assert made(max_length=2).built
    path = made.folder / "b.tsv"
    before = path.stat()
    path.write_text("two four\ty\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    again = made()
    assert again.built
    assert again.fingerprint != first.fingerprint


def test_a_damaged_cache_is_made_anew(made):
    store = made()
    store.path.write_bytes(store.path.read_bytes()[:-100])
    assert made().built


def test_a_label_never_seen_in_training(made):
    with pytest.raises(DataError, match=r"a.tsv:2: the label 'y' is not in the training data, whose labels are x, z; "):
        made(labels=("x", "z"))
    assert not list((made.folder / "cache").glob("*"))


def test_a_vocabulary_of_another_text(made):
    with pytest.raises(DataError, match="none of its 6 tokens is in the vocabulary"):
        made(words=Vocabulary.from_tokens(["uno"], "word"))
