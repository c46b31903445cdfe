"""The classifier: its loss by hand, texts that do not feel their neighbours, runs end to end, and bad files."""

import json
import math
import random
from dataclasses import replace

import pytest
import torch

import carousel
from carousel.cells import registry
from carousel.data import UNK, Vocabulary
from carousel.data.sources.tables import Table
from carousel.data.stores.examples import collate
from carousel.errors import DataError, SettingsError
from carousel.tasks.classify.settings import ClassifySettings
from carousel.tasks.classify.task import Classify
from carousel.training import trainer

WORDS = ["the", "a", "film", "scene", "plot", "actor", "was", "is", "rather", "quite"]
TELLING = {"good": ["warm", "funny", "fine"], "bad": ["dull", "flat", "endless"]}


def write_reviews(path, count, seed):
    """Texts in which one word tells the class."""
    draw = random.Random(seed)
    rows = []
    for k in range(count):
        label = ("good", "bad")[k % 2]
        words = [draw.choice(WORDS) for _ in range(draw.randint(0, 6))]
        words.insert(draw.randint(0, len(words)), draw.choice(TELLING[label]))
        rows.append(f"{' '.join(words)}\t{label}\n")
    path.write_text("".join(rows), "utf-8")


@pytest.fixture(scope="session")
def reviews(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reviews")
    write_reviews(folder / "train.tsv", 96, seed=1)
    write_reviews(folder / "dev.tsv", 30, seed=2)
    return folder


@pytest.fixture
def settings(reviews, tmp_path):
    def make(**given):
        small = {"hidden": 8, "embedding": 8, "epochs": 2, "lr": 0.02, "batch_size": 8, "log_steps": 3}
        files = {"train": reviews / "train.tsv", "dev": reviews / "dev.tsv", "cache": tmp_path / "cache"}
        return ClassifySettings.read({**files, **small, **given})

    return make


@pytest.fixture(scope="session")
def trained(reviews, tmp_path_factory):
    """A run that has learned which words tell.

    One epoch: of several with the same metric the first is kept, before the learning is complete.
    """
    folder = tmp_path_factory.mktemp("runs")
    write_reviews(folder / "train.tsv", 960, seed=1)
    given = {"hidden": 8, "embedding": 8, "epochs": 1, "lr": 0.02, "batch_size": 8, "max_length": 1000}
    files = {"train": folder / "train.tsv", "dev": reviews / "dev.tsv", "cache": folder / "cache"}
    trainer.train(Classify, ClassifySettings.read({**files, **given}), folder / "run", quiet=True)
    return folder / "run"


def new_model(settings):
    """A model that has not been trained, and its data."""
    assets, data = Classify.prepare(settings)
    return Classify.make_model(Classify.make_network(settings, assets), assets), data


def batch_of(model, texts, labels=None):
    batch = collate(model.encoder(texts)[0])
    if labels is None:
        return batch
    return type(batch)(batch.tokens, batch.lengths, torch.tensor(labels), batch.rows)


# ---------------------------------------------------------------- the network


@pytest.mark.parametrize("pooling", ["last", "mean", "max", "attention"])
@pytest.mark.parametrize("cell", registry())
def test_texts_do_not_feel_their_neighbours(settings, cell, pooling):
    model, _ = new_model(settings(cell=cell, pooling=pooling, bidirectional=cell != "rnn"))
    model.network.eval()
    texts = ["warm", "the film was rather dull is a plot", "unseen words here", "the plot"]
    together = batch_of(model, texts)
    scores = model.network.scores(together)
    longer = torch.cat((together.tokens, torch.full((3, len(texts)), 7)))  # rubbish past the end
    torch.testing.assert_close(model.network.scores(replace(together, tokens=longer)), scores)
    for k, text in enumerate(texts):
        alone = batch_of(model, [text])
        torch.testing.assert_close(model.network.scores(alone)[0], scores[k])


def test_the_loss_by_hand(settings):
    model, _ = new_model(settings(class_weights="bad=3,good=0.5", label_smoothing=0.1))
    assert model.labels == ["bad", "good"]
    batch = batch_of(model, ["warm film", "dull"], [1, 0])
    model.network.eval()
    scores = model.network.scores(batch).tolist()

    def cross_entropy(row, label):
        total = math.log(sum(math.exp(score) for score in row))
        shares = [0.05, 0.05]
        shares[label] += 0.9
        return sum(share * (total - score) for share, score in zip(shares, row, strict=True))

    expected = (0.5 * cross_entropy(scores[0], 1) + 3 * cross_entropy(scores[1], 0)) / 2
    loss = model.network.loss(batch)
    assert loss.mean.item() == pytest.approx(expected, rel=1e-5)
    assert loss.weight == 2


def test_class_weights(settings, tmp_path):
    uneven = tmp_path / "uneven.tsv"
    uneven.write_text("a\tx\nb\tx\nc\tx\nd\ty\n")
    model, _ = new_model(settings(train=uneven, dev=None, class_weights="balanced"))
    assert model.network.weights.tolist() == pytest.approx([4 / (2 * 3), 4 / (2 * 1)])
    assert "weights" not in model.network.state_dict()
    for wrong in ("even", "x=1", "x=1,y=two", "x=1,y=2,z=3", "x=1,y=-1"):
        with pytest.raises(SettingsError, match=r"class_weights: write none, balanced or x=1,y=1; got"):
            new_model(settings(train=uneven, dev=None, class_weights=wrong))


def test_words_are_hidden_in_training_alone(settings):
    model, _ = new_model(settings(word_dropout=0.5, dropout=0))
    words = torch.arange(4, 20).unsqueeze(1).repeat(1, 50)
    words[10:] = 0
    unknown = model.network.embedder.embedder.weight[UNK]
    model.network.train()
    hidden = (model.network.embedder(words) == unknown).all(2)
    assert 0.3 < hidden[:10].float().mean() < 0.7
    assert not hidden[10:].any()
    assert not (model.network.eval().embedder(words) == unknown).all(2).any()


def test_given_vectors(settings, tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("warm 1 2 3\nfilm 4 5 6\nwhatever 7 8 9\n")
    model, data = new_model(settings(vectors=path, embedding=3, freeze_vectors=True))
    weight = model.network.embedder.embedder.weight
    assert weight[model.vocabulary.id("warm")].tolist() == [1, 2, 3]
    assert weight[0].tolist() == [0, 0, 0]
    assert not weight.requires_grad
    assert f": 2 of {len(model.vocabulary)} tokens have one; " in data.info["word vectors"]
    with pytest.raises(DataError, match="its vectors have 3 numbers, but embedding is 8; set embedding to 3"):
        new_model(settings(vectors=path))


def test_defaults_with_vectors_unless_others_are_given(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("warm 1 2 3\n")
    given = {"train": path, "vectors": path}
    one = Classify.Settings.read(given)
    assert (one.epochs, one.beta2, one.embedding) == (8, 0.95, 3) and not one.unused
    assert Classify.Settings.read({"train": path}).beta2 == 0.999
    assert Classify.Settings.read({**given, "beta2": 0.9}).beta2 == 0.9
    assert not Classify.Settings.read({**given, "optimizer": "sgd"}).unused


@pytest.mark.parametrize("tokens", ["character", "bpe"])
def test_other_tokens(settings, tokens):
    model, _ = new_model(settings(tokens=tokens, lower=True))
    assert isinstance(model.vocabulary, Vocabulary)
    assert model.predict("WARM").probabilities == model.predict("warm").probabilities


def test_a_blank_text_alone(settings):
    model, _ = new_model(settings())
    assert model.predict("").label is None


def test_more_examples_to_train_on(settings, tmp_path):
    extra = tmp_path / "phrases.tsv"
    extra.write_text("splendid\tgood\ntedious\tbad\n")
    model, data = new_model(settings(extra=extra))
    assert "splendid" in model.vocabulary
    assert len(data.train.store) == 98
    extra.write_text("splendid\tgood\nmiddling\tneutral\n")
    with pytest.raises(DataError, match=r"phrases.tsv:2: the label 'neutral' is not in the training data"):
        new_model(settings(extra=extra))


# ---------------------------------------------------------------- runs


@pytest.mark.learning
def test_it_learns_and_says_so(trained, reviews, capsys, reached):
    model = carousel.load(trained)
    found = model.evaluate(reviews / "dev.tsv")
    assert found["accuracy"] == found["macro_f1"] == 1
    assert found["confusion"] == {"bad": {"bad": 15, "good": 0}, "good": {"bad": 0, "good": 15}}
    assert found["classes"]["bad"] == {"precision": 1, "recall": 1, "f1": 1, "count": 15}
    said = model.predict(["a warm film", "", "the plot was dull"])
    assert [one.label for one in said] == ["good", None, "bad"]
    reached("confidence", min(said[0].confidence, said[2].confidence), above=0.75)
    assert [line.split()[0] for line in repr(said).splitlines()] == ["good", "None", "bad"]
    assert sum(said[0].probabilities.values()) == pytest.approx(1)
    assert repr(model.predict("a warm film")).startswith("good ")
    page = (trained / "report.html").read_text("utf-8")
    assert "Confusion matrix (rows: true, columns: predicted)" in page
    assert "heatmap" in page


def test_a_run_goes_on_where_it_was_killed(settings, goes_on):
    noisy = settings(word_dropout=0.2, recurrent_dropout=0.2, average=0.9, schedule="cosine", pooling="attention")
    goes_on(Classify, noisy)


# ---------------------------------------------------------------- the command line


@pytest.mark.learning
def test_predict(command, trained, tmp_path):
    text = b"a warm film\n\nthe plot was dull\n"
    code, out, _ = command("predict", trained, given=text)
    assert code == 0
    head, *rows = (line.split("\t") for line in out.splitlines())
    assert head == ["label", "confidence", "text"]
    assert [(row[0], row[2]) for row in rows] == [("good", "a warm film"), ("", ""), ("bad", "the plot was dull")]
    assert 0.5 < float(rows[0][1]) <= 1
    raw = tmp_path / "raw.txt"
    raw.write_bytes(text)
    code, out, _ = command("predict", trained, raw, "--out", tmp_path / "said.jsonl")
    said = [json.loads(line) for line in (tmp_path / "said.jsonl").read_text().splitlines()]
    assert (code, out) == (0, "")
    assert [one["label"] for one in said] == ["good", None, "bad"]
    assert said[0]["probabilities"].keys() == {"bad", "good"}


def test_predict_says_what_it_cuts_off(command, trained, tmp_path):
    raw = tmp_path / "raw.txt"
    long = "film " * 1000
    raw.write_text(f"a warm film\n{long}\n\n{long}warm\n{long}flat\n{long}dull\n")
    code, out, err = command("predict", trained, raw, "--json")
    said = [json.loads(line) for line in out.splitlines()]
    assert (code, [one["cut"] for one in said]) == (0, [False, False, False, True, True, True])
    assert said[1]["probabilities"] == said[3]["probabilities"] == said[4]["probabilities"]
    assert err == f"{raw}:4: cut off after 1,000 tokens (max_length of the run); 3 lines in all\n"
    code, out, err = command("predict", trained, tmp_path / "no.txt")
    assert (code, out) == (1, "") and "no such file" in err  # not even the names of the columns
    code, _, err = command("predict", trained, given=f"{long}warm\n".encode())
    assert (code, err) == (0, "standard input:1: cut off after 1,000 tokens (max_length of the run)\n")
    assert command("predict", trained, given=long.encode())[2] == ""


def test_predict_reads_tables_as_training_does(command, trained, reviews, tmp_path):
    """With header and labels, in another format, without labels, without header: the same texts, the same labels."""
    rows = [(row.text, row.label) for row in Table(reviews / "dev.tsv")]
    expected = command("predict", trained, given="".join(f"{text}\n" for text, _ in rows).encode())[1]
    assert len(expected.splitlines()) == len(rows) + 1
    assert command("predict", trained, reviews / "dev.tsv") == (0, expected, "")
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text, _ in rows))
    (tmp_path / "a.CSV").write_text("id,label,text\n" + "".join(f'1,{label},"{text}"\n' for text, label in rows))
    (tmp_path / "a.tsv").write_text("".join(f"{text}\n" for text, _ in rows))
    (tmp_path / "b.tsv").write_text("text\n" + "".join(f"{text}\n" for text, _ in rows))
    (tmp_path / "c.tsv").write_text("".join(f"{text}\t\n" for text, _ in rows))
    for name in ("a.jsonl", "a.CSV", "a.tsv", "b.tsv", "c.tsv"):
        assert command("predict", trained, tmp_path / name) == (0, expected, ""), name
    (tmp_path / "long.tsv").write_text("text\nfilm\n" + "film " * 1001 + "\n")
    _, _, err = command("predict", trained, tmp_path / "long.tsv")
    assert err == f"{tmp_path / 'long.tsv'}: row 2: cut off after 1,000 tokens (max_length of the run)\n"
    (tmp_path / "wide.tsv").write_text("a\tb\tc\n")
    code, _, err = command("predict", trained, tmp_path / "wide.tsv")
    assert (code, len(err.splitlines())) == (1, 1)
    assert "wide.tsv:1: 3 columns, and it is not clear which is the text" in err


def test_predict_does_not_replace_what_it_reads(command, trained, tmp_path):
    raw, link = tmp_path / "raw.txt", tmp_path / "link.txt"
    raw.write_text("a warm film\n")
    link.symlink_to(raw)
    for out in (raw, link, tmp_path / "." / "raw.txt"):
        code, _, err = command("predict", trained, raw, "--out", out)
        assert (code, len(err.splitlines())) == (2, 1)
        assert f"--out: {out} is read from; give another name" in err
    assert raw.read_text() == "a warm film\n"


@pytest.mark.learning
def test_eval(command, trained, reviews):
    code, out, _ = command("eval", trained, reviews / "dev.tsv")
    assert code == 0
    assert ["accuracy", "1.0000"] in [line.split() for line in out.splitlines()]
    assert ["bad", "15", "0"] in [line.split() for line in out.splitlines()]
    _, out, _ = command("eval", trained, reviews / "dev.tsv", "--json")
    assert json.loads(out)["classes"]["good"]["f1"] == 1


def test_check(command, reviews, tmp_path):
    (tmp_path / "train.tsv").write_text("dull film\tbad\n" * 30 + "dull film\tgood\nfine\tgood\n")
    (tmp_path / "dev.tsv").write_text("dull film\tbad\nother\tugly\n")
    code, out, _ = command("check", tmp_path / "train.tsv", "--dev", tmp_path / "dev.tsv", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["train"]["labels"] == {"bad": 30, "good": 2}
    assert (found["train"]["repeated"], found["train"]["contradictory"], found["shared"]) == (30, 1, 1)
    assert (found["train"]["tokens"], found["dev"]["unknown"]) == (63, 1)
    told = " ".join(found["warnings"])
    for part in ("uneven", "another label", "does not have: ugly", "are in", "unknown"):
        assert part in told
    (tmp_path / "more.tsv").write_text("other\tbad\nodd\tquaint\nodd\tgood\n")
    more = ("--set", f"extra={tmp_path / 'more.tsv'}")
    code, out, _ = command("check", tmp_path / "train.tsv", "--dev", tmp_path / "dev.tsv", *more, "--json")
    found = json.loads(out)
    assert (code, found["extra"]["texts"], found["shared"], found["dev"]["unknown"]) == (0, 3, 2, 0)
    told = "\n".join(found["warnings"])
    assert f"more.tsv: labels that {tmp_path / 'train.tsv'} does not have: quaint" in told
    assert "more.tsv: 1 text repeats an earlier one with another label" in told
    assert f"dev.tsv: 2 of 2 texts are in {tmp_path / 'train.tsv'} or {tmp_path / 'more.tsv'} too" in told
    code, out, _ = command("check", tmp_path / "train.tsv", *more)
    assert (code, "label quaint" in out) == (0, True)
    code, out, _ = command("check", reviews / "train.tsv", "--dev", reviews / "dev.tsv")
    assert code == 0
    assert "label good" in out


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


def test_a_very_long_text_is_cut_off_and_said(settings, reviews, tmp_path):
    path = tmp_path / "long.tsv"
    path.write_text((reviews / "train.tsv").read_text() + "warm " * 100_000 + "\tgood\n")
    _, data = new_model(settings(train=path, max_length=50))
    assert data.notes == [f"{path}: 1 text is cut off after 50 tokens (max_length)"]
    assert max(batch.tokens.shape[0] for batch in data.train) == 50
