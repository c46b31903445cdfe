"""The sentence encoder's data: classes and scores, what a run keeps, and bad files."""

import pytest
from helpers.untrained import new_model

from carousel.errors import DataError
from carousel.tasks.encode.data import EncodeAssets
from carousel.tasks.encode.examples import Target
from carousel.tasks.encode.task import Encode


def test_the_target_is_found(settings):
    model, data = new_model(Encode, settings())
    assert model.network.metric().best == "pearson"
    assert data.info["target"] == "scores from 1.5 to 4.5"
    model, data = new_model(Encode, settings("class"))
    assert (model.network.metric().best, model.target.classes) == ("accuracy", ["other", "same"])
    assert data.info["target"] == "other, same"
    assets, _ = Encode.prepare(settings("score", target="class"))
    assert assets.target.classes == ["1.5", "2.5", "3.5", "4.5"]


@pytest.mark.parametrize("kind", ["score", "class"])
def test_a_resumed_run_learns_nothing_from_the_file(settings, files, tmp_path, kind):
    """Saved and loaded, and then used with a part of the file: fewer words, fewer labels."""
    assets, _ = Encode.prepare(settings(kind))
    assets.save(tmp_path)
    kept = EncodeAssets.load(settings(kind), tmp_path)
    assert kept.target == assets.target
    assert kept.vocabulary.fingerprint == assets.vocabulary.fingerprint
    path = tmp_path / "part.tsv"
    path.write_text("".join((files / f"{kind}.tsv").read_text().splitlines(keepends=True)[:3]))
    again, data = Encode.prepare(settings(kind, train=path), kept)
    assert again is kept and again.target == assets.target
    assert len(data.train.store) == 2 and data.info["target"] == str(assets.target)


def test_unknown_tokens_of_both_texts_are_counted(settings):
    model, _ = new_model(Encode, settings())
    pairs = [("the zorping man", "the quuxor is frobbing", 3.0), ("the dog runs", "the man runs now", 2.0)]
    found = model.evaluate(pairs)
    assert found["unknown"] == sum(text.split().count(word) for pair in pairs for text in pair[:2]
                                   for word in ("zorping", "quuxor", "is", "frobbing"))  # fmt: skip
    store = model.batches(model.settings.train).store
    assert store.tokens == len(store["tokens"].values) + len(store["second_tokens"].values)


@pytest.mark.parametrize("wrong", ["abc", "nan", "1.5x"])
def test_one_bad_score_does_not_make_classes(settings, files, tmp_path, wrong):
    head, first, *rows = (files / "score.tsv").read_text().splitlines()
    path = tmp_path / "train.tsv"
    path.write_text("\n".join([head, first, first.rpartition("\t")[0] + f"\t{wrong}", *rows]))
    with pytest.raises(DataError, match=f"train.tsv:3: the score '{wrong}' is not a number; .* target='class'"):
        Encode.prepare(settings(train=path))
    assert wrong in Encode.prepare(settings(train=path, target="class"))[0].target.classes
    half = [row.rpartition("\t")[0] + "\tother" for row in rows]
    path.write_text("\n".join([head, first, *half]))
    assert Encode.prepare(settings(train=path, dev=None))[0].target.classes[1] == "other"


def test_scores_out_of_range(settings, files, tmp_path):
    """Trained on 1.5 to 4.5, a model knows the levels 1 to 5."""
    model, _ = new_model(Encode, settings())
    head, row, *_ = (files / "score.tsv").read_text().splitlines()
    path = tmp_path / "dev.tsv"
    for score in ("99", "5.01", "0.9"):
        rows = [row.rpartition("\t")[0] + f"\t{other}" for other in ("1", "5.0", score)]
        path.write_text("\n".join([head, *rows]))
        said = f"dev.tsv:4: the score {score} is not from 1 to 5, as those trained on are; "
        with pytest.raises(DataError, match=said):
            model.evaluate(path)
        with pytest.raises(DataError, match=said):
            Encode.prepare(settings(dev=path))
    assets = EncodeAssets(model.vocabulary, Target([], 0.5, 4.5))
    wider = Encode.make_model(Encode.make_network(model.settings, assets), assets)
    assert wider.evaluate(path)["pairs"] == 3
    with pytest.raises(DataError, match=said):  # what the other kept in the cache is not for this one
        model.evaluate(path)


def test_scores_that_are_none(command, trained, tmp_path):
    path = tmp_path / "dev.tsv"
    path.write_text("sentence_A\tsentence_B\tscore\nthe dog\tthe cat\thigh\n")
    code, _, err = command("eval", trained, path)
    assert code == 1
    assert "dev.tsv:2: the" in err
    code, _, err = command("train", "encode", path, "--target", "score", "--out", tmp_path / "run")
    assert code == 1


BAD = {
    "one side empty": ("a dog\t\t3.5\n", "bad.tsv:1: the second is empty"),
    "ragged": ("a\tb\t1.5\nc\td\n", "bad.tsv:2: 2 columns, where line 1 has 3"),
    "one label": ("a\tb\tx\nc\td\tx\n", "bad.tsv: every pair has the label 'x'"),
    "nothing": ("", "bad.tsv: the file is empty"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_training_data_leaves_nothing_behind(command, tmp_path, kind):
    text, said = BAD[kind]
    (tmp_path / "bad.tsv").write_text(text)
    code, out, err = command("train", "encode", tmp_path / "bad.tsv", "--out", tmp_path / "run")
    assert (code, out) == (1, "")
    assert said in err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "run").exists()
