"""The bidirectional language model against torch's own layers, padding that has no effect, runs, and bad files."""

import json
import math
import random

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
import torch.nn.functional as F
from helpers.pages import rows
from helpers.tiny import new_model
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import carousel
from carousel.cells import registry
from carousel.data import END, PAD, START, UNK, Vocabulary
from carousel.data.stores.examples import collate
from carousel.data.text.words import WordVocabulary
from carousel.errors import SettingsError
from carousel.networks.embedder import Embedder
from carousel.tasks.bilm.data import BilmAssets
from carousel.tasks.bilm.network import BilmNetwork, mark, turned
from carousel.tasks.bilm.predictor import BiLanguageModel
from carousel.tasks.bilm.settings import BilmSettings
from carousel.tasks.bilm.task import Bilm
from carousel.training import trainer

SENTENCES = ["the cat sat", "a dog", "dog", "the old dog saw the cat", "Zoe sat", "the cat saw a dog and sat down"]
SMALL = {"embedding": 6, "hidden": 6, "character_embedding": 4, "character_hidden": 5, "batch_size": 3, "lr": 0.02,
         "log_steps": 2, "min_frequency": 1, "epochs": 2}  # fmt: skip


def network(**given):
    """A model with weights far from zero, so that errors show; it does not know Zoe."""
    settings = BilmSettings(train="text.txt", **{**SMALL, **given})
    words = Vocabulary.train(SENTENCES[:4] + SENTENCES[5:], "word")
    characters = None if settings.characters == "none" else Vocabulary.train("".join(SENTENCES).replace(" ", ""))
    assets = BilmAssets(WordVocabulary(words, characters))
    model = BiLanguageModel(BilmNetwork(settings, assets).eval(), assets)
    with torch.no_grad():
        for parameter in model.network.parameters():
            parameter.mul_(2).add_(torch.randn_like(parameter) * 0.3)
        for part in model.modules():
            if isinstance(part, Embedder):
                part.weight[PAD] = 0
    return model


def batch_of(model, sentences):
    return collate(model.assets.words.encode([sentence.split() for sentence in sentences]))


def torch_stack(model, stack):
    """The same layers in torch."""
    s = model.settings
    lstm = nn.LSTM(s.embedding, s.hidden, s.layers, proj_size=s.embedding if s.hidden > s.embedding else 0)
    weights = {}
    for k, layer in enumerate(stack.layers):
        weights |= {name.replace("_l0", f"_l{k}"): value for name, value in layer.state_dict().items()}
    lstm.load_state_dict(weights)
    return lstm


def own_vectors(model, sentence):
    """[START], words, [END] as vectors, one by one; and their numbers."""
    ids = [START]
    vectors = [model.network.embedder.embedder.weight[START]]
    for word in sentence.split():
        ids.append(model.assets.words.words.id(word))
        vector = model.network.embedder.embedder.weight[ids[-1]]
        if model.network.shapes is not None:
            letters = torch.tensor([model.assets.words.characters.id(letter) for letter in word]).unsqueeze(1)
            vector = (
                vector
                + model.network.spelled.weight @ model.network.shapes.readers[0](letters, torch.tensor([len(word)]))[0]
            )
        vectors.append(vector)
    return [*ids, END], torch.stack([*vectors, model.network.embedder.embedder.weight[END]])


@torch.no_grad()
def plain_losses(model, sentence):
    """−log p of each word and mark, forwards and backwards, with torch's layers on this sentence alone."""
    ids, x = own_vectors(model, sentence)
    found = []
    for stack, numbers, vectors in (
        (model.network.forward_layers, ids, x),
        (model.network.backward_layers, ids[::-1], x.flip(0)),
    ):
        y, _ = torch_stack(model, stack)(vectors[:-1].unsqueeze(1))
        logits = y[:, 0] @ model.network.output_weight.T + model.network.bias
        found.append(F.cross_entropy(logits.double(), torch.tensor(numbers[1:]), reduction="none").tolist())
    return found


NETWORKS = {
    "characters by filters": {},
    "characters by layers": {"characters": "rnn"},
    "words alone": {"characters": "none"},
    "three layers, not tied": {"layers": 3, "tied": False},
    "projected": {"hidden": 9},
}


@pytest.mark.parametrize("given", NETWORKS.values(), ids=NETWORKS)
def test_perplexities_are_those_of_torchs_layers(given, tmp_path):
    model = network(cache=tmp_path / "cache", **given)
    (tmp_path / "text.txt").write_text("\n".join(SENTENCES) + "\n")
    told = model.evaluate(tmp_path / "text.txt")
    each = [plain_losses(model, sentence) for sentence in SENTENCES]
    forward, backward = (sum(sum(pair[way]) for pair in each) for way in (0, 1))
    count = sum(len(sentence.split()) + 1 for sentence in SENTENCES)
    assert told["perplexity_forward"] == pytest.approx(math.exp(forward / count), rel=1e-4)
    assert told["perplexity_backward"] == pytest.approx(math.exp(backward / count), rel=1e-4)
    assert told["perplexity"] == pytest.approx(math.exp((forward + backward) / (2 * count)), rel=1e-4)
    assert (told["sentences"], told["words"], told["unknown"]) == (len(SENTENCES), count - len(SENTENCES), 1)


def test_the_loss_is_that_of_both_directions():
    model = network()
    loss = model.network.loss(batch_of(model, SENTENCES))
    every = [value for sentence in SENTENCES for way in plain_losses(model, sentence) for value in way]
    assert loss.mean.item() == pytest.approx(sum(every) / len(every), rel=1e-5)
    assert loss.weight == len(every) / 2


@pytest.mark.parametrize("cell", registry())
def test_backwards_is_forwards_on_reversed_text_with_the_stacks_swapped(cell):
    model, mirrored = network(cell=cell, label_smoothing=0.1), network(cell=cell, label_smoothing=0.1)
    weights = model.network.state_dict()
    names = {name: name.replace("forward_", "?").replace("backward_", "forward_").replace("?", "backward_")
             for name in weights}  # fmt: skip
    mirrored.network.load_state_dict({names[name]: value for name, value in weights.items()})
    with torch.no_grad():  # a sentence that is read backwards begins with [END]
        for table in (mirrored.network.embedder.embedder.weight, mirrored.network.bias):
            table[[START, END]] = table[[END, START]]
    batch = batch_of(model, SENTENCES)
    other = batch_of(model, [" ".join(reversed(sentence.split())) for sentence in SENTENCES])
    forward, backward = model.network.losses(batch)
    torch.testing.assert_close(mirrored.network.losses(other), torch.stack((backward, forward)))
    assert not torch.allclose(forward, backward)


def test_gradients_of_the_loss():
    model = network(layers=2)
    model.network.double().train()
    for part in model.modules():
        if hasattr(part, "rate"):
            part.rate = 0.0
    model.network.embedder.word_dropout = 0.0
    batch = batch_of(model, SENTENCES[:4])
    model.network.loss(batch).mean.backward()
    draw = random.Random(0)
    for name, parameter in model.network.named_parameters():
        place = tuple(draw.randrange(size) for size in parameter.shape)
        if name == "embedder.embedder.weight":
            place = (START, 2)
        with torch.no_grad():
            values = []
            for step in (1e-6, -2e-6):
                parameter[place] += step
                values.append(model.network.loss(batch).mean.item())
            parameter[place] += 1e-6
        expected = (values[0] - values[1]) / 2e-6
        assert parameter.grad[place].item() == pytest.approx(expected, rel=1e-4, abs=1e-8), name


# ---------------------------------------------------------------- vectors


@torch.no_grad()
def plain_vectors(model, sentence):
    """What `embed` gives, from torch's layers, cut off after each layer."""
    _, x = own_vectors(model, sentence)
    found = [torch.cat((x[1:-1], x[1:-1]), 1)]
    for depth in range(1, model.settings.layers + 1):
        sides = []
        for stack, vectors in ((model.network.forward_layers, x), (model.network.backward_layers, x.flip(0))):
            y = vectors[:-1].unsqueeze(1)
            for layer in stack.layers[:depth]:
                lstm = nn.LSTM(model.settings.embedding, model.settings.hidden)
                lstm.load_state_dict(layer.state_dict())
                y, _ = lstm(y)
            sides.append(y[1:, 0])
        found.append(torch.cat((sides[0], sides[1].flip(0)), 1))
    return torch.stack(found).numpy()


@pytest.mark.parametrize("characters", ["cnn", "none"])
def test_vectors_are_those_of_torchs_layers(characters):
    model = network(characters=characters)
    for sentence, found in zip(SENTENCES, model.embed(SENTENCES), strict=True):
        np.testing.assert_allclose(found, plain_vectors(model, sentence), rtol=1e-4, atol=1e-5)


MODELS = {}
WORDS = st.sampled_from(["the", "cat", "dog", "sat", "Zoe", "saw", "qqq"])


@given(st.lists(st.lists(WORDS, max_size=9), min_size=1, max_size=5), st.sampled_from(sorted(registry())))
def test_sentences_do_not_feel_their_neighbours(sentences, cell):
    model = MODELS.get(cell) or MODELS.setdefault(cell, network(cell=cell, hidden=6))
    together = model.embed(sentences)
    assert [found.shape for found in together] == [(3, len(words), 12) for words in sentences]
    for words, found in zip(sentences, together, strict=True):
        np.testing.assert_allclose(model.embed([words])[0], found, rtol=1e-4, atol=1e-5)


def test_padding_is_zero_and_has_no_effect():
    model = network()
    batch = batch_of(model, SENTENCES)
    for layer in model.network.contexts(batch):
        assert layer.shape == (8, 6, 12)
        assert not layer[~batch.mask].any()
        assert layer[batch.mask].abs().sum(1).all()
    losses = model.network.losses(batch)
    assert losses.shape == (2, 9, 6)
    real = torch.arange(9).unsqueeze(1) < batch.lengths + 1
    assert not losses[:, ~real].any()
    assert (losses[:, real] > 0).all()


def test_a_word_feels_only_what_a_direction_has_read():
    model = network(layers=1)
    one, two = model.embed(["the cat saw a dog", "the cat saw the dog"])
    np.testing.assert_allclose(one[1, :3, :6], two[1, :3, :6], rtol=1e-5)  # forwards, before the word that differs
    np.testing.assert_allclose(one[1, 4:, 6:], two[1, 4:, 6:], rtol=1e-5)  # backwards, after it
    assert (np.abs(one[1, 3:, :6] - two[1, 3:, :6]).max(1) > 1e-3).all()
    assert (np.abs(one[1, :4, 6:] - two[1, :4, 6:]).max(1) > 1e-3).all()


@given(st.lists(st.integers(0, 6), min_size=1, max_size=5))
def test_turning_twice_changes_nothing(lengths):
    steps = max(lengths)
    x = torch.arange(steps * len(lengths) * 2).reshape(steps, len(lengths), 2)
    there = turned(x, torch.tensor(lengths))
    assert torch.equal(turned(there, torch.tensor(lengths)), x)
    for b, length in enumerate(lengths):
        assert there[:length, b].tolist() == x[:length, b].tolist()[::-1]
        assert torch.equal(there[length:, b], x[length:, b])


def test_marks_of_empty_sentences():
    assert mark(torch.zeros(0, 2, dtype=torch.int64), torch.tensor([0, 0])).tolist() == [[START] * 2, [END] * 2]


def test_marks_are_never_hidden():
    model = network(word_dropout=0.9, dropout=0.0, characters="none")
    model.network.train()
    batch = batch_of(model, SENTENCES * 20)
    read = model.network.read(batch)
    hidden = (read.tokens == model.network.embedder.embedder.weight[UNK]).all(2)
    words = read.marked > UNK
    assert 0.8 < hidden[words].float().mean() < 1
    assert not hidden[read.marked < UNK].any()


# ---------------------------------------------------------------- runs


def write_sentences(path, count, seed):
    """Sentences in which a word tells the next: every adjective has its noun."""
    draw = random.Random(seed)
    pairs = [("old", "dog"), ("small", "cat"), ("red", "house"), ("wild", "goose")]
    lines = []
    for _ in range(count):
        parts = [word for pair in draw.choices(pairs, k=draw.randint(1, 3)) for word in ("the", *pair)]
        lines.append(" ".join(parts))
    path.write_text("\n".join(lines) + "\n", "utf-8")


@pytest.fixture(scope="session")
def text(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    write_sentences(folder / "train.txt", 60, 1)
    write_sentences(folder / "dev.txt", 20, 2)
    return folder


@pytest.fixture
def settings(text, tmp_path):
    def make(**given):
        files = {"train": text / "train.txt", "dev": text / "dev.txt", "cache": tmp_path / "cache"}
        return BilmSettings.read({**files, **SMALL, **given})

    return make


@pytest.mark.learning
def test_it_learns_both_ways_and_is_loaded_again(settings, text, tmp_path, reached):
    write_sentences(tmp_path / "train.txt", 800, 1)
    network = {"embedding": 32, "hidden": 64, "layers": 1, "dropout": 0.0, "word_dropout": 0.0}
    small = settings(train=tmp_path / "train.txt", batch_size=8, schedule="linear", **network)
    run = trainer.train(Bilm, small, tmp_path / "run", quiet=True)
    model = carousel.load(run.folder)
    found = model.evaluate(text / "dev.txt")
    # Each pair is drawn from four, and their number from three; all else follows. Not to know which noun an adjective
    # has multiplies the perplexity by exp(log 4 · 2 / 7), one and a half.
    pairs = [line.count("the") for line in (text / "dev.txt").read_text().splitlines()]
    best = math.exp(sum(math.log(3) + k * math.log(4) for k in pairs) / sum(3 * k + 1 for k in pairs))
    for direction in ("forward", "backward"):
        ratio = found[f"perplexity_{direction}"] / best  # of the best possible
        reached(f"{direction} ratio", ratio, below=1.2)
        reached(f"{direction} ratio", ratio, above=0.95)
    assert found["perplexity"] ** 2 == pytest.approx(found["perplexity_forward"] * found["perplexity_backward"])
    assert found["perplexity"] == pytest.approx(run.result["dev_perplexity"], rel=1e-5)
    assert "Bidirectional language model" in repr(model)
    assert model.embed("the old dog").shape == (2, 3, 64)
    page = run.report.read_text("utf-8")
    assert f"{found['perplexity_backward']:.2f}" in page
    nearest = rows(page, "word", "nearest", "cosine")
    cosines = [float(row[2]) for row in nearest[:3]]
    assert cosines == sorted(cosines, reverse=True)
    assert all(row[1].count("<mark>") == 1 for row in nearest)


def test_a_run_goes_on_where_it_was_killed(settings, goes_on):
    noisy = settings(word_dropout=0.2, average=0.9, recurrent_dropout=0.1)
    goes_on(Bilm, noisy, index=3)


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


# ---------------------------------------------------------------- the command line


def options(given):
    return [part for name, value in given.items() for part in (f"--{name.replace('_', '-')}", value)]


def test_from_a_file_of_columns_on_the_command_line(tmp_path, command, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    file = tmp_path / "ud.conllu"
    rows = ["# a comment", "1-2\tdon't" + "\t_" * 8, "1\tDo" + "\t_" * 8, "2\tn't" + "\t_" * 8, ""]
    file.write_text("\n".join(rows * 5) + "\n")
    plain = tmp_path / "plain.txt"
    plain.write_text("Do n't\n" * 5)
    code, out, err = command("check", file, "--task", "bilm", "--json")
    assert (code, err) == (0, "")
    assert (json.loads(out)["train"]["lines"], json.loads(out)["train"]["tokens"]) == (5, 10)
    run = tmp_path / "run"
    code, _, err = command("train", "bilm", file, "--dev", plain, "--out", run, "--quiet", *options(SMALL))
    assert (code, err) == (0, "")
    found = [json.loads(command("eval", run, path, "--json")[1]) for path in (file, plain)]
    assert found[0]["perplexity"] == pytest.approx(found[1]["perplexity"])
    assert found[0]["words"] == 10
    code, out, err = command("embed", run, plain, "--out", tmp_path / "words.parquet")
    assert (code, err) == (0, "")
    assert out == f"{tmp_path / 'words.parquet'}: 10 vectors of 36 numbers\n"
    rows = pq.read_table(tmp_path / "words.parquet").to_pylist()
    assert [(row["line"], row["word"]) for row in rows[:3]] == [(1, "Do"), (1, "n't"), (2, "Do")]
    layers = carousel.load(run).embed("Do n't")
    np.testing.assert_allclose(rows[1]["vector"], np.concatenate([layer[1] for layer in layers]), rtol=1e-4, atol=1e-6)
    code, _, err = command("similar", run, plain, "--to", "Do")
    assert code == 1 and "a bilm run; this command is for runs of encode" in err
    code, _, err = command("predict", run, plain)
    assert code == 1 and "does not predict; its commands are carousel eval RUN, carousel embed RUN" in err


WRONG = {
    "too few units": ({"hidden": 4}, "hidden: 4 units are fewer than embedding (6); give at least as many"),
    "a cell that does not project": (
        {"hidden": 9, "cell": "gru"}, "hidden: the cell gru does not project; set it to embedding (6)"
    ),
    "an option of other tasks": ({"bidirectional": True}, "bidirectional: there is no such key"),
}  # fmt: skip


@pytest.mark.parametrize(("given", "told"), WRONG.values(), ids=WRONG)
def test_settings_that_cannot_be(settings, given, told):
    with pytest.raises(SettingsError) as error:
        settings(**given)
    assert str(error.value).startswith(told)


def test_bad_files_leave_nothing(tmp_path, command):
    run = tmp_path / "run"
    for name, content, told in (
        ("blank.txt", b"\n \n", "all 2 lines are blank"),
        ("latin.txt", b"caf\xe9 noir\n", "1: byte 0xe9 at column 4 is not UTF-8"),
        ("short.conllu", b"1\tDo\n", "1: 2 columns with tabs between, where CoNLL-U has 10"),
        ("rare.txt", b"one two\n", "no word occurs 2 times or more"),
    ):
        (tmp_path / name).write_bytes(content)
        code, out, err = command("train", "bilm", tmp_path / name, "--out", run)
        assert (code, out, len(err.splitlines())) == (1, "", 1)
        assert name in err and told in err
        assert not run.exists()
