"""Vocabularies against collections.Counter, str.split and the tokenizers library reading the saved file."""

import json
import os
import pickle
import subprocess
import sys
from collections import Counter
from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from carousel.data import END, PAD, SPECIAL, START, UNK, Lines, Vocabulary
from carousel.data.text.vocabulary import texts_of
from carousel.errors import DataError

KINDS = ("character", "word", "bpe")
ANY = st.text(st.characters(exclude_categories=["Cs"]))
BITS = ["to", "be", "or", "不", "it's", "[PAD]", "<unk>", " ", "  ", "\n", ".", "🙂", "\u3000"]
PROSE = st.lists(st.sampled_from(BITS))
TRAINING = ["to be, or not to be: that is the question\n", "不\u3000是 it's\n\n", "🙂 [PAD] <unk> a_b"] * 3


@pytest.fixture(scope="module", params=KINDS)
def vocabulary(request):
    return Vocabulary.train(TRAINING, request.param, size=300)


def by_frequency(tokens):
    count = Counter(tokens)
    return sorted(count, key=lambda token: (-count[token], token))


# -------------------------------------------------------------------- training


@given(st.lists(ANY, min_size=1), st.integers(1, 3), st.none() | st.integers(5, 12))
def test_characters_are_those_that_counter_counts(texts, least, size):
    count = Counter("".join(texts))
    expected = [c for c in by_frequency("".join(texts)) if count[c] >= least][: None if size is None else size - 4]
    if expected:
        assert Vocabulary.train(texts, min_frequency=least, size=size).tokens == [*SPECIAL, *expected]
    else:
        with pytest.raises(DataError, match=f"no character occurs {least} times or more.*; lower min_frequency"):
            Vocabulary.train(texts, min_frequency=least, size=size)


WORD = st.text(st.sampled_from("ab,不🙂<"), min_size=1) | st.sampled_from([*SPECIAL, "<unk>"])


@given(st.lists(st.lists(WORD, min_size=1), min_size=1), st.integers(1, 3), st.none() | st.integers(5, 9))
def test_words_are_those_that_split_finds(lines, least, size):
    texts = [" ".join(line) for line in lines]
    words = [word for text in texts for word in text.split() if word not in SPECIAL and word != "<unk>"]
    count = Counter(words)
    expected = [w for w in by_frequency(words) if count[w] >= least][: None if size is None else size - 4]
    if expected:
        vocabulary = Vocabulary.train(texts, "word", min_frequency=least, size=size)
        assert vocabulary.tokens == [*SPECIAL, *expected]
        known = [w if w in expected else "[UNK]" for w in " ".join(texts).split()]
        assert [vocabulary.token(i) for i in vocabulary.encode(" ".join(texts))] == known
    else:
        with pytest.raises(DataError, match="the vocabulary is empty; lower min_frequency"):
            Vocabulary.train(texts, "word", min_frequency=least, size=size)


def test_training_is_the_same_in_every_process():
    program = """if True:
        from carousel.data import Vocabulary
        texts = [f"w{i * i % 97} and v{i % 13}" for i in range(400)]
        made = [Vocabulary.train(texts, kind, size=320).fingerprint for kind in ("character", "word", "bpe")]
    """
    here: dict = {}
    exec(program, here)
    run = subprocess.run(
        [sys.executable, "-c", program + "    print(*made)"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.stdout.split() == here["made"], run.stderr


def test_training_streams():
    """An iterator is read once, and what it raises comes through."""

    def texts():
        yield "to be"
        raise DataError("a.txt", 2, "broken", "fix it")

    for kind in KINDS:
        with pytest.raises(DataError, match=r"a\.txt:2: broken"):
            Vocabulary.train(texts(), kind)


def test_the_file_is_named_when_nothing_is_left(tmp_path):
    (tmp_path / "poems.txt").write_text("ab\n")
    with pytest.raises(DataError, match=r"poems.txt: no character occurs 5 times or more, so the vocabulary is empty"):
        Vocabulary.train(Lines(tmp_path / "poems.txt"), min_frequency=5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "char"}, "kind must be one of character, word, bpe; got 'char'"),
        ({"size": 4}, "size must be a whole number from 5 up or None, got 4"),
        (
            {"kind": "bpe", "size": 259},
            "at least 260 tokens: 256 bytes and 4 special ones; got a size of 259",
        ),
        ({"min_frequency": 0}, "min_frequency must be a whole number from 1 up, got 0"),
        ({"min_frequency": 1.5}, "min_frequency must be a whole number from 1 up, got 1.5"),
    ],
)
def test_arguments_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        Vocabulary.train(["abc"], **arguments)


# -------------------------------------------------------------------- encoding


def test_special_tokens_come_first(vocabulary):
    assert (PAD, START, END, UNK) == (0, 1, 2, 3)
    assert vocabulary.tokens[:4] == list(SPECIAL)
    assert [vocabulary.id(token) for token in SPECIAL] == [0, 1, 2, 3]


@given(text=PROSE.map("".join) | ANY)
def test_the_saved_tokenizer_says_the_same(vocabulary, text):
    """Any tool that reads tokenizer.json gets our ids, except that words such as "[PAD]" are special tokens there."""
    theirs = Tokenizer.from_str(vocabulary.tokenizer.to_str())
    theirs.encode_special_tokens = True
    expected = [max(i, UNK) for i in theirs.encode(text, add_special_tokens=False).ids]
    assert vocabulary.encode(text).tolist() == expected


@given(text=PROSE.map("".join) | ANY)
def test_text_gives_no_special_token_but_unk(vocabulary, text):
    assert not np.isin(vocabulary.encode(text), [PAD, START, END]).any()


@given(text=ANY)
@example(text="x\ufffd")  # what a decoder shows for half a character
def test_characters_and_bpe_lose_nothing(text):
    for vocabulary in (Vocabulary.train([text, "x"]), BPE):
        ids = vocabulary.encode(text)
        assert vocabulary.decode(ids) == text
        assert "".join(vocabulary.decode_stream(ids)) == text
        assert UNK not in ids


BPE = Vocabulary.train(TRAINING, "bpe", size=300)


def test_words_come_back_with_single_spaces():
    vocabulary = Vocabulary.train(["to  be\tor\nnot"], "word")
    assert vocabulary.decode(vocabulary.encode(" to\n\nbe  or not ")) == "to be or not"
    assert "".join(vocabulary.decode_stream(vocabulary.encode("to be or"))) == "to be or"


def test_unk_of_the_penn_treebank_is_unk():
    vocabulary = Vocabulary.train(["the <unk> of <unk>"], "word")
    assert "<unk>" not in vocabulary and vocabulary.encode("<unk> of [UNK]").tolist() == [3, vocabulary.id("of"), 3]
    assert UNK not in Vocabulary.train(["a <unk>"]).encode("<unk>")  # to characters it is five letters


@given(texts=st.lists(PROSE.map("".join)))
def test_many_texts_are_encoded_as_each_alone(vocabulary, texts):
    values, lengths = vocabulary.encode_many(texts)
    alone = [vocabulary.encode(text).tolist() for text in texts]
    assert values.tolist() == list(chain.from_iterable(alone)) and lengths.tolist() == list(map(len, alone))


def test_lone_surrogates_are_unknown_characters():
    assert Vocabulary.train(["ab"]).encode("a\ud800").tolist() == [4, 3]


def test_decoding_leaves_out_what_is_not_text():
    vocabulary = Vocabulary.train(["abba"])
    assert vocabulary.decode(torch.tensor([START, 4, UNK, 5, END, PAD])) == "a[UNK]b"
    assert vocabulary.decode([]) == ""
    for wrong in (6, -1):
        with pytest.raises(ValueError, match=f"no token with id {wrong}; the vocabulary's ids are 0 to 5"):
            vocabulary.decode([wrong])


def test_unknown_rate():
    vocabulary = Vocabulary.train(["to be or"], "word")
    assert vocabulary.count_unknown(["to be here", "now"]) == (2, 4)
    assert vocabulary.unknown_rate(iter(["to be here", "now"])) == 0.5
    assert vocabulary.unknown_rate([]) == 0


# -------------------------------------------------------------------- keeping


def test_saved_and_loaded(vocabulary, tmp_path):
    file = tmp_path / "tokenizer.json"
    vocabulary.save(file)
    again = Vocabulary.load(file)
    assert again == vocabulary and again.kind == vocabulary.kind and hash(again) == hash(vocabulary)
    assert again.tokens == vocabulary.tokens
    assert again.encode(TRAINING[0]).tolist() == vocabulary.encode(TRAINING[0]).tolist()
    assert again.encode("[PAD]").tolist() == vocabulary.encode("[PAD]").tolist()
    assert [p.name for p in tmp_path.iterdir()] == ["tokenizer.json"]
    json.loads(file.read_text("utf-8"))
    assert Tokenizer.from_file(str(file)).get_vocab_size() == len(vocabulary)


def test_pickled(vocabulary):
    assert pickle.loads(pickle.dumps(vocabulary)) == vocabulary


def test_a_given_file(tmp_path):
    file = tmp_path / "tokens.txt"
    file.write_text("[PAD]\n<unk>\na\n \n\\n\n\\\n\nb\n", "utf-8")
    assert Vocabulary.from_file(file, "character").tokens[4:] == ["a", " ", "\n", "\\", "b"]
    file.write_bytes("\ufeffthe\r\nof\r\n[UNK]\r\n".encode())
    assert Vocabulary.from_file(file, "word").tokens[4:] == ["the", "of"]


@pytest.mark.parametrize(
    ("content", "kind", "message"),
    [
        ("a\nb\na\n", "character", ":3: 'a' is already on line 1; remove one of them"),
        ("a\nbc\n", "character", ":2: 'bc' is not one character; put one per line, or use words"),
        ("the\nof 17\n", "word", ":2: 'of 17' has a space in it"),
        ("[PAD]\n<unk>\n", "word", ": there is no word in it, so the vocabulary is empty; put one per line"),
        ("th\n", "bpe", ": a list of tokens does not say how BPE merges; give a tokenizer.json"),
        ("", "word", ": the file is empty"),
    ],
)
def test_a_given_file_that_is_wrong(tmp_path, content, kind, message):
    (tmp_path / "tokens.txt").write_text(content, "utf-8")
    with pytest.raises(DataError) as error:
        Vocabulary.from_file(tmp_path / "tokens.txt", kind)
    assert f"tokens.txt{message}" in str(error.value)


def test_given_tokens_are_checked():
    for tokens in (["a", "b", "a"], ["a", "a"], ["a", "[UNK]"]):
        with pytest.raises(ValueError, match="different from each other"):
            Vocabulary.from_tokens(tokens, "word")
    with pytest.raises(ValueError, match="tokens must be single characters, got 'ab'"):
        Vocabulary.from_tokens(["ab"], "character")
    with pytest.raises(ValueError, match="do not say how BPE merges"):
        Vocabulary.from_tokens(["a"], "bpe")


@pytest.mark.parametrize(
    ("text", "expected"), [("the rat", ("the", "␣rat")), ("明月", ("明月",)), ("ate\n", ("at", "e", "\n"))]
)
def test_tokens_of_bpe_are_shown_as_text_and_not_as_bytes(text, expected):
    vocabulary = Vocabulary.train(["the rat", "明月"] * 3, "bpe")
    ids = vocabulary.encode(text)
    assert texts_of(vocabulary, ids[:, None], np.array([len(ids)])) == (expected,)


def test_repr_is_readable():
    assert repr(Vocabulary.train(["abba"])) == "Vocabulary(character, 6 tokens: 'a' 'b')"
    assert repr(Vocabulary.train(["abcdefghij"])).endswith("14 tokens: 'a' 'b' 'c' 'd' 'e' 'f' …)")
    assert "' low'" in repr(Vocabulary.train(["low lower lowest"] * 10, "bpe", size=263))
