"""Sentences as batches, and given vectors."""

from helpers.tiny import new_model

from carousel.tasks.bilm.task import Bilm


def test_long_sentences_are_cut_for_training_alone(settings, tmp_path):
    long = tmp_path / "long.txt"
    long.write_text("a b c d e f g\na b\n")
    _, data = Bilm.prepare(settings(train=long, dev=long, max_length=3))
    assert sorted(length for batch in data.train for length in batch.lengths.tolist()) == [1, 2, 3, 3]
    assert [batch.lengths.tolist() for batch in data.dev] == [[7, 2]]
    assert data.notes == [f"{long}: 1 sentence is cut into parts of 3 words (max_length)"]


def test_given_vectors(settings, tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("old 1 2 3 4 5 6\ndog 6 5 4 3 2 1\n")
    model, data = new_model(settings(vectors=path, freeze_vectors=True, tied=False), Bilm)
    weight = model.network.embedder.embedder.weight
    assert weight[model.assets.words.words.id("old")].tolist() == [1, 2, 3, 4, 5, 6]
    assert not weight.requires_grad
    assert "2 of" in data.info["word vectors"]
