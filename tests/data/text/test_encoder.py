"""Texts as columns of integers: cut off at a length, in lower case, with the words of an embedder."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carousel.data import Vocabulary
from carousel.data.text.encoder import TextEncoder, cut_off
from carousel.data.text.form import TextForm
from carousel.data.text.words import WordVocabulary

TEXTS = ["a fine film", "a dull film , and long"]
WORDS = Vocabulary.train(TEXTS, "word")


@given(st.lists(st.lists(st.integers(0, 9), max_size=5), max_size=6), st.integers(0, 6))
def test_rows_are_cut_like_lists(rows, most):
    values = np.array([value for row in rows for value in row], np.int64)
    column = cut_off(values, np.array([len(row) for row in rows], np.int64), most)
    assert column.lengths.tolist() == [min(len(row), most) for row in rows]
    assert column.values.tolist() == [value for row in rows for value in row[:most]]


@pytest.mark.parametrize("kind", ["word", "character", "bpe"])
def test_texts_are_encoded_and_cut(kind):
    vocabulary = Vocabulary.train(TEXTS, kind, size=300)
    columns, cut = TextEncoder(vocabulary, 3)(["", *TEXTS, "dull"])
    rows = [vocabulary.encode(text).tolist() for text in ("", *TEXTS, "dull")]
    assert columns["tokens"].values.tolist() == [token for row in rows for token in row[:3]]
    assert cut.tolist() == [len(row) > 3 for row in rows]


def test_no_text():
    columns, cut = TextEncoder(WORDS, 3)([])
    assert (len(columns["tokens"].values), len(columns["tokens"].lengths), len(cut)) == (0, 0, 0)


def test_words_of_an_embedder_are_cut_at_the_same_place():
    book = WordVocabulary(Vocabulary.train(["dull film"], "word"), Vocabulary.train(["dulfim"]))
    columns, cut = TextEncoder(WORDS, 2, context=book)(TEXTS)
    assert columns["tokens"].values.tolist() == WORDS.encode("a fine a dull").tolist()
    assert columns["context_tokens"].values.tolist() == book.words.encode("a fine a dull").tolist()
    assert columns["context_spelling"].values.tolist() == [1, 4, 1, 4]
    assert cut.tolist() == [True, True]
    assert columns.keys() == TextEncoder(WORDS, 2, context=book).dtypes.keys()


def test_training_text_is_taken_as_it_is_and_other_text_is_brought_to_its_form():
    training = [
        "mr. vinken said `` we do n't know '' , and that 's all .", "is it a company 's plan -lrb- or not -rrb- ?",
    ] * 20  # fmt: skip
    form = TextForm.learn(training, "word")
    vocabulary = Vocabulary.train(training, "word")
    raw, tokenized = ["We don't know."], ["we do n't know ."]
    expected = vocabulary.encode(tokenized[0]).tolist()
    assert TextEncoder(vocabulary, 9, form=form)(raw)[0]["tokens"].values.tolist() == expected
    assert TextEncoder(vocabulary, 9, form=form, training=True)(tokenized)[0]["tokens"].values.tolist() == expected
    assert TextEncoder(vocabulary, 9).prepare(raw) == raw


def test_whatever_changes_the_integers_changes_what_they_were_made_by():
    form = TextForm.learn(["is it a plan , or not ?"] * 20, "word")
    book = WordVocabulary(WORDS, None)
    variants = [
        TextEncoder(WORDS, 3),
        TextEncoder(WORDS, 4),
        TextEncoder(WORDS, 3, lower=True),
        TextEncoder(WORDS, 3, form=form),
        TextEncoder(WORDS, 3, form=form, training=True),
        TextEncoder(WORDS, 3, context=book),
        TextEncoder(Vocabulary.train(["other"], "word"), 3),
    ]
    marks = [repr(variant.made_by) for variant in variants]
    assert len({*marks}) == len(marks)
