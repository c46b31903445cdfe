"""Tokenization in bulk: the ids are those of the `tokenizers` library, text by text."""

from unittest import mock

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from carousel.data import Vocabulary
from carousel.data.sources.blocks import Block
from carousel.data.text import distinct
from carousel.data.text.distinct import BulkEncoder, cut
from carousel.data.text.tokenizers import SPECIAL, split_words

SPACES = " \t\n\v\f\r\x1c\x1f\x85\xa0\u1680\u180e\u2000\u2009\u200b\u2028\u202f\u205f\u3000\ufeff"
TEXTS = st.text(st.sampled_from(SPACES + "ab'sT1é£“中文ひ.,!-_[]\0\x7f\U0001f600"), max_size=30)
CORPUS = [
    "to be, or not to be: that is the question's end",
    "l'été  déjà 中文 のは £5 “quoted”",
    "They're 10 'T was a [PAD] [UNK] day",
]


@pytest.fixture(scope="module", params=["word", "bpe"])
def vocabulary(request):
    return Vocabulary.train(CORPUS * 3, request.param, size=400 if request.param == "bpe" else None)


def bulk(vocabulary, block):
    """The encoder of large blocks."""
    return (vocabulary._word_encoder if vocabulary.kind == "word" else vocabulary._bpe_encoder)(block)


@settings(max_examples=300, deadline=None)
@given(texts=st.lists(TEXTS, max_size=6))
def test_same_ids_as_the_library(vocabulary, texts):
    """The library tokenizes each text as a whole."""
    values, lengths = bulk(vocabulary, Block.of(texts))
    expected = [[max(i, 3) for i in vocabulary.tokenizer.encode(t, add_special_tokens=False).ids] for t in texts]
    assert values.tolist() == [i for ids in expected for i in ids]
    assert lengths.tolist() == [len(ids) for ids in expected]


@given(texts=st.lists(TEXTS, max_size=6))
def test_pieces_are_the_texts(texts):
    pieces = cut(Block.of(texts))
    assert b"".join(pieces.distinct[i] for i in pieces.order) == "".join(texts).encode()
    ends = np.cumsum(pieces.counts)
    joined = [
        b"".join(pieces.distinct[i] for i in pieces.order[start:end])
        for start, end in zip([0, *ends[:-1]], ends, strict=True)
    ] if texts else []  # fmt: skip
    assert joined == [text.encode() for text in texts]


@given(st.lists(TEXTS.filter(lambda text: not any(special in text for special in SPECIAL)), min_size=1, max_size=8))
def test_words_are_those_that_the_library_learns(texts):
    tokenizer = Tokenizer(models.WordLevel())
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.train_from_iterator(texts, trainers.WordLevelTrainer(vocab_size=1000, show_progress=False))
    expected = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    for bulk_from in (0, distinct.BULK) if expected else ():
        with mock.patch.object(distinct, "BULK", bulk_from):
            assert Vocabulary.train(texts, "word").tokens[4:] == [word for word, _ in expected]
    assert split_words(" ".join(texts).encode()) == [
        word for word, _ in pre_tokenizers.WhitespaceSplit().pre_tokenize_str(" ".join(texts))
    ]


def test_surrogates_are_replaced(vocabulary):
    values, lengths = bulk(vocabulary, Block.of(["a \ud800 b", "be"]))
    expected = bulk(vocabulary, Block.of(["a \ufffd b", "be"]))
    assert values.tolist() == expected[0].tolist() and lengths.tolist() == expected[1].tolist()


def test_memory_is_bounded(monkeypatch):
    """When much is remembered, all of it is forgotten, and the ids stay right."""
    monkeypatch.setattr(distinct, "MEMORY", 2000)
    calls = []

    def tokenize(pieces):
        calls.append(len(pieces))
        return np.array([int(piece) for piece in pieces], np.uint32), np.ones(len(pieces), np.int64)

    encoder = BulkEncoder(tokenize)
    for start in range(0, 100, 10):
        texts = [" ".join(map(str, range(start, start + 10)))] * 2
        values, lengths = encoder(Block.of(texts))
        assert values.tolist() == 2 * list(range(start, start + 10)) and lengths.tolist() == [10, 10]
        assert len(encoder._rows) <= 30
    assert sum(calls) == 100


def test_a_long_text_without_spaces(vocabulary):
    text = "ab中" * 30_000
    values, lengths = vocabulary.encode_many([text, "to be"])
    assert lengths.sum() == len(values)
    assert values[-2:].tolist() == vocabulary.encode("to be").tolist()[-2:]
