"""Settings of the tagger that cannot be."""

import pytest

from carousel.errors import SettingsError
from carousel.tasks.tag.task import Tag


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"column": "pos"}, "column: a column is upos, xpos or a number from 1"),
        ({"output": "crf", "label_smoothing": 0.1}, "label_smoothing is for output softmax"),
        ({"characters": "lstm"}, "characters: .*'none', 'rnn' or 'cnn'"),
        ({"chars": "rnn"}, "chars: there is no such key; did you mean characters"),
    ],
)
def test_wrong_settings(settings, given, message):
    with pytest.raises(SettingsError, match=message):
        settings(**given)


def test_defaults_with_vectors_unless_others_are_given(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("ada 1 2 3\n")
    given = {"train": path, "vectors": path}
    one = Tag.Settings.read(given)
    assert (one.character_hidden, one.word_features, one.residual_layers, one.embedding) == (50, 32, 1, 3)
    assert not one.unused
    without = Tag.Settings.read({"train": path})
    assert (without.word_features, without.residual_layers) == (64, 0)
    assert Tag.Settings.read({**given, "word_features": 48}).word_features == 48
    assert not Tag.Settings.read({**given, "optimizer": "sgd", "characters": "none"}).unused
    assert Tag.Settings.read({}, pairs=[f"train={path}", "word_features=32"]).word_features == 32


@pytest.mark.parametrize(("given", "predicts"), [({}, True), ({"lm_loss": 0}, False), ({"layers": 2}, False)])
def test_neighbours_are_predicted_from_one_layer(settings, given, predicts):
    assert settings(**given).predicts_neighbours is predicts
    (line,) = settings(lm_loss=0.2, layers=2).unused
    assert line == "lm_loss: 0.2 does nothing, since layers is 2; it is for 1"
