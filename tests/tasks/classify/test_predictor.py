"""The classifier: its loss by hand, texts that do not feel their neighbours, runs end to end, and bad files."""

import json
from dataclasses import replace

import pytest
import torch
from helpers.classifiers import batch_of, new_model

import carousel
from carousel.cells import registry
from carousel.data.sources.tables import Table
from carousel.data.text.form import TextForm
from carousel.tasks.classify.task import Classify

WORDS = ["the", "a", "film", "scene", "plot", "actor", "was", "is", "rather", "quite"]
TELLING = {"good": ["warm", "funny", "fine"], "bad": ["dull", "flat", "endless"]}


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


def test_a_blank_text_alone(settings):
    model, _ = new_model(settings())
    assert model.predict("").label is None


# ---------------------------------------------------------------- runs


def test_a_text_without_known_marks_is_unknown_words(settings, tmp_path):
    """`predict` and `eval` give it the same label."""
    model, _ = new_model(settings())
    form = TextForm(tokenized=True, split=True, marks=frozenset([".", ","]))
    model.assets.form = model.encoder.form = form
    (tmp_path / "marks.tsv").write_text(f"😀😀\t{model.labels[0]}\nfilm\t{model.labels[1]}\n")
    label = model.predict("😀😀").label
    confusion = model.evaluate(tmp_path / "marks.tsv")["confusion"]
    assert label is not None and confusion[model.labels[0]] == {name: int(name == label) for name in model.labels}


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


def test_a_prediction_is_one_row(command, trained, tmp_path):
    """Whatever would begin another cell or line in a text of JSON is shown as a space."""
    texts = ["a warm\nfilm", "a dull\tfilm", "the\r\nplot\u2028was\x85dull"]
    file = tmp_path / "t.jsonl"
    file.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    code, out, _ = command("predict", trained, file)
    rows = [row.split("\t") for row in out.splitlines()]
    assert (code, len(rows)) == (0, 4) and all(len(row) == 3 for row in rows)
    assert [row[2] for row in rows[1:]] == ["a warm film", "a dull film", "the  plot was dull"]
    plain = [json.loads(line)["text"] for line in command("predict", trained, file, "--json")[1].split("\n")[:-1]]
    assert plain == texts


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


def test_a_very_long_text_is_cut_off_and_said(settings, reviews, tmp_path):
    path = tmp_path / "long.tsv"
    path.write_text((reviews / "train.tsv").read_text() + "warm " * 100_000 + "\tgood\n")
    _, data = new_model(settings(train=path, max_length=50))
    assert data.notes == [f"{path}: 1 text is cut off after 50 tokens (max_length)"]
    assert max(batch.tokens.shape[0] for batch in data.train) == 50
