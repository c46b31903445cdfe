"""Hand-made features: two words share one if and only if the strings that it stands for are equal."""

import itertools

import pytest
import torch

from carousel.networks.characters import CharacterCNN, CharacterFeatures
from carousel.networks.word_features import WordFeatures

KNOWN = ["[PAD]", "[START]", "[END]", "[UNK]", *"AaBbdİé19-.'"]
WORDS = ["Abba", "abba", "ABBA", "AB", "ab", "b", "B", "-b", "b-", "A-1", "B-9", "1.9", "19", "91", "baab", "abbaabba",
         "éa", "Éa", "İd", "aaaa", "aaaaa", "a'b", "Ab-b", "'", "dAb", "bAd"]  # fmt: skip


def characters_of(words):
    """Ids (C, W) and lengths (W); a character that is not known is [UNK]."""
    ids = [[KNOWN.index(c) if c in KNOWN else 3 for c in word] for word in words]
    lengths = torch.tensor([len(row) for row in ids])
    return torch.tensor([row + [0] * (int(lengths.max()) - len(row)) for row in ids]).T, lengths


def strings_of(word):
    """What each feature of a word stands for; None: the word has no such affix."""
    known = [c if c in KNOWN else "[UNK]" for c in word]
    low = [c.lower() for c in known]
    kinds = ["u" if len(c) > 1 else "X" if c.isupper() else "d" if c.isdigit() else "x" if c.isalpha() else c
             for c in known]  # fmt: skip
    upper, lower = kinds.count("X"), kinds.count("x")
    flags = ("d" in kinds, "-" in kinds, upper > 0 and not lower, kinds[0] == "X" and upper == 1)
    sizes = range(1, 5)
    return {
        "word": known, "lower": low, "shape": [kind for kind, _ in itertools.groupby(kinds)], "flags": flags,
        **{f"prefix {n}": low[:n] if n <= len(low) else None for n in sizes},
        **{f"suffix {n}": low[-n:] if n <= len(low) else None for n in sizes},
    }  # fmt: skip


@pytest.mark.parametrize("column, name", list(enumerate(WordFeatures(KNOWN, 4).names)))
def test_features_are_equal_where_their_strings_are(column, name):
    features = WordFeatures(KNOWN, 4).features(*characters_of(WORDS))[:, column].tolist()
    expected = [strings_of(word)[name] for word in WORDS]
    for i, j in itertools.combinations(range(len(WORDS)), 2):
        assert (features[i] == features[j]) == (expected[i] == expected[j]), (WORDS[i], WORDS[j])
    assert all((feature == 0) == (string is None) for feature, string in zip(features, expected, strict=True))


def test_a_word_is_the_sum_of_its_features():
    reader = WordFeatures(KNOWN, 4)
    characters, lengths = characters_of(["ab", "ba"])
    both = reader(characters, lengths)
    for k in range(2):  # shape and flags are shared, nothing else
        both[k].sum().backward()
        rows = reader.weight.grad[:, 0].nonzero().flatten()
        torch.testing.assert_close(both[k], (reader.weight.grad * reader.weight).sum(0))
        assert len(rows) == len([string for string in strings_of("ab").values() if string is not None])
        reader.weight.grad = None
        both = reader(characters, lengths)


def test_padding_and_neighbours_have_no_effect():
    reader = WordFeatures(KNOWN, 4)
    together = reader(*characters_of(WORDS))
    for word, vector in zip(WORDS, together, strict=True):
        torch.testing.assert_close(reader(*characters_of([word]))[0], vector)


def test_a_feature_that_training_did_not_have_adds_nothing():
    reader = WordFeatures(KNOWN, 4, whole=False)
    assert not reader(*characters_of(WORDS)).any()
    reader(*characters_of(["abba"])).sum().backward()
    with torch.no_grad():
        reader.weight -= reader.weight.grad
    assert reader(*characters_of(["abba"])).any() and not reader(*characters_of(["1.9"])).any()


def test_the_whole_word_is_a_feature_or_not():
    names = [WordFeatures(KNOWN, 4, whole=whole).names for whole in (True, False)]
    assert set(names[0]) - set(names[1]) == {"word", "lower"}
    reader = WordFeatures(KNOWN, 4, whole=False)
    first, second = reader.features(*characters_of(["abbaaabba", "abbabbabba"]))
    torch.testing.assert_close(first, second)  # they differ in the middle alone
    assert reader.features(*characters_of(["abba"]))[0].count_nonzero() == 2 + 2 * 3  # no affix of four


def test_dropout_leaves_features_out_and_keeps_their_mean():
    torch.manual_seed(0)
    reader = WordFeatures(KNOWN, 4, dropout=0.5)
    characters, lengths = characters_of(["abba"])
    whole = reader.eval()(characters, lengths)
    torch.testing.assert_close(whole, reader(characters, lengths))
    many = characters.expand(-1, 4000), lengths.expand(4000)
    noisy = reader.train()(*many)
    assert len(noisy.unique(dim=0)) > 100  # of 2^12
    torch.testing.assert_close(noisy.mean(0), whole[0], atol=0.02, rtol=0)


def test_beside_another_reader():
    characters, lengths = characters_of(["Abba", "ab", "Abba"])
    filters, features = CharacterCNN(len(KNOWN), 6, 5), WordFeatures(KNOWN, 4)
    mask = torch.tensor([[True, True], [True, False]])
    vectors = CharacterFeatures(filters, features)(characters, lengths, mask)
    assert vectors.shape == (2, 2, 9)
    torch.testing.assert_close(vectors[mask][:, :5], filters(characters, lengths))
    torch.testing.assert_close(vectors[mask][:, 5:], features(characters, lengths))
    assert not vectors[1, 1].any()


def test_the_tables_are_among_the_weights():
    """What a feature is does not depend on the Python that loads it."""
    assert {"weight", "lowered", "kinds"} == set(WordFeatures(KNOWN, 4).state_dict())


@pytest.mark.parametrize("words, rows", [(1, 16), (20, 512), (2048, 1 << 15), (2049, 1 << 16), (10**6, 1 << 16)])
def test_the_table_grows_with_the_vocabulary_up_to_a_limit(words, rows):
    assert len(WordFeatures(KNOWN, 4, words=words).weight) == rows
    assert len(WordFeatures(KNOWN, 4, words=words, whole=False).weight) == rows // 2
