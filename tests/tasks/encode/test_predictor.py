"""The sentence encoder in use: vectors that do not depend on their neighbours, runs end to end, the command line."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from helpers.untrained import new_model

import carousel
from carousel.errors import ArgumentError
from carousel.tasks.encode.task import Encode


@pytest.mark.parametrize("pooling", ["max", "mean", "last", "attention"])
def test_vectors_do_not_feel_their_neighbours(settings, pooling):
    model, _ = new_model(Encode, settings(pooling=pooling))
    texts = ["the dog", "", "the cat runs and sings and runs and sleeps now", "a girl"]
    together = model.embed(texts)
    assert together.shape == (4, 16)
    for text, vector in zip(texts, together, strict=True):
        np.testing.assert_allclose(model.embed(text), vector, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.concatenate(list(model.vectors(texts, batch_size=1))), together, rtol=1e-5, atol=1e-6)
    assert not together[1].any()


def test_one_pair_is_two_texts_or_a_tuple(settings):
    model, _ = new_model(Encode, settings())
    pair = ("the dog runs", "a cat")
    assert model.predict(pair) == model.predict(*pair) == model.predict([pair])[0]
    with pytest.raises(ArgumentError, match=r"item 1 is not of the form .*: 'the dog runs'; give a list of pairs"):
        model.predict(list(pair))


@pytest.mark.learning
def test_it_learns(trained, reached):
    model = carousel.load(trained)
    found = model.evaluate(model.settings.dev)
    if trained.name == "score":
        reached("pearson", found["pearson"], above=0.8)
        assert (
            model.predict("the dog runs", "the dog runs now").score
            > model.predict("the dog runs", "the cat sings").score
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
    goes_on(Encode, noisy)


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
    assert found == (0, "1.0000\tthe dog runs\n", "the 1 most similar of 2 texts; more with -n\n")
    code, out, err = command("similar", trained, "--to", "the dog runs", given=given)
    assert (code, len(out.splitlines()), err) == (0, 2, "")
    code, _, err = command("embed", trained, "--out", tmp_path / "v.txt", given=texts)
    assert (code, "ends in .npy or .parquet" in err) == (2, True)


def test_vectors_of_the_texts_of_a_table(command, trained, files, tmp_path):
    """A column of texts, a vector for each row; lines of a table were encoded whole, header and scores and all."""
    table, out = files / f"{trained.name}-dev.tsv", tmp_path / "v.npy"
    code, _, err = command("embed", trained, table, "--out", out)
    assert (code, "4 columns, and it is not clear which is the text; choose it with --text-column" in err) == (1, True)
    texts = [line.split("\t")[2] for line in table.read_text().splitlines()[1:]]
    for column in ("sentence_B", "3"):
        assert command("embed", trained, table, "--text-column", column, "--out", out)[0] == 0
        np.testing.assert_array_equal(np.load(out), carousel.load(trained).embed(texts))
    (tmp_path / "t.jsonl").write_text('{"text": "the dog runs"}\n{"text": null}\n{"text": "a cat"}\n')
    assert "3 vectors" in command("embed", trained, tmp_path / "t.jsonl", "--out", out)[1]
    assert not np.load(out)[1].any()
    found = command("similar", trained, tmp_path / "t.jsonl", "--to", "the dog runs")[1].splitlines()
    assert found[0] == "1.0000\tthe dog runs" and len(found) == 2
    code, _, err = command("similar", trained, "--text-column", "3", "--to", "a", given=b"a\n")
    assert (code, "--text-column: it applies to tables" in err.replace("'", "")) == (2, True)


def test_a_pair_with_a_blank_text_has_its_place(command, trained):
    given = b"the dog runs\tthe cat sings\n\na\t\n"
    code, out, _ = command("predict", trained, given=given)
    rows = [line.split("\t") for line in out.split("\n")[1:-1]]
    assert code == 0 and [row[0] != "" for row in rows] == [True, False, False] and rows[2][-2:] == ["a", ""]
    exact = [json.loads(line) for line in command("predict", trained, "--json", given=given)[1].splitlines()]
    assert exact[1]["score" if trained.name == "score" else "label"] is None


@pytest.mark.parametrize("texts, said", [("abc", "texts: give a list of texts, got one text"), ([1], "texts: item 1")])
def test_similar_takes_a_list_of_texts(settings, texts, said):
    model, _ = new_model(Encode, settings())
    with pytest.raises(ArgumentError, match=said):
        model.similar("a", texts)
    assert len(model.similar("the dog", ["the dog", "a cat"], n=1)) == 1


def test_predict_and_check(command, trained, files):
    code, out, _ = command("predict", trained, given=b"the dog runs\tthe dog runs now\n")
    assert code == 0
    header, row = (line.split("\t") for line in out.splitlines())
    (exact,) = map(
        json.loads, command("predict", trained, "--json", given=b"the dog runs\tthe dog runs now\n")[1].splitlines()
    )
    said = carousel.load(trained).predict("the dog runs", "the dog runs now")
    assert [exact[name] for name in header] == [getattr(said, name) for name in header]
    if trained.name == "score":
        assert header == ["score", "first", "second"] and "confidence" not in exact and "probabilities" not in exact
    else:
        assert header == ["label", "confidence", "first", "second"]
        assert float(row[1]) == max(exact["probabilities"].values()) == exact["probabilities"][row[0]]
    long = b"dog " * 1001
    code, out, err = command("predict", trained, "--json", given=b"a\tb\na\t%b\n%b\tb\n" % (long, long))
    assert (code, [json.loads(line)["cut"] for line in out.splitlines()]) == (0, [False, True, True])
    assert err == "standard input:2: cut off after 1,000 tokens (max_length of the run); 2 lines in all\n"
    code, _, err = command("predict", trained, given=b"the dog runs\n")
    assert (code, "standard input:1: one text only; put a tab between" in err) == (1, True)
    code, _, err = command("predict", trained, given=b"a\tb\na\tb\t3.5\n")
    assert (code, len(err.splitlines())) == (1, 1)
    assert "standard input:2: 3 texts with tabs between, where a pair has two; put one tab" in err
    code, out, _ = command("check", "encode", files / "score.tsv", "--json")
    assert (code, json.loads(out)["train"]["texts"]) == (0, 160)
    table = command("check", "encode", files / "score.tsv")[1]
    assert "score about" in table and " pairs " in table and "│ label" not in table


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
    assert "--to: the text is empty; give one" in err
