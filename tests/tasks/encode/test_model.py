"""Sentence encoders: the loss by hand, vectors that do not feel their neighbours, runs end to end, and bad files."""

import json
import math
import random

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import carousel
from carousel.errors import DataError
from carousel.metrics import pearson, spearman
from carousel.tasks.encode.examples import Judgement
from carousel.tasks.encode.model import EncodeSettings, SentenceEncoder
from carousel.training import trainer

NOUNS, VERBS = ["dog", "cat", "man", "girl"], ["runs", "sleeps", "sings"]


def write_pairs(path, count, seed, kind="score"):
    """Two short sentences; the score counts what they share, the class says whether they are the same."""
    draw = random.Random(seed)
    rows = ["id\tsentence_A\tsentence_B\tscore"]
    for k in range(count):
        a, b = ([draw.choice(NOUNS), draw.choice(VERBS)] for _ in range(2))
        if draw.random() < 0.5:
            b[0] = a[0]
        if draw.random() < 0.3:
            b[1] = a[1]
        shared = (a[0] == b[0]) * 2 + (a[1] == b[1])
        label = f"{1 + shared}.5" if kind == "score" else ("same" if shared == 3 else "other")
        rows.append(f"{k}\tthe {' '.join(a)}\tthe {' '.join(b)} now\t{label}")
    path.write_text("\n".join(rows) + "\n")


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    for kind in ("score", "class"):
        write_pairs(folder / f"{kind}.tsv", 160, 1, kind)
        write_pairs(folder / f"{kind}-dev.tsv", 40, 2, kind)
    return folder


@pytest.fixture
def settings(files, tmp_path):
    def make(kind="score", **given):
        small = {"hidden": 8, "embedding": 8, "head": 8, "epochs": 2, "lr": 0.02, "batch_size": 16}
        data = {"train": files / f"{kind}.tsv", "dev": files / f"{kind}-dev.tsv", "cache": tmp_path / "cache"}
        return EncodeSettings.read({**data, **small, **given})

    return make


@pytest.fixture(scope="session", params=["score", "class"])
def trained(request, files, tmp_path_factory):
    """A run that has learned what pairs share.

    One epoch: of several with the same metric the first is kept, before the learning is complete.
    """
    folder = tmp_path_factory.mktemp("runs")
    kind = request.param
    write_pairs(folder / "train.tsv", 1600, 1, kind)
    given = {"hidden": 16, "embedding": 12, "head": 24, "epochs": 1, "lr": 0.02, "batch_size": 16, "dropout": 0.0,
             "word_dropout": 0.0}  # fmt: skip
    data = {"train": folder / "train.tsv", "dev": files / f"{kind}-dev.tsv", "cache": folder / "cache"}
    trainer.train(SentenceEncoder, EncodeSettings.read({**data, **given}), folder / kind, quiet=True)
    return folder / kind


@pytest.mark.parametrize("pooling", ["max", "mean", "last", "attention"])
def test_vectors_do_not_feel_their_neighbours(settings, pooling):
    model, _ = SentenceEncoder.prepare(settings(pooling=pooling))
    texts = ["the dog", "", "the cat runs and sings and runs and sleeps now", "a girl"]
    together = model.embed(texts)
    assert together.shape == (4, 16)
    for text, vector in zip(texts, together, strict=True):
        np.testing.assert_allclose(model.embed(text), vector, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.concatenate(list(model.vectors(texts, batch=1))), together, rtol=1e-5, atol=1e-6)
    assert not together[1].any()


def test_the_pair_is_put_together_as_in_the_paper(settings):
    model, data = SentenceEncoder.prepare(settings())
    model.eval()
    batch = next(iter(data.dev))
    u, v = model.encode(batch.first), model.encode(batch.second)
    features = torch.stack([torch.cat((a, b, abs(a - b), a * b)) for a, b in zip(u, v, strict=True)])
    torch.testing.assert_close(model.scores(batch), model.head(features))


def test_the_loss_of_a_score_by_hand(settings):
    model, data = SentenceEncoder.prepare(settings())
    model.eval()
    batch = next(iter(data.train))
    total = 0.0
    for row, label in zip(model.scores(batch).tolist(), batch.labels.tolist(), strict=True):
        chances = [math.exp(x) / sum(map(math.exp, row)) for x in row]
        levels = list(range(1, 6))
        low = min(int(label), 4)
        share = label - low
        total -= (1 - share) * math.log(chances[low - 1]) + share * math.log(chances[low])
        total += (sum(p * r for p, r in zip(chances, levels, strict=True)) - label) ** 2
    loss = model.loss(batch)
    assert loss.mean.item() == pytest.approx(total / loss.weight, rel=1e-4)


def test_what_is_said_is_found(settings):
    assert SentenceEncoder.prepare(settings())[0].metric().best == "pearson"
    model, _ = SentenceEncoder.prepare(settings("class"))
    assert (model.metric, model.judgement.classes) == ("accuracy", ["other", "same"])
    model, _ = SentenceEncoder.prepare(settings("score", target="class"))
    assert model.judgement.classes == ["1.5", "2.5", "3.5", "4.5"]


@pytest.mark.learning
def test_it_learns(trained, reached):
    model = carousel.load(trained)
    found = model.evaluate(model.settings.dev)
    if trained.name == "score":
        reached("pearson", found["pearson"], above=0.8)
        assert (
            model.predict("the dog runs", "the dog runs now").label
            > model.predict("the dog runs", "the cat sings").label
        )
        assert repr(model.predict("the dog runs", "the cat sings")).endswith("  the dog runs | the cat sings")
    else:
        reached("accuracy", found["accuracy"], above=0.85)
        said = model.predict("the dog runs", "the dog runs now")
        assert said.label == "same"
        assert sum(said.probabilities.values()) == pytest.approx(1, abs=1e-4)
    nearest = model.similar("the dog runs", ["the cat sleeps", "the dog runs", "the man sings"], 2)
    assert nearest[0] == (pytest.approx(1), "the dog runs")
    assert len(nearest) == 2


def test_a_run_goes_on_where_it_was_killed(settings, goes_on):
    noisy = settings(word_dropout=0.2, average=0.9)
    goes_on(SentenceEncoder, noisy)


@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(-5, 5)), min_size=3, max_size=12))
def test_correlations(pairs):
    a, b = ([float(pair[k]) for pair in pairs] for k in (0, 1))
    if len(set(a)) > 1 and len(set(b)) > 1:
        assert pearson(a, b) == pytest.approx(stats.pearsonr(a, b)[0], abs=1e-9)
        assert spearman(a, b) == pytest.approx(stats.spearmanr(a, b)[0], abs=1e-9)
    else:
        assert pearson(a, b) == spearman(a, b) == 0


# ---------------------------------------------------------------- the command line


def test_embed_and_similar(command, trained, tmp_path):
    texts = b"the dog runs\n\nthe cat sleeps\n"
    code, out, _ = command("embed", trained, "--out", tmp_path / "v.npy", given=texts)
    assert (code, out) == (0, f"{tmp_path / 'v.npy'}: 3 vectors of 32 numbers\n")
    vectors = np.load(tmp_path / "v.npy")
    code, _, _ = command("embed", trained, "--out", tmp_path / "v.parquet", given=texts)
    table = pq.read_table(tmp_path / "v.parquet").to_pydict()
    assert table["text"] == ["the dog runs", "", "the cat sleeps"]
    np.testing.assert_array_equal(np.array(table["vector"], np.float32), vectors)
    given = texts.replace(b"\n\n", b"\n")
    found = command("similar", trained, "--to", "the dog runs", "-n", 1, given=given)
    assert found == (0, "1.0000\tthe dog runs\n", "the 1 nearest of 2 texts; more with -n\n")
    code, out, err = command("similar", trained, "--to", "the dog runs", given=given)
    assert (code, len(out.splitlines()), err) == (0, 2, "")
    code, _, err = command("embed", trained, "--out", tmp_path / "v.txt", given=texts)
    assert (code, "ends in .npy or .parquet" in err) == (2, True)


def test_predict_and_check(command, trained, files):
    code, out, _ = command("predict", trained, given=b"the dog runs\tthe dog runs now\n")
    assert code == 0
    assert out.splitlines()[0] == "label\tfirst\tsecond"
    long = b"dog " * 1001
    code, out, err = command("predict", trained, "--json", given=b"a\tb\na\t%b\n%b\tb\n" % (long, long))
    assert (code, [json.loads(line)["cut"] for line in out.splitlines()]) == (0, [False, True, True])
    assert err == "standard input:2: cut off after 1,000 tokens (max_length of the run); 2 lines in all\n"
    code, _, err = command("predict", trained, given=b"the dog runs\n")
    assert (code, "standard input:1: one text only; put a tab between" in err) == (1, True)
    code, _, err = command("predict", trained, given=b"a\tb\na\tb\t3.5\n")
    assert (code, len(err.splitlines())) == (1, 1)
    assert "standard input:2: 3 texts with tabs between, where a pair has two; put one tab" in err
    code, out, _ = command("check", files / "score.tsv", "--task", "encode", "--json")
    assert (code, json.loads(out)["train"]["texts"]) == (0, 160)


def test_predict_reads_tables_as_training_does(command, trained, files, tmp_path):
    """With header and labels, in another format, without labels, without header: the same pairs, the same scores."""
    rows = [line.split("\t") for line in (files / f"{trained.name}-dev.tsv").read_text().splitlines()[1:]]
    plain = "".join(f"{first}\t{second}\n" for _, first, second, _ in rows)
    expected = command("predict", trained, given=plain.encode())[1]
    assert len(expected.splitlines()) == 41
    assert command("predict", trained, files / f"{trained.name}-dev.tsv") == (0, expected, "")
    told = [{"hypothesis": second, "premise": first} for _, first, second, _ in rows]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(one) + "\n" for one in told))
    (tmp_path / "p.CSV").write_text("sentence_B,sentence_A\n" + "".join(f"{b},{a}\n" for _, a, b, _ in rows))
    (tmp_path / "p.tsv").write_text(plain)
    for name in ("p.jsonl", "p.CSV", "p.tsv"):
        assert command("predict", trained, tmp_path / name) == (0, expected, "")


def test_embed_says_what_it_cuts_off_and_overwrites_nothing_unasked(command, trained, tmp_path):
    texts = tmp_path / "texts.txt"
    texts.write_text("a dog\n" + "dog " * 1000 + "\n" + "dog " * 1001 + "\n\n" + "dog " * 1002)
    code, _, err = command("embed", trained, texts, "--out", tmp_path / "v.npy")
    assert (code, err) == (0, f"{texts}:3: cut off after 1,000 tokens (max_length of the run); 2 lines in all\n")
    vectors = np.load(tmp_path / "v.npy")
    np.testing.assert_array_equal(vectors[1], vectors[2])
    code, out, err = command("embed", trained, texts)
    assert (code, out, "--out" in err, len(err.splitlines())) == (2, "", True, 1)
    assert command("embed", trained, "--out", tmp_path / "v.npy", given=b"a dog\n")[2] == ""


@pytest.mark.parametrize("to", ["", " "])
def test_similar_to_nothing(command, trained, to):
    code, out, err = command("similar", trained, "--to", to, given=b"a dog\n")
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert "--to: there is nothing in it; give a text" in err


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


@pytest.mark.parametrize("wrong", ["abc", "nan", "1.5x"])
def test_one_bad_score_does_not_make_classes(settings, files, tmp_path, wrong):
    head, first, *rows = (files / "score.tsv").read_text().splitlines()
    path = tmp_path / "train.tsv"
    path.write_text("\n".join([head, first, first.rpartition("\t")[0] + f"\t{wrong}", *rows]))
    with pytest.raises(DataError, match=f"train.tsv:3: the score '{wrong}' is not a number; .* target to class"):
        SentenceEncoder.prepare(settings(train=path))
    model, _ = SentenceEncoder.prepare(settings(train=path, target="class"))
    assert wrong in model.judgement.classes
    half = [row.rpartition("\t")[0] + "\tother" for row in rows]
    path.write_text("\n".join([head, first, *half]))
    assert SentenceEncoder.prepare(settings(train=path, dev=None))[0].judgement.classes[1] == "other"


def test_scores_out_of_range(settings, files, tmp_path):
    """Trained on 1.5 to 4.5, a model knows the levels 1 to 5."""
    model, _ = SentenceEncoder.prepare(settings())
    head, row, *_ = (files / "score.tsv").read_text().splitlines()
    path = tmp_path / "dev.tsv"
    for score in ("99", "5.01", "0.9"):
        rows = [row.rpartition("\t")[0] + f"\t{other}" for other in ("1", "5.0", score)]
        path.write_text("\n".join([head, *rows]))
        said = f"dev.tsv:4: the score {score} is not from 1 to 5, as those trained on are; "
        with pytest.raises(DataError, match=said):
            model.evaluate(path)
        with pytest.raises(DataError, match=said):
            SentenceEncoder.prepare(settings(dev=path))
    wider = SentenceEncoder(model.settings, model.vocabulary, Judgement([], 0.5, 4.5))
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
