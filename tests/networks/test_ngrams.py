"""The linear model of n-grams, beside scikit-learn's."""

import errno
import os
import random

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB
from sklearn.preprocessing import normalize

from carousel.data.text.vectors import open_vectors
from carousel.errors import DataError
from carousel.networks.ngrams import SMOOTHING, STRENGTH, TEMPERATURES, NGramClassifier


@pytest.fixture(scope="module")
def texts():
    """Texts of three classes, in which some words and word pairs tell the class."""
    draw = random.Random(0)
    words = ["The", "film", "was", "not", "very", "good", "bad", "x", "a,", "--"]
    rows = [" ".join(draw.choice(words) for _ in range(draw.randint(1, 12))) for _ in range(120)]
    labels = [0 if "not good" in row else 1 if "good" in row else 2 for row in rows]
    return rows, torch.tensor(labels)


def mean_vectors(texts, words, vectors):
    """The mean of the words' vectors by their inverse document frequencies, in a loop."""
    rarest = words.idf_.max()
    rows = []
    for text in texts:
        total = np.zeros(2)
        for word in text.lower().split():
            k = words.vocabulary_.get(word)
            total += vectors.get(word, np.zeros(2)) * (rarest if k is None else words.idf_[k])
        rows.append(total / max(np.linalg.norm(total), 1e-12))
    return np.array(rows)


def bayes(train, labels, test):
    """Probabilities of `test` by scikit-learn's naive Bayes; both are (texts, n-grams). The temperature is that with
    the smallest loss when each text is left out in turn, with the classes' sizes unchanged."""

    def fit(x, y):
        return MultinomialNB(alpha=SMOOTHING, class_prior=np.bincount(labels) / len(labels)).fit(x, y)

    kept = [np.arange(len(labels)) != i for i in range(len(labels))]
    scores = [fit(train[k], labels[k]).predict_joint_log_proba(train[~k])[0] for k in kept]
    scores, gold = torch.from_numpy(np.array(scores)), torch.from_numpy(labels)
    t = min(TEMPERATURES, key=lambda t: float(torch.nn.functional.cross_entropy(scores / t, gold)))
    assert TEMPERATURES[0] < t < TEMPERATURES[-1]
    return (torch.from_numpy(fit(train, labels).predict_joint_log_proba(test)) / t).softmax(1).numpy()


def sklearns(train, labels, test, vectors=None):
    """Probabilities by scikit-learn's TF-IDF, logistic regression and naive Bayes; log-count ratios by loops."""
    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"\S+")
    characters = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=True)
    fitted = [part.fit_transform(train).toarray() for part in (words, characters)]
    present = np.hstack(fitted) > 0
    ratios = np.zeros(present.shape[1])
    for label in set(labels):
        inside, outside = present[labels == label], present[labels != label]
        for j in range(len(ratios)):
            here = (1 + inside[:, j].sum()) / (present.shape[1] + inside.sum())
            there = (1 + outside[:, j].sum()) / (present.shape[1] + outside.sum())
            ratios[j] = max(ratios[j], abs(np.log(here / there)))
    new = [part.transform(test).toarray() for part in (words, characters)]
    each = []
    for scale in (np.ones_like(ratios), ratios):
        scales = np.split(scale, [fitted[0].shape[1]])
        x, y = (
            np.hstack([normalize(part * r) for part, r in zip(some, scales, strict=True)]) for some in (fitted, new)
        )
        if vectors is not None:
            x, y = (np.hstack([a, mean_vectors(b, words, vectors)]) for a, b in ((x, train), (y, test)))
        each.append(LogisticRegression(C=STRENGTH, max_iter=5000, tol=1e-8).fit(x, labels).predict_proba(y))
    return (sum(each) + bayes(fitted[0] > 0, labels, new[0] > 0)) / 3


def test_it_is_the_mean_of_two_regressions_and_naive_bayes(texts):
    rows, labels = texts
    ours = NGramClassifier.fit(rows[:90], labels[:90], 3)(rows[90:]).exp().numpy()
    np.testing.assert_allclose(ours, sklearns(rows[:90], labels[:90].numpy(), rows[90:]), atol=5e-3)
    assert (ours.argmax(1) == labels[90:].numpy()).mean() > 0.8


def test_with_word_vectors_it_reads_their_mean_too(texts, tmp_path):
    """Also those of words that training did not have; "splendid" is like "good"."""
    rows, labels = texts
    file = tmp_path / "vectors.txt"
    file.write_text("good 1 0.2\nbad -1 0.1\nthe 0 1\nsplendid 0.9 0.2\n")
    vectors = {"good": [1, 0.2], "bad": [-1, 0.1], "the": [0, 1], "splendid": [0.9, 0.2]}
    new = [*rows[90:], "splendid", "The splendid film", "您好"]
    model = NGramClassifier.fit(rows[:90], labels[:90], 3, vectors=open_vectors(file, tmp_path))
    theirs = sklearns(rows[:90], labels[:90].numpy(), new, {word: np.array(v) for word, v in vectors.items()})
    np.testing.assert_allclose(model(new).exp().numpy(), theirs, atol=5e-3)
    model.save(tmp_path / "ngrams.safetensors")
    again = NGramClassifier.load(tmp_path / "ngrams.safetensors", model.vectors)
    assert torch.equal(again(new), model(new)) and again.strongest(2) == model.strongest(2)
    with pytest.raises(DataError, match="damaged"):
        NGramClassifier.load(tmp_path / "ngrams.safetensors")


def test_class_weights_move_it_to_a_class(texts):
    rows, labels = texts
    even, tilted = (
        NGramClassifier.fit(rows, labels, 3, weights)(["film"])[0, 0] for weights in (None, torch.tensor([50.0, 1, 1]))
    )
    assert tilted > even + 0.5


def test_it_is_saved_and_loaded(texts, tmp_path):
    rows, labels = texts
    model = NGramClassifier.fit(rows, labels, 3)
    model.save(tmp_path / "ngrams.safetensors")
    again = NGramClassifier.load(tmp_path / "ngrams.safetensors")
    assert torch.equal(model(rows), again(rows)) and model.fingerprint == again.fingerprint
    assert again.strongest(2) == model.strongest(2)


def test_its_file_is_written_as_others_are(texts, tmp_path, monkeypatch):
    """With the permissions of the process, whole or not at all, and a full disk is an error of the system."""
    model, file = NGramClassifier.fit(*texts, 3), tmp_path / "ngrams.safetensors"
    (tmp_path / "plain").write_bytes(b"")
    model.save(file)
    assert file.stat().st_mode == (tmp_path / "plain").stat().st_mode
    before = file.read_bytes()

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device"):
        model.save(file)
    assert file.read_bytes() == before and len(list(tmp_path.iterdir())) == 2


def test_a_text_without_a_known_n_gram_has_the_bias_alone(texts):
    model = NGramClassifier.fit(*texts, 3)
    for text in ("", "  ", "您好"):
        torch.testing.assert_close(model([text])[0].exp(), model.bias.softmax(1).mean(0))


def test_what_tells_a_class_is_strongest():
    rows, labels = ["warm film", "warm plot", "dull film", "dull plot"], torch.tensor([1, 1, 0, 0])
    dull, warm = NGramClassifier.fit(rows, labels, 2).strongest(3)
    assert dull[0][0] in "dull" and warm[0][0] in "warm" and warm[0][1] > 0


def test_a_damaged_file_is_one_line(tmp_path):
    file = tmp_path / "ngrams.safetensors"
    made = NGramClassifier(["a", "b"], np.ones((2, 2), np.float32), torch.ones(3, 2, 3), torch.zeros(3, 3))
    made.save(file)
    assert NGramClassifier.load(file).names == ["a", "b"]
    whole = file.read_bytes()
    for data in (b"", whole[:-1], whole.replace(b'"scales"', b'"scalas"'), whole[:8] + b"x" + whole[9:]):
        file.write_bytes(data)
        with pytest.raises(DataError, match=r"ngrams\.safetensors: damaged .*; copy it again"):
            NGramClassifier.load(file)
    parts = {"scales": np.ones((2, 2)), "weight": np.ones((3, 2, 3)), "bias": np.ones((3, 3))}
    save_file({**parts, "names": np.zeros(1, np.uint8)}, file)
