"""Words and their characters as integers, against a loop over the words."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carousel.data import UNK, Vocabulary
from carousel.data.text.words import LONGEST, WordVocabulary, in_context

WORDS = Vocabulary.train(["ada sat on the mat"], "word")
CHARACTERS = Vocabulary.train(["Ada sat on the mat"])
BOOK = WordVocabulary(WORDS, CHARACTERS, lower=True)


def cut(column):
    """The rows of a column."""
    return [part.tolist() for part in np.split(column.values, np.cumsum(column.lengths)[:-1])]


@given(st.lists(st.lists(st.sampled_from(["Ada", "sat", "MAT", "dog", "x" * 41]), max_size=4), min_size=1, max_size=4))
def test_sentences_word_by_word(sentences):
    columns = BOOK.encode(sentences)

    def word_id(word):
        return WORDS.encode(word.lower())[0]

    def spelling(word):
        short = word if len(word) <= LONGEST else word[:20] + word[-20:]
        return CHARACTERS.encode(short).tolist()

    assert cut(columns["tokens"]) == [[word_id(word) for word in words] for words in sentences]
    assert cut(columns["characters"]) == [[i for word in words for i in spelling(word)] for words in sentences]
    assert cut(columns["spelling"]) == [[len(spelling(word)) for word in words] for words in sentences]


def test_case_counts_unless_words_are_lower():
    assert WordVocabulary(WORDS, None).encode([["Ada", "ada"]])["tokens"].values.tolist() == [UNK, 4]
    assert BOOK.encode([["Ada", "ada"]])["tokens"].values.tolist() == [4, 4]


def test_characters_only_where_they_are_wanted():
    assert BOOK.encode([["ada"]], characters=False).keys() == {"tokens"}
    assert WordVocabulary(WORDS, None).encode([["ada"]]).keys() == {"tokens"}
    assert BOOK.dtypes.keys() == BOOK.encode([["ada"]]).keys()


def test_no_sentence():
    assert [len(part) for column in BOOK.encode([]).values() for part in column] == [0] * 6


@pytest.mark.parametrize("characters", [True, False])
def test_saved_and_loaded(tmp_path, characters):
    book = BOOK if characters else WordVocabulary(WORDS, None, lower=True)
    book.save(tmp_path)
    loaded = WordVocabulary.load(tmp_path, characters, lower=True)
    assert loaded.fingerprint == book.fingerprint
    assert {path.name for path in tmp_path.iterdir()} == {"tokenizer.json", *["characters.json"] * characters}


def test_what_is_usual():
    tally = BOOK.usual([["Ada", "sat"], ["a", "dog"]])
    assert (tally.tokens, tally.unknown, tally.characters) == (4, 2, 10)


def test_the_names_of_an_embedder():
    assert in_context({"tokens": 1, "spelling": 2}) == {"context_tokens": 1, "context_spelling": 2}
