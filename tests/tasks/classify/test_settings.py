"""Defaults of the classifier that depend on other settings."""

from carousel.tasks.classify.task import Classify


def test_defaults_with_vectors_unless_others_are_given(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("warm 1 2 3\n")
    given = {"train": path, "vectors": path}
    one = Classify.Settings.read(given)
    assert (one.epochs, one.beta2, one.embedding) == (8, 0.95, 3) and not one.unused
    assert Classify.Settings.read({"train": path}).beta2 == 0.999
    assert Classify.Settings.read({**given, "beta2": 0.9}).beta2 == 0.9
    assert not Classify.Settings.read({**given, "optimizer": "sgd"}).unused
