"""The tagger in use: sentences that do not depend on their neighbours, runs end to end, the command line."""

import itertools
import json

import pytest
import torch
from helpers.untrained import new_model

import carousel
from carousel.cells import registry
from carousel.data.sources.conll import Conll
from carousel.data.text.tags import illegal, spans
from carousel.tasks.tag.predictor import batches_by_length
from carousel.tasks.tag.task import Tag


@pytest.mark.parametrize("cell", list(registry()))
@pytest.mark.parametrize("characters", ["rnn", "cnn", "none"])
def test_neighbours_in_the_batch_change_nothing(settings, cell, characters):
    model, _ = new_model(Tag, settings(cell=cell, characters=characters, layers=2))
    sentences = ["Ada met Alan in Paris", "Rome", "", "the slowly Xyzzy saw a near Grace"]
    together = model.predict(sentences, n_best=2)
    for one, found in zip(sentences, together, strict=True):
        alone = model.predict(one, n_best=2)
        assert alone.taggings == found.taggings
        assert alone.confidences == pytest.approx(found.confidences, abs=1e-5)
        assert alone.log_probs == pytest.approx(found.log_probs, abs=1e-4)


def test_a_crf_never_says_what_is_illegal(settings):
    """Untrained, with scores that make illegal tags attractive."""
    model, _ = new_model(Tag, settings(output="crf"))
    torch.nn.init.normal_(model.network.output.bias, std=20)
    for found in model.predict(["Ada met Alan", "Rome", "the slowly Xyzzy saw"], n_best=4):
        for tags in found.taggings:
            assert illegal(tags, "iob2") == []


def test_n_best_is_a_count(settings):
    model, _ = new_model(Tag, settings())
    with pytest.raises(carousel.CarouselError, match="n_best must be a whole number from 1 up, got 0"):
        model.predict("Rome", n_best=0)


@pytest.mark.parametrize("output", ["softmax", "crf"])
def test_n_best_probabilities_and_confidences(settings, output):
    model, _ = new_model(Tag, settings(output=output))
    found = model.predict("Ada met", n_best=1000)
    probabilities = torch.tensor(found.log_probs).exp()
    assert probabilities.sum().item() == pytest.approx(1, abs=1e-4)
    assert (probabilities.diff() <= 1e-9).all()
    if output == "crf":  # a word's confidence is the share of the taggings that agree on it
        first = [p.item() for p, tags in zip(probabilities, found.taggings, strict=True) if tags[0] == found.tags[0]]
        assert found.confidences[0] <= sum(first) + 1e-4


def test_a_hundred_thousand_words_at_once(settings):
    model, _ = new_model(Tag, settings(output="softmax", characters="cnn"))
    found = model.predict([["Ada"] * 100_000, ["Rome"]])
    assert [len(one.tags) for one in found] == [100_000, 1]


def test_batches_of_similar_length():
    lengths = [3, 40_000, 5, 0, 30_000]
    parts = list(batches_by_length(lengths))
    assert sorted(itertools.chain(*parts)) == [0, 1, 2, 3, 4]
    assert [1] in parts and [4] in parts


@pytest.mark.learning
def test_a_run_learns_and_is_used(trained, names, reached):
    model = carousel.load(trained)
    assert model.network.metric().best == "span_f1"
    found = model.evaluate(names / "dev.conll")
    reached("span F1", found["span_f1"], above=0.8)
    reached("accuracy", found["accuracy"], above=0.9)
    assert found["spans"]["all"]["f1"] == found["span_f1"]
    assert found["sentences"] == 30 and found["words"] == sum(sum(row.values()) for row in found["confusion"].values())
    assert list(found["confusion"]) == ["O", *list(found["spans"])[:-1]] and "tags" not in found  # types, not parts
    assert json.loads((trained / "result.json").read_text())["dev_span_f1"] == pytest.approx(found["span_f1"])
    one = model.predict("Ada saw Rome")
    assert repr(one) == "[Ada]PER saw [Rome]LOC"
    assert one.tags == ["B-PER", "O", "B-LOC"]  # as in the file, though trained as BIOES
    assert repr(model.predict(["Ada saw", ["the", "Rome"]])) == "[Ada]PER saw\nthe [Rome]LOC"


def test_words_unseen_in_training(trained, tmp_path):
    path = tmp_path / "test.conll"
    path.write_text("Ada\tB-PER\nsaw\tO\nzebras\tO\nSAW\tO\n")
    found = carousel.load(trained).evaluate(path)
    assert found["unseen"] == 2  # zebras, and SAW as it stands there
    assert 0 <= found["accuracy_unseen"] <= 1


def test_every_word_of_raw_text_is_tagged_in_its_own_spelling(trained, command):
    text = "Hi 😀 it’s “Ada”…"
    model = carousel.load(trained)
    words = ["Hi", "😀", "it", "’s", "“", "Ada", "”", "…"]
    tagged = model.predict([text, "😀", ""])
    assert [one.words for one in tagged] == [words, ["😀"], []]
    assert [len(one.tags) for one in tagged] == [8, 1, 0]
    code, out, _ = command("predict", trained, given=text + "\n")
    assert code == 0 and [line.split("\t")[0] for line in out.splitlines() if line] == words
    assert json.loads(command("predict", trained, "--json", given=text + "\n")[1])["words"] == words


def test_spans_of_a_prediction(trained):
    found = carousel.load(trained).predict("Ada Alan saw")
    assert found.spans == spans(found.tags)
    assert found.as_dict()["words"] == ["Ada", "Alan", "saw"]


@pytest.mark.parametrize("output", ["softmax", "crf"])
def test_a_run_goes_on_where_it_was_killed(settings, goes_on, output):
    goes_on(Tag, settings(output=output))


@pytest.mark.learning
def test_command_line(trained, names, command, tmp_path):
    code, out, _ = command("eval", trained, names / "dev.conll", "--json")
    assert code == 0 and json.loads(out)["span_f1"] > 0.8
    code, out, _ = command("eval", trained, names / "dev.conll")
    assert code == 0 and "accuracy unseen" in out and "PER" in out
    code, out, _ = command("predict", trained, given="Ada saw\n\nRome\n")
    rows = [line.split("\t")[:2] for line in out.splitlines()]
    assert code == 0 and rows == [["Ada", "B-PER"], ["saw", "O"], [""], [""], ["Rome", "B-LOC"], [""]]
    untagged = tmp_path / "untagged.conll"
    untagged.write_text("Ada\nsaw\n\nRome\n")
    code, out, _ = command("predict", trained, untagged, "--n-best", 2)
    first = out.splitlines()[0].split("\t")
    assert code == 0 and first[:2] == ["Ada", "B-PER"] and 0 < float(first[2]) <= 1 and len(first) == 4
    code, _, _ = command("predict", trained, untagged, "--out", tmp_path / "said.jsonl")
    said = [json.loads(line) for line in (tmp_path / "said.jsonl").read_text().splitlines()]
    assert [one["tags"] for one in said] == [["B-PER", "O"], ["B-LOC"]]
    assert said[0]["spans"] == [{"type": "PER", "start": 0, "end": 1, "text": "Ada"}]
    code, out, _ = command("check", names / "train.conll", "--dev", names / "dev.conll", "--json")
    assert code == 0 and json.loads(out)["scheme"] == "iob2" and json.loads(out)["train"]["sentences"] == 80


def test_what_is_predicted_can_be_read_again(trained, tmp_path, command):
    lines = tmp_path / "lines.txt"
    lines.write_text("Ada saw Rome\nGrace\n")
    command("predict", trained, lines, "--out", tmp_path / "said.conll")
    sentences = list(Conll(tmp_path / "said.conll", "2"))
    assert [s.words for s in sentences] == [["Ada", "saw", "Rome"], ["Grace"]]
