"""How each kind of tokenizer splits, learns and joins text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models

from carousel.data import SPECIAL, Vocabulary
from carousel.data.text import tokenizers as kinds
from carousel.errors import ArgumentError, DataError

KINDS = ("character", "word", "bpe")
ANY = st.text(st.characters(exclude_categories=["Cs"]))
BITS = ["to", "be", "or", "不", "it's", "[PAD]", "<unk>", " ", "  ", "\n", ".", "🙂", "\u3000"]
PROSE = st.lists(st.sampled_from(BITS))
TRAINING = ["to be, or not to be: that is the question\n", "不\u3000是 it's\n\n", "🙂 [PAD] <unk> a_b"] * 3


@pytest.fixture(scope="module", params=KINDS)
def vocabulary(request):
    return Vocabulary.train(TRAINING, request.param, size=300)


def test_bpe_merges_what_is_frequent():
    vocabulary = Vocabulary.train(["low lower lowest"] * 10, "bpe", size=264)
    assert len(vocabulary) == 264
    assert [vocabulary.decode([i]) for i in range(260, 264)] == ["lo", "low", " low", " lowe"]  # worked by hand
    assert len(Vocabulary.train(["abc"], "bpe", min_frequency=2)) == 260  # no pair occurs twice


@given(text=PROSE.map("".join) | ANY)
def test_long_text_is_encoded_as_if_whole(vocabulary, text):
    whole = vocabulary.encode(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kinds, "LONG", max(8, len(text) // 3))
        if vocabulary.kind == "bpe" and any(len(p) == 2 * kinds.LONG for p in kinds.parts(text, "bpe")):
            return  # no place to cut: the parts are then not those of the whole
        assert vocabulary.encode(text).tolist() == whole.tolist()


def test_text_without_a_place_to_cut():
    vocabulary = Vocabulary.train(["x" * 100_000], "bpe", size=270)  # learning it whole would take minutes
    assert vocabulary.decode(vocabulary.encode("x" * 100_000)) == "x" * 100_000
    word = Vocabulary.train(["x" * 100_000], "word")
    assert word.encode("x" * 100_000).tolist() == [4]


def test_only_our_tokenizers_are_loaded(tmp_path):
    file = tmp_path / "tokenizer.json"
    file.write_text("{}")
    with pytest.raises(DataError, match=r"tokenizer\.json: is not a tokenizer\.json"):
        Vocabulary.load(file)
    foreign = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    foreign.save(str(file))
    with pytest.raises(DataError, match=r"is not a vocabulary for Carousel: \[PAD\] must have id 0, not None"):
        Vocabulary.load(file)
    foreign = Tokenizer(models.WordLevel({token: i for i, token in enumerate(SPECIAL)}, unk_token="[UNK]"))
    foreign.save(str(file))
    with pytest.raises(DataError, match="neither characters, words nor byte-level BPE"):
        Vocabulary.load(file)
    with pytest.raises(DataError, match="no such file"):
        Vocabulary.load(tmp_path / "zzz.json")


@pytest.mark.parametrize("kind", KINDS)
def test_a_blank_tokenizer_splits_as_its_kind(kind):
    pieces = [piece for piece, _ in kinds.blank(kind).pre_tokenizer.pre_tokenize_str("to  be\nor")]
    assert (
        pieces
        == {
            "character": list("to  be\nor"),
            "word": ["to", "be", "or"],
            "bpe": ["to", "Ġ", "Ġbe", "Ċ", "or"],  # GPT-2's signs for a space and a newline
        }[kind]
    )


def test_an_unknown_kind_is_named():
    with pytest.raises(ArgumentError, match="kind must be one of character, word, bpe; got 'words'"):
        kinds.blank("words")


@given(ANY)
def test_words_are_those_of_the_library(text):
    """`split_words` is the fast path of what the library's own splitter does."""
    library = [word for word, _ in kinds.blank("word").pre_tokenizer.pre_tokenize_str(text)]
    assert kinds.split_words(text.encode()) == library


@pytest.mark.parametrize("kind", KINDS[1:])
@given(text=PROSE.map(lambda bits: " ".join(bits) * 20))
def test_parts_are_the_text(kind, text):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kinds, "LONG", 16)
        pieces = kinds.parts(text, kind)
    assert "".join(pieces) == text
    assert len(pieces) == 1 or all(pieces)
    assert kinds.parts("", kind) == [""]


def test_an_error_in_the_thread_reaches_the_caller():
    def fail():
        raise KeyError("inside")

    with pytest.raises(KeyError, match="inside"):
        kinds.in_thread(fail)
