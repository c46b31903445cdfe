"""The tagger: its loss by hand, sentences that do not feel their neighbours, runs end to end, and bad files."""

import io
import itertools
import json
import random
import shutil
import sys

import pytest
import torch
import torch.nn.functional as F

import carousel
from carousel.cells import registry
from carousel.cli import main as cli
from carousel.data.stores.examples import NO_LABEL, ExampleBatches
from carousel.data.text.tags import convert, illegal, spans
from carousel.data.text.words import LONGEST
from carousel.errors import DataError, SettingsError
from carousel.tasks.tag.examples import Lexicon, complaints
from carousel.tasks.tag.model import Tagger, TagSettings, _parts
from carousel.training import trainer

NAMES, PLACES, OTHER = ["Ada", "Alan", "Grace"], ["Paris", "Rome"], ["saw", "the", "a", "met", "in", "near", "slowly"]


def write_names(path, count, seed, scheme="iob2"):
    """Sentences with names of one or two words, which the words tell."""
    draw = random.Random(seed)
    lines = []
    for _ in range(count):
        words, tags, kind = [], [], None
        for _ in range(draw.randint(1, 4)):
            kind = draw.choice([other for other in ("PER", "LOC", "O") if other != kind])
            span = [draw.choice({"PER": NAMES, "LOC": PLACES, "O": OTHER}[kind]) for _ in range(draw.randint(1, 2))]
            words += span
            tags += ["O"] * len(span) if kind == "O" else [f"B-{kind}"] + [f"I-{kind}"] * (len(span) - 1)
        lines += [f"{word}\t{tag}\n" for word, tag in zip(words, convert(tags, scheme), strict=True)] + ["\n"]
    path.write_text("".join(lines), "utf-8")


@pytest.fixture(scope="session")
def names(tmp_path_factory):
    folder = tmp_path_factory.mktemp("names")
    write_names(folder / "train.conll", 80, seed=1)
    write_names(folder / "dev.conll", 30, seed=2)
    return folder


SMALL = {
    "hidden": 12, "embedding": 8, "character_embedding": 4, "character_hidden": 4, "batch_size": 8, "lr": 0.03,
    "epochs": 2, "log_steps": 3, "min_frequency": 1, "dropout": 0.1,
}  # fmt: skip


@pytest.fixture
def settings(names, tmp_path):
    def make(**given):
        files = {"train": names / "train.conll", "dev": names / "dev.conll", "cache": tmp_path / "cache"}
        return TagSettings.read({**files, **SMALL, **given})

    return make


@pytest.fixture(scope="session")
def trained(names, tmp_path_factory):
    """A run that has learned which words are names.

    One epoch: of several with the same metric the first is kept, before the learning is complete.
    """
    folder = tmp_path_factory.mktemp("runs")
    write_names(folder / "train.conll", 960, seed=1)
    files = {"train": folder / "train.conll", "dev": names / "dev.conll", "cache": folder / "cache"}
    given = {**files, **SMALL, "epochs": 1, "dropout": 0.0, "word_dropout": 0.0}
    return trainer.train(Tagger, TagSettings.read(given), folder / "run", quiet=True).folder


def batches(model, data):
    return ExampleBatches(data.train.store, sequences=4, shuffle=False)


def run(capsys, *args):
    """What the command line printed; its exit code and its error."""
    with pytest.raises(SystemExit) as stopped:
        cli.main([str(arg) for arg in args])
    told = capsys.readouterr()
    return stopped.value.code, told.out, told.err


# ---------------------------------------------------------------- the network


@pytest.mark.parametrize("output", ["softmax", "crf"])
def test_loss_by_hand(settings, output):
    model, data = Tagger.prepare(settings(output=output, train_scheme="iob2"))
    model.eval()
    batch = next(iter(batches(model, data)))
    loss = model.loss(batch)
    scores = model.output(model.read(batch)).detach()
    total = 0.0
    for b, length in enumerate(batch.lengths.tolist()):
        gold = batch.labels[:length, b]
        if output == "softmax":
            total += float(F.cross_entropy(scores[:length, b], gold, reduction="sum"))
        else:  # by all taggings of a short one
            short = min(length, 4)
            part = scores[:short, b : b + 1]
            transitions, start, end = (part.detach() for part in model.crf.scores())
            every = {}
            for tags in itertools.product(range(len(model.lexicon.tags)), repeat=short):
                score = start[tags[0]] + end[tags[-1]] + sum(part[t, 0, k] for t, k in enumerate(tags))
                every[tags] = score + sum(transitions[pair] for pair in itertools.pairwise(tags))
            expected = torch.logsumexp(torch.stack(list(every.values())), 0) - every[tuple(gold[:short].tolist())]
            torch.testing.assert_close(model.crf.loss(part, gold[:short, None])[0], expected, check_dtype=False)
            total += model.crf.loss(scores[:length, b : b + 1], gold[:, None]).item()
    assert loss.weight == int(batch.lengths.sum()) == int((batch.labels != NO_LABEL).sum())
    assert loss.mean.item() == pytest.approx(total / loss.weight, rel=1e-5)


@pytest.mark.parametrize("cell", list(registry()))
@pytest.mark.parametrize("characters", ["rnn", "cnn", "none"])
def test_neighbours_in_the_batch_change_nothing(settings, cell, characters):
    model, _ = Tagger.prepare(settings(cell=cell, characters=characters, layers=2))
    sentences = ["Ada met Alan in Paris", "Rome", "", "the slowly Xyzzy saw a near Grace"]
    together = model.predict(sentences, n_best=2)
    for one, found in zip(sentences, together, strict=True):
        alone = model.predict(one, n_best=2)
        assert alone.taggings == found.taggings
        assert alone.confidences == pytest.approx(found.confidences, abs=1e-5)
        assert alone.log_probs == pytest.approx(found.log_probs, abs=1e-4)


def test_a_crf_never_says_what_is_illegal(settings):
    """Untrained, with scores that make illegal tags attractive."""
    model, _ = Tagger.prepare(settings(output="crf"))
    torch.nn.init.normal_(model.output.bias, std=20)
    for found in model.predict(["Ada met Alan", "Rome", "the slowly Xyzzy saw"], n_best=4):
        for tags in found.taggings:
            assert illegal(tags, "iob2") == []


@pytest.mark.parametrize("output", ["softmax", "crf"])
def test_n_best_probabilities_and_confidences(settings, output):
    model, _ = Tagger.prepare(settings(output=output))
    found = model.predict("Ada met", n_best=1000)
    probabilities = torch.tensor(found.log_probs).exp()
    assert probabilities.sum().item() == pytest.approx(1, abs=1e-4)
    assert (probabilities.diff() <= 1e-9).all()
    if output == "crf":  # a word's confidence is the share of the taggings that agree on it
        first = [p.item() for p, tags in zip(probabilities, found.taggings, strict=True) if tags[0] == found.tags[0]]
        assert found.confidences[0] <= sum(first) + 1e-4


def test_plain_tags_take_a_softmax_and_spans_a_crf(settings, tmp_path):
    assert Tagger.prepare(settings())[0].crf is not None
    path = tmp_path / "pos.conll"
    path.write_text("a DET\ndog NOUN\n\n")
    model, _ = Tagger.prepare(settings(train=path, dev=None))
    assert model.crf is None and model.metric().best == "accuracy" and model.lexicon.tags == ["DET", "NOUN"]


# ---------------------------------------------------------------- runs


@pytest.mark.learning
def test_a_run_learns_and_is_used(trained, names, reached):
    model = carousel.load(trained)
    assert model.metric().best == "span_f1"
    found = model.evaluate(names / "dev.conll")
    reached("span F1", found["span_f1"], above=0.8)
    reached("accuracy", found["accuracy"], above=0.9)
    assert found["spans"]["all"]["f1"] == found["span_f1"]
    assert found["sentences"] == 30 and found["words"] == sum(sum(row.values()) for row in found["confusion"].values())
    assert list(found["confusion"]) == ["O", *list(found["spans"])[:-1]] and "tags" not in found  # types, not parts
    assert json.loads((trained / "result.json").read_text())["dev_span_f1"] == pytest.approx(found["span_f1"])
    assert "What is taken for what" in (trained / "report.html").read_text()
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


@pytest.mark.learning
def test_command_line(trained, names, capsys, monkeypatch, tmp_path):
    code, out, _ = run(capsys, "eval", trained, names / "dev.conll", "--json")
    assert code == 0 and json.loads(out)["span_f1"] > 0.8
    code, out, _ = run(capsys, "eval", trained, names / "dev.conll")
    assert code == 0 and "accuracy unseen" in out and "PER" in out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"Ada saw\n\nRome\n")))
    code, out, _ = run(capsys, "predict", trained)
    rows = [line.split("\t")[:2] for line in out.splitlines()]
    assert code == 0 and rows == [["Ada", "B-PER"], ["saw", "O"], [""], [""], ["Rome", "B-LOC"], [""]]
    untagged = tmp_path / "untagged.conll"
    untagged.write_text("Ada\nsaw\n\nRome\n")
    code, out, _ = run(capsys, "predict", trained, untagged, "--n-best", 2)
    first = out.splitlines()[0].split("\t")
    assert code == 0 and first[:2] == ["Ada", "B-PER"] and 0 < float(first[2]) <= 1 and len(first) == 4
    code, _, _ = run(capsys, "predict", trained, untagged, "--out", tmp_path / "said.jsonl")
    said = [json.loads(line) for line in (tmp_path / "said.jsonl").read_text().splitlines()]
    assert [one["tags"] for one in said] == [["B-PER", "O"], ["B-LOC"]]
    assert said[0]["spans"] == [{"type": "PER", "start": 0, "end": 1, "text": "Ada"}]
    code, out, _ = run(capsys, "check", names / "train.conll", "--dev", names / "dev.conll", "--json")
    assert code == 0 and json.loads(out)["scheme"] == "iob2" and json.loads(out)["train"]["sentences"] == 80


def test_what_is_predicted_can_be_read_again(trained, tmp_path, capsys):
    lines = tmp_path / "lines.txt"
    lines.write_text("Ada saw Rome\nGrace\n")
    run(capsys, "predict", trained, lines, "--out", tmp_path / "said.conll")
    again = carousel.load(trained).settings.source(tmp_path / "said.conll").path
    sentences = list(TagSettings.read({"train": again, "column": 2}).source(again))
    assert [s.words for s in sentences] == [["Ada", "saw", "Rome"], ["Grace"]]


@pytest.mark.parametrize("output", ["softmax", "crf"])
def test_a_run_goes_on_where_it_was_killed(settings, goes_on, output):
    goes_on(Tagger, settings(output=output))


def test_a_file_read_by_another_scheme_is_not_taken_from_the_cache(settings, tmp_path):
    (tmp_path / "names.conll").write_text("Ada I-per\nsaw O\n\nBob I-per\n")
    said = [Tagger.prepare(settings(train=tmp_path / "names.conll", dev=None, column="2", scheme=scheme))[1].notes
            for scheme in ("iob1", "iob2")]  # fmt: skip
    assert not said[0] and "2 tags break the rules of iob2" in said[1][0]


@pytest.mark.parametrize("scheme", ["iob1", "iob2", "bioes"])
def test_every_scheme_is_recognised_and_given_back(settings, tmp_path, scheme):
    path = tmp_path / "train.conll"
    write_names(path, 40, seed=3, scheme=scheme)
    model, data = Tagger.prepare(settings(train=path, dev=None))
    assert model.lexicon.written == scheme and data.notes == []
    assert all(illegal(found.tags, scheme) == [] for found in model.predict(["Ada met Alan", "Paris Rome"]))
    model.lexicon.save(tmp_path)
    assert Lexicon.load(tmp_path) == model.lexicon


# ---------------------------------------------------------------- data


def test_illegal_tags_are_counted_and_mended(settings, tmp_path):
    path = tmp_path / "slips.conll"
    path.write_text("Ada\tB-PER\nsaw\tO\n\n" * 5 + "the\tO\nRome\tI-LOC\n\n")
    model, data = Tagger.prepare(settings(train=path, dev=None))
    store = data.train.store
    assert data.notes == [f"{path}:17: 1 tag breaks the rules of iob2, here first; read as the nearest spans"]
    last = [model.lexicon.tags[k] for k in store["labels"][5]]
    assert last == ["O", "S-LOC"]
    assert model.check(settings(train=path, dev=None)).warnings[0].startswith(f"{path}:17: 1 tag breaks")


def test_long_sentences_are_cut_for_training_but_not_for_reading(settings, tmp_path):
    path = tmp_path / "long.conll"
    path.write_text("Ada\tB-PER\nByron\tI-PER\nsaw\tO\n" * 5 + "\n" + "Rome\tB-LOC\n")
    s = settings(train=path, dev=path, max_length=4)
    model, data = Tagger.prepare(s)
    assert data.train.store.lengths.tolist() == [4, 4, 4, 3, 1]
    assert data.dev.store.lengths.tolist() == [15, 1]
    assert "1 sentence is longer than max_length and cut into parts (the longest has 15 words)" in data.notes[0]
    for row in data.train.store["labels"]:  # each part is legal by itself
        assert illegal([model.lexicon.tags[k] for k in row], "bioes") == []
    assert complaints(path, data.dev.store.facts, "iob2") == []


def test_a_hundred_thousand_words_at_once(settings):
    model, _ = Tagger.prepare(settings(output="softmax", characters="cnn"))
    found = model.predict([["Ada"] * 100_000, ["Rome"]])
    assert [len(one.tags) for one in found] == [100_000, 1]


def test_words_of_any_kind(settings):
    model, _ = Tagger.prepare(settings())
    words = ["[PAD]", "<unk>", "x" * 10_000, "1 000", "\u3000", "Ada"]
    columns = model.lexicon.encode([words, []])
    assert columns["tokens"].values.tolist()[:5] == [3] * 5
    assert columns["spelling"].values.max() == LONGEST
    assert columns["characters"].lengths.tolist() == [columns["spelling"].values.sum(), 0]
    assert len(model.predict([words])[0].tags) == 6


def test_parts_of_similar_length():
    lengths = [3, 40_000, 5, 0, 30_000]
    parts = list(_parts(lengths))
    assert sorted(itertools.chain(*parts)) == [0, 1, 2, 3, 4]
    assert [1] in parts and [4] in parts


@pytest.mark.parametrize(
    ("train", "dev", "line"),
    [
        ("a\tX\nb\n", None, "train.conll:2: 1 column, where line 1 has 2"),
        ("a\tX\nb\tX\n", None, "train.conll: every word has the tag 'X'; give examples of at least two tags"),
        ("a\tO\nb\tB-P\nc\tBP\n", None, "train.conll:3: the tag 'BP' is not O, B-TYPE, I-TYPE and so on"),
        ("a\tX\nb\tY\n", "a\tX\n\nb\tZ\n", "dev.conll:3: the tag 'Z' is not in the training data"),
        ("a\tO\nb\tB-P\n", "a\tB-Q\n", "dev.conll:1: the tag 'B-Q' is not in the training data"),
        ("a\tX\nb\tY\n", "c\tX\n", "dev.conll: none of its 1 tokens is in the vocabulary"),
    ],
)
def test_bad_files_leave_nothing_behind(tmp_path, capsys, train, dev, line):
    (tmp_path / "train.conll").write_text(train)
    files = [tmp_path / "train.conll"]
    if dev is not None:
        (tmp_path / "dev.conll").write_text(dev)
        files += ["--dev", tmp_path / "dev.conll"]
    options = ("--out", tmp_path / "run", "--cache", tmp_path / "cache", "--min-frequency", 1)
    code, _, err = run(capsys, "train", "tag", *files, *options)
    assert code == 1 and line in err.replace(str(tmp_path) + "/", "") and err.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_words_that_are_all_rare(settings, tmp_path):
    path = tmp_path / "rare.conll"
    path.write_text("Ada\tB-PER\nsat\tO\n")
    with pytest.raises(DataError, match=r"rare.conll: no word occurs 2 times or more, .*; lower min_frequency"):
        Tagger.prepare(settings(train=path, min_frequency=2))


def test_a_tag_unseen_in_training_stops_an_evaluation(trained, tmp_path):
    path = tmp_path / "test.conll"
    path.write_text("Ada\tB-PER\n\nIBM\tB-ORG\n")
    with pytest.raises(DataError, match=r"test.conll:3: the tag 'B-ORG' is not in the training data; mend it"):
        carousel.load(trained).evaluate(path)
    path.write_text("Ada\tE-PER\n")  # another scheme of the same spans is understood
    assert carousel.load(trained).evaluate(path)["spans"]["PER"]["count"] == 1


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


def test_spans_of_a_prediction(trained):
    found = carousel.load(trained).predict("Ada Alan saw")
    assert found.spans == spans(found.tags)
    assert found.as_dict()["words"] == ["Ada", "Alan", "saw"]


@pytest.mark.parametrize("data", [b"", b"\xff", b"[]", b"{}", b'{"more": 1}'])
def test_damaged_tags_are_one_line(trained, tmp_path, data):
    folder = shutil.copytree(trained, tmp_path / "run")
    (folder / "tags.json").write_bytes(data)
    with pytest.raises(DataError, match=r"tags\.json: damaged .*; train again, or copy it from"):
        carousel.load(folder)
