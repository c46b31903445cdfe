"""Words beyond the vocabulary: known by their vectors, in the run or by the digest of a file."""

import shutil

import pytest
import torch

import carousel
from carousel.data import UNK
from carousel.errors import DataError, RunError, SettingsError
from carousel.tasks import find
from carousel.training import trainer

WORDS = {"warm": (1, 1), "fine": (1, 0.9), "dull": (-1, -1), "flat": (-1, -0.9), "film": (0, 0.1), "splendid": (1, 1.1)}


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    rows = [f"{word} {' '.join(map(str, vector))}" for word, vector in WORDS.items()]
    (tmp_path / "vectors.txt").write_text("\n".join(rows) + "\n", "utf-8")
    texts = [("warm film", "good"), ("fine film", "good"), ("dull film", "bad"), ("flat film", "bad")] * 6
    (tmp_path / "train.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in texts), "utf-8")
    tags = "".join(f"{word}\t{'ADJ' if word != 'film' else 'NOUN'}\n" for text, _ in texts for word in text.split())
    (tmp_path / "train.conll").write_text(tags.replace("NOUN\n", "NOUN\n\n"), "utf-8")
    return tmp_path


def train(files, task="classify", data="train.tsv", **given):
    small = {"hidden": 4, "epochs": 1, "batch_size": 4, "cache": files / "cache", "dev_split": "none"}
    settings = {"train": files / data, "vectors": files / "vectors.txt", **small, **given}
    if task == "classify":
        settings.setdefault("linear", False)
    run = trainer.train(find(task), settings, files / "run", quiet=True, report=False, force=True)
    return carousel.load(run.folder)


@pytest.mark.parametrize(("task", "data"), [("classify", "train.tsv"), ("tag", "train.conll")])
def test_a_word_beyond_the_training_data_has_its_vector(files, task, data):
    model = train(files, task, data)
    batch = model.batch_of(["Splendid film qqq"])
    known, splendid, unknown = batch.tokens[1, 0], batch.tokens[0, 0], batch.tokens[2, 0]
    words = model.network.embedder
    own = len(words.embedder.weight)
    assert known < own <= splendid and unknown == UNK
    with torch.no_grad():
        vectors = words(batch.tokens)[:, 0]
    torch.testing.assert_close(vectors[0], torch.tensor(WORDS["splendid"]))
    torch.testing.assert_close(vectors[1], words.embedder.weight[known].detach())
    assert model.trace("Splendid film qqq").tokens == (("splendid", "film", "qqq [UNK]"),)
    assert model.settings.embedding == 2


def test_the_run_needs_the_same_file(files):
    train(files)
    (files / "vectors.txt").rename(files / "away.txt")
    with pytest.raises(RunError, match=r"run: the run needs its word vectors \(.*no such file.*embed_vectors='all'"):
        carousel.load(files / "run")
    (files / "vectors.txt").write_text("warm 1 2\n", "utf-8")
    with pytest.raises(RunError, match=r"vectors.txt: not the word vectors that the run in .*restore them"):
        carousel.load(files / "run")
    shutil.move(files / "away.txt", files / "vectors.txt")
    assert carousel.load(files / "run").predict("splendid").label in ("good", "bad")


def test_all_of_them_travel_with_the_run(files):
    before = train(files, embed_vectors="all").predict("splendid film").probabilities
    (files / "vectors.txt").unlink()
    shutil.rmtree(files / "cache")
    shutil.move(files / "run", files / "elsewhere")
    assert carousel.load(files / "elsewhere").predict("splendid film").probabilities == before
    (files / "elsewhere" / "vectors.arrow").write_bytes(b"damaged")
    with pytest.raises(RunError, match=r"vectors\.arrow"):
        carousel.load(files / "elsewhere")


def test_those_used_are_in_the_weights(files):
    model = train(files, embed_vectors="used")
    (files / "vectors.txt").unlink()
    model = carousel.load(files / "run")
    assert model.batch_of(["splendid"]).tokens.tolist() == [[UNK]]
    assert not (files / "run" / "vectors.json").exists()


def test_vectors_by_name(files):
    folder = files / "home" / "carousel" / "vectors" / "toy"
    folder.mkdir(parents=True)
    shutil.copy(files / "vectors.txt", folder / "vectors.txt")
    model = train(files, vectors="toy")
    assert model.network.embedder.beyond.path == folder / "vectors.txt"
    with pytest.raises(SettingsError, match="glove: no such file, and no vectors of this name; carousel data get"):
        train(files, vectors="glove")


def test_an_embedding_of_another_size_is_refused(files):
    with pytest.raises(DataError, match="vectors have 2 numbers, but embedding is 3; give embedding=2, or leave it"):
        train(files, embedding=3)
