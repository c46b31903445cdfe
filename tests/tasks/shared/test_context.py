"""A bilm as embedder of other tasks: the mix by hand, what is frozen and what is not, runs that need no other run."""

import json
import random
import shutil

import numpy as np
import pytest
import torch
from helpers.untrained import new_model
from safetensors.torch import load_file

import carousel
from carousel.data import UNK, Vocabulary
from carousel.data.text.encoder import TextEncoder
from carousel.data.text.words import WordVocabulary
from carousel.errors import RunError, SettingsError
from carousel.tasks.bilm.settings import BilmSettings
from carousel.tasks.bilm.task import Bilm
from carousel.tasks.classify.task import Classify
from carousel.tasks.encode.task import Encode
from carousel.tasks.shared.context import ContextAssets
from carousel.tasks.tag.task import Tag
from carousel.training import trainer
from carousel.training.module import Module

NAMES, OTHER = ["Ada", "Alan", "Grace"], ["saw", "the", "moon", "slowly", "near"]
SMALL = {"embedding": 5, "hidden": 5, "batch_size": 8, "epochs": 2, "lr": 0.02, "min_frequency": 1}
LETTERS = {"character_embedding": 3, "character_hidden": 4}
TASKS = {"tag": Tag, "classify": Classify, "encode": Encode}


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Files for every task, and a bilm that has read a part of their words."""
    folder = tmp_path_factory.mktemp("context")
    draw = random.Random(0)
    texts = [draw.choices(NAMES + OTHER, k=draw.randint(1, 6)) for _ in range(40)]
    (folder / "text.txt").write_text("".join(" ".join(w for w in t if w != "Grace") + " .\n" for t in texts))
    tags = [[(word, "B-PER" if word in NAMES else "O") for word in text] for text in texts]
    (folder / "tag.conll").write_text("\n".join("".join(f"{w}\t{t}\n" for w, t in one) for one in tags))
    kind = ["name" if set(text) & set(NAMES) else "none" for text in texts]
    (folder / "classify.tsv").write_text("".join(f"{' '.join(t)}\t{k}\n" for t, k in zip(texts, kind, strict=True)))
    pairs = zip(texts, texts[1:], kind, strict=False)
    rows = "".join(f"{' '.join(a)}\t{' '.join(b)}\t{k}\n" for a, b, k in pairs)
    (folder / "encode.tsv").write_text("sentence1\tsentence2\tlabel\n" + rows)
    given = {"train": folder / "text.txt", "cache": folder / "cache", **SMALL, **LETTERS, "layers": 2}
    trainer.train(Bilm, BilmSettings.read(given), folder / "bilm", quiet=True, report=False)
    return folder


@pytest.fixture
def settings(folder, tmp_path):
    def make(task, **given):
        name = "tag.conll" if task == "tag" else f"{task}.tsv"
        letters = LETTERS if task == "tag" else {}
        files = {"train": folder / name, "dev": folder / name, "cache": tmp_path / "cache"}
        known = {"embedder": folder / "bilm", **SMALL, **letters, "hidden": 7}
        return TASKS[task].Settings.read({**files, **known, **given})

    return make


# ---------------------------------------------------------------- the mix


@pytest.mark.parametrize("task", TASKS)
def test_the_layers_see_the_bilms_vectors_beside_their_own(settings, task, folder):
    """A sentence with a word that neither knows, and one that only the task does: by hand from `embed`."""
    model, data = new_model(TASKS[task], settings(task))
    network = model.network.eval()
    bilm = carousel.load(folder / "bilm").network
    with torch.no_grad():
        network.context.mix.scores.copy_(torch.tensor([0.3, -0.2, 1.0]))
        network.context.mix.gamma.fill_(1.5)
    seen = []
    handle = network.layers.register_forward_hook(lambda layer, given, out: seen.append(given[0]))
    for batch in data.dev:
        seen.clear()
        scores = network.scores(batch) if task != "tag" else network.emissions(batch)
        assert scores.isfinite().all()
        for side, x in zip([batch] if task != "encode" else [batch.first, batch.second], seen, strict=True):
            assert side.context.tokens.shape == side.tokens.shape
            shares = torch.tensor([0.3, -0.2, 1.0]).softmax(0)
            layers = bilm.contexts(side.context)
            mixed = 1.5 * sum(share * layer for share, layer in zip(shares, layers, strict=True))
            torch.testing.assert_close(x[..., -10:], mixed)
    handle.remove()


def test_words_are_read_with_the_bilms_own_numbers(folder):
    known = carousel.load(folder / "bilm").assets.words
    own = Vocabulary.from_tokens(["grace", "saw"], "word")
    columns, cut = TextEncoder(own, 3, lower=True, context=known)(["Grace saw Ada today", "", "saw"])
    assert columns["tokens"].values.tolist() == [4, 5, UNK, 5]
    assert columns["tokens"].lengths.tolist() == columns["context_tokens"].lengths.tolist() == [3, 0, 1]
    ids = [known.words.id(word) for word in ("Grace", "saw", "Ada", "saw")]
    assert ids[0] == UNK and ids[2] != UNK  # the bilm's text has no Grace, and its words keep their case
    assert columns["context_tokens"].values.tolist() == ids
    assert columns["context_spelling"].values.tolist() == [5, 3, 3, 3]
    assert cut.tolist() == [True, False, False]


def test_reading_with_an_embedder_gives_a_texts_own_numbers_as_without():
    words = Vocabulary.train(["a fine film", "a dull film"], "word")
    texts = ["a  fine\tfilm ", "", "dull　unheard of film", "film"]
    plain, cut = TextEncoder(words, 3)(texts)
    beside, cut_too = TextEncoder(words, 3, context=WordVocabulary(words, None))(texts)
    assert beside["tokens"].values.tolist() == plain["tokens"].values.tolist()
    assert beside["tokens"].lengths.tolist() == plain["tokens"].lengths.tolist()
    assert cut.tolist() == cut_too.tolist() == [False, False, True, False]


# ---------------------------------------------------------------- training


def weights_of(run):
    found = load_file(run.weights)
    name = "context.bilm."
    return {key.removeprefix(name): value for key, value in found.items() if key.startswith(name)}, found


@pytest.mark.parametrize("tuned", [False, True])
@pytest.mark.parametrize("task", TASKS)
def test_frozen_weights_stay_and_tuned_ones_move(settings, folder, tmp_path, task, tuned):
    given = settings(task, embedder_tuned=tuned, optimizer="adamw", weight_decay=0.1, average=0.9, epochs=1)
    run = trainer.train(TASKS[task], given, tmp_path / "run", quiet=True, report=False)
    kept, found = weights_of(run)
    before = load_file(folder / "bilm" / "model.safetensors")
    assert kept.keys() == before.keys()
    same = {name for name in before if torch.equal(kept[name], before[name])}
    read = {name for name in before if name != "bias"}  # the output layer is not read
    if tuned:
        assert not same & read
    else:
        assert same == set(before)
    assert found["context.mix.scores"].abs().min() > 0
    assert found["context.mix.gamma"] != 1


def test_a_frozen_bilm_has_no_dropout_inside(settings):
    for tuned in (False, True):
        model, data = new_model(Tag, settings("tag", embedder_tuned=tuned, embedder_dropout=0.0))
        network = model.network.train()
        batch = next(iter(data.train))
        one, two = network.context(batch.context), network.context(batch.context)
        assert torch.equal(one, two) != tuned
        network.eval()
        assert not network.context.bilm.training
    model, data = new_model(Tag, settings("tag", embedder_dropout=0.5))
    vectors = model.network.train().context(next(iter(data.train)).context)
    assert 0.3 < (vectors == 0).float().mean() < 0.9


def test_a_run_goes_on_where_it_was_killed(settings, goes_on):
    noisy = settings("tag", embedder_tuned=True, word_dropout=0.2, average=0.9)
    goes_on(Tag, noisy, index=2)


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("tuned", [False, True])
def test_a_run_is_resumed_without_the_embedders_run(settings, folder, tmp_path, task, tuned, monkeypatch):
    """The same weights as without a stop, though the embedder's run has gone."""
    given = settings(task, embedder=tmp_path / "copy", embedder_tuned=tuned, epochs=3, checkpoint_minutes=0)

    def train(name, **how):
        return trainer.train(TASKS[task], given, tmp_path / name, quiet=True, report=False, **how)

    class Killed(BaseException):
        pass

    def dying(self, batch, number, step=Module.training_step):
        if (self.current_epoch, number) == (1, 1):
            raise Killed
        return step(self, batch, number)

    shutil.copytree(folder / "bilm", tmp_path / "copy")
    whole = train("whole")
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Module, "training_step", dying)
        train("stopped")
    shutil.rmtree(tmp_path / "copy")
    resumed = train("stopped", resume=True)
    assert resumed.weights.read_bytes() == whole.weights.read_bytes()
    assert resumed.metrics.read_text() == whole.metrics.read_text()


# ---------------------------------------------------------------- use


@pytest.mark.parametrize("task", TASKS)
def test_a_run_needs_no_other_run(settings, folder, tmp_path, task, command):
    """Train on a copy of the bilm, remove the copy, and everything still works, in any batch."""
    shutil.copytree(folder / "bilm", tmp_path / "copy")
    run = trainer.train(TASKS[task], settings(task, embedder=tmp_path / "copy"), tmp_path / "run", quiet=True)
    shutil.rmtree(tmp_path / "copy")
    model = carousel.load(run.folder)
    context = model.network.context
    assert str(context).split(";")[0] in repr(model)
    assert str(context).endswith(f"; frozen, {tmp_path / 'copy'}")
    metric = model.evaluate(model.settings.train)[model.network.metric().best]
    assert metric == pytest.approx(run.result[f"dev_{model.network.metric().best}"], abs=1e-6)
    page = run.report.read_text("utf-8")
    assert "Embedder" in page
    assert f"{tmp_path / 'copy'}: a bilm; " in page
    for name, share in context.shares.items():
        assert name in page and f"{share:.3f}" in page
    texts = ["Ada saw the moon", "", "Grace", "the slowly moon near Zoe the moon"]
    file = tmp_path / "lines.txt"
    file.write_text("".join(f"{text}\t{text} too\n" if task == "encode" else f"{text}\n" for text in texts))
    code, out, err = command("predict", run.folder, file, "--json")
    assert (code, err) == (0, "")
    assert len(out.splitlines()) == 4
    for line, text in zip(out.splitlines(), texts, strict=True):
        found = json.loads(line)
        if task == "tag":
            alone = model.predict(text)
            assert found["tags"] == alone.tags
            assert found["confidences"] == pytest.approx(alone.confidences, abs=1e-4)
        elif task == "classify":
            assert found["probabilities"] == pytest.approx(model.predict(text).probabilities, abs=1e-4)
        else:
            assert found["probabilities"] == pytest.approx(model.predict(text, f"{text} too").probabilities, abs=1e-4)
    if task == "encode":
        together = model.embed(texts)
        for text, vector in zip(texts, together, strict=True):
            np.testing.assert_allclose(model.embed(text), vector, rtol=1e-4, atol=1e-5)


def test_blank_texts_alone(settings):
    for task in TASKS:
        model, _ = new_model(TASKS[task], settings(task))
        if task == "encode":
            assert not model.embed(["", " "]).any()
        else:
            assert len(model.predict(["", " "])) == 2


# ---------------------------------------------------------------- what is wrong


def test_what_cannot_be_an_embedder(settings, folder, tmp_path):
    with pytest.raises(RunError, match=r"nowhere: no such run; give a directory that carousel train made"):
        Tag.prepare(settings("tag", embedder=tmp_path / "nowhere"))
    run = trainer.train(Classify, settings("classify", epochs=1), tmp_path / "run", quiet=True, report=False)
    with pytest.raises(RunError, match=r"run: a classify run; an embedder is a bilm run"):
        Tag.prepare(settings("tag", embedder=run.folder))


@pytest.mark.parametrize("task", ["classify", "encode"])
@pytest.mark.parametrize("tokens", ["character", "bpe"])
def test_an_embedder_needs_words(settings, task, tokens):
    with pytest.raises(SettingsError) as error:
        settings(task, tokens=tokens)
    assert str(error.value) == f"embedder: it reads words, and tokens is {tokens}; give tokens='word', or leave it out"


@pytest.mark.parametrize("given", [{"embedder_tuned": True}, {"embedder_dropout": 0.1}], ids=["tuned", "dropout"])
def test_options_of_an_embedder_need_one(settings, given):
    (name,) = given
    with pytest.raises(SettingsError) as error:
        settings("tag", embedder=None, **given)
    assert str(error.value) == f"{name}: there is no embedder; give embedder, or leave it out"


def test_on_the_command_line(folder, tmp_path, command, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    given = [part for name, value in SMALL.items() for part in (f"--{name.replace('_', '-')}", value)]
    run = tmp_path / "run"
    asked = ("train", "tag", folder / "tag.conll", "--embedder", folder / "bilm", "--embedder-tuned", "--out", run)
    code, _, err = command(*asked, "--quiet", *given)
    assert (code, err) == (0, "")
    model = carousel.load(run)
    assert model.network.context.tuned
    assert ContextAssets.load(model.settings, run).words.fingerprint == model.assets.context.words.fingerprint
    code, out, err = command("train", "tag", folder / "tag.conll", "--embedder", folder, "--out", tmp_path / "no")
    assert (code, out) == (1, "")
    assert err == f"error: {folder}: not a run, it has no config.yaml; give a directory that carousel train made\n"
    assert not (tmp_path / "no").exists()
