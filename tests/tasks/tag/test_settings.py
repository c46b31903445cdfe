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
    assert (one.beta2, one.batch_size, one.hidden, one.embedding) == (0.95, 32, 128, 3) and not one.unused
    assert Tag.Settings.read({"train": path}).beta2 == 0.999
    assert Tag.Settings.read({**given, "beta2": 0.9}).beta2 == 0.9
    assert not Tag.Settings.read({**given, "optimizer": "sgd", "characters": "none"}).unused
    assert Tag.Settings.read({}, pairs=[f"{key}={getattr(one, key)}" for key in ("train", "beta2")]).beta2 == 0.95
