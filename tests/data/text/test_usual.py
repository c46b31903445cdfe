"""Text unlike the training text is noticed by its numbers."""

from carousel.data import Vocabulary
from carousel.data.text.usual import Tally

USUAL = ["the man saw the old dog in the street", "the dog ran to the man", "an old man and a dog"] * 20


def tally(vocabulary, texts):
    return Tally().add_sample(lambda some: vocabulary.encode_many(some)[0], texts)


def test_unknown_words():
    words = Vocabulary.train(USUAL, "word")
    usual = tally(words, [*USUAL, "the cat"])
    assert (
        tally(words, ["the man saw a cat in the old street and the dog ran to the man , an old man"]).unlike(usual)
        is None
    )
    said = tally(words, ["der Mann sah den alten Hund auf der Strasse und der Hund lief zum Mann"] * 2)
    assert said.unlike(usual).startswith("100% of the tokens are unknown to the model, where 0.")


def test_unknown_words_where_many_are_unknown_as_a_rule():
    usual = Tally(1000, 310, 5000)
    assert Tally(100, 91, 500).unlike(usual) == "91% of the tokens are unknown to the model, where 31% are usual"
    assert Tally(100, 60, 500).unlike(usual) is None


def test_few_tokens_say_nothing():
    words = Vocabulary.train(USUAL, "word")
    assert tally(words, ["der Mann sah den Hund"]).unlike(tally(words, USUAL)) is None
    assert tally(words, ["der Mann sah den alten Hund"]).unlike(tally(words, USUAL)).startswith("100% of the tokens")


def test_many_small_pieces():
    pieces = Vocabulary.train(USUAL, "bpe", size=320)
    usual = tally(pieces, USUAL)
    assert tally(pieces, USUAL[:3]).unlike(usual) is None
    assert "times as many pieces" in tally(pieces, ["grüße aus köln, möglichst viele büsche für übermorgen"]).unlike(
        usual
    )


def test_short_words_are_no_pieces():
    """Tokens of a word model are words and marks, of which a plain sentence may have many short ones."""
    words = Vocabulary.train(USUAL, "word")
    short = tally(words, ["a dog , a man , an old dog , a man"] * 4)
    usual = tally(words, ["extraordinarily straightforward words throughout , " * 8])
    assert "times as many pieces" in short.unlike(usual)
    assert short.unlike(usual, pieces=False) is None
