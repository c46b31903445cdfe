"""Tables as data of the classifier."""

import pytest
from helpers.classifiers import new_model

from carousel.data import Vocabulary
from carousel.errors import DataError


@pytest.mark.parametrize("tokens", ["character", "bpe"])
def test_other_tokens(settings, tokens):
    model, _ = new_model(settings(tokens=tokens, lower=True))
    assert isinstance(model.vocabulary, Vocabulary)
    assert model.predict("WARM").probabilities == model.predict("warm").probabilities


def test_more_examples_to_train_on(settings, tmp_path):
    extra = tmp_path / "phrases.tsv"
    extra.write_text("splendid\tgood\ntedious\tbad\n")
    model, data = new_model(settings(extra=extra))
    assert "splendid" in model.vocabulary
    assert len(data.train.store) == 98
    extra.write_text("splendid\tgood\nmiddling\tneutral\n")
    with pytest.raises(DataError, match=r"phrases.tsv:2: the label 'neutral' is not in the training data"):
        new_model(settings(extra=extra))


BAD = {
    "ragged": ("a\tx\nb\n", "bad.tsv:2: 1 column, where line 1 has 2"),
    "one class": ("a\tx\nb\tx\n", "bad.tsv: every row has the label 'x'"),
    "empty text": ("a\tx\n\ty\n", "bad.tsv:2: the text is empty"),
    "one column": ("a\nb\n", "bad.tsv:1: there is one column only"),
    "nothing": ("", "bad.tsv: the file is empty"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_training_data_leaves_nothing_behind(command, tmp_path, kind):
    text, said = BAD[kind]
    (tmp_path / "bad.tsv").write_text(text)
    code, out, err = command("train", "classify", tmp_path / "bad.tsv", "--out", tmp_path / "run")
    assert (code, out) == (1, "")
    assert said in err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_bad_data_to_evaluate_on(command, trained, tmp_path):
    path = tmp_path / "dev.tsv"
    path.write_text("a film\tgood\nthe plot\tugly\n")
    code, _, err = command("eval", trained, path)
    assert code == 1
    assert "dev.tsv:2: the label 'ugly' is not in the training data, whose labels are bad, good; " in err
