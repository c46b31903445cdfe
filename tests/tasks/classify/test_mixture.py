"""The mixture with the linear model: its formula, how its weight is chosen, what a run keeps of it."""

import csv
import json

import pytest
import torch
from helpers.tiny import Killed, fit, kill_at, outcome

import carousel
from carousel.tasks.classify.network import Accuracy, MixtureAccuracy, mix
from carousel.tasks.classify.settings import ClassifySettings
from carousel.tasks.classify.task import Classify


@pytest.fixture
def settings(tmp_path):
    """A single word tells the class, but dev has words of which only the characters were seen in training."""
    stems = {"good": "warm", "bad": "dull"}
    endings = ["", "er", "est", "ly", "ish"]
    rows = [
        f"{stem}{ending} film {k}\t{label}" for k in range(6) for ending in endings for label, stem in stems.items()
    ]
    (tmp_path / "train.tsv").write_text("\n".join(rows) + "\n", "utf-8")
    dev = [f"a {stem}ness film\t{label}" for label, stem in stems.items()] * 4
    (tmp_path / "dev.tsv").write_text("\n".join(dev) + "\n", "utf-8")

    def make(**given):
        small = {"hidden": 4, "embedding": 4, "epochs": 2, "batch_size": 8, "log_steps": 3, "threads": 1}
        files = {"train": tmp_path / "train.tsv", "dev": tmp_path / "dev.tsv", "cache": tmp_path / "cache"}
        return ClassifySettings.read({**files, **small, **given})

    return make


def test_the_formula():
    own, linear = torch.randn(5, 3), torch.randn(5, 3).log_softmax(1)
    expected = 0.3 * linear.exp() + 0.7 * (own / 2).softmax(1)
    torch.testing.assert_close(mix(own, linear, 0.3, 2.0), expected.log())
    torch.testing.assert_close(mix(own, linear, 1.0, 2.0), linear)
    torch.testing.assert_close(mix(own, linear, 0.0, 2.0), (own / 2).log_softmax(1))


def test_the_dev_set_chooses_and_evaluation_does_not(settings):
    s = settings()
    assets, data = Classify.prepare(s)
    network = Classify.make_network(s, assets).eval()
    network.mixture.copy_(torch.tensor([0.25, 1.0]))
    batches = list(data.dev)
    fixed = Accuracy(network)
    for batch in batches:
        fixed.add(batch)
    assert network.mixture.tolist() == [0.25, 1.0]
    chosen = network.metric()
    assert isinstance(chosen, MixtureAccuracy)
    for batch in batches:
        chosen.add(batch)
    result = chosen.result()
    assert network.mixture[0] == 1  # an untrained network is of no use
    assert result["loss"] < fixed.result()["loss"] and result["accuracy"] == 1
    again = Accuracy(network)
    for batch in batches:
        again.add(batch)
    assert again.result() == pytest.approx(result, abs=1e-6)


def test_the_log_has_the_share_of_the_linear_model(settings, tmp_path, capsys):
    run = fit(settings(), tmp_path / "run", Classify, quiet=False)
    share = float(carousel.load(run.folder).network.mixture[0])
    said = f"the linear model has a share of {share:.0%} in the predictions"
    assert f"epoch {run.result['best_epoch']}: {said}\n" in capsys.readouterr().err
    assert run.result["choice"] == said and run.result["network_is_idle"] == (share == 1)


def test_it_knows_words_by_their_characters(settings, tmp_path):
    fit(settings(), tmp_path / "run", Classify)
    model = carousel.load(tmp_path / "run")
    assert model.evaluate(tmp_path / "dev.tsv")["accuracy"] == 1
    assert model.predict("warmness").label == "good"
    rows = [row for row in csv.DictReader((tmp_path / "run" / "metrics.csv").open()) if row["dev_loss"]]
    best = json.loads((tmp_path / "run" / "result.json").read_text())["best_epoch"]
    logged = float(rows[best - 1]["dev_loss"])  # the mixture of that epoch is kept with its weights
    assert model.evaluate(tmp_path / "dev.tsv")["loss"] == pytest.approx(logged, abs=1e-5)


@pytest.mark.parametrize("tokens", ["word", "character", "bpe"])
def test_it_reads_no_more_of_a_text_than_the_network(settings, tokens):
    s = settings(tokens=tokens, max_length=3)
    assets, _ = Classify.prepare(s)
    encode = assets.encoder(s)
    text = {"word": "a Warm film", "character": "A w", "bpe": "Warm film"}[tokens]
    if tokens == "bpe":
        text = assets.vocabulary.decode(assets.vocabulary.encode(text.lower())[:3])
    (columns, cut), (whole, _) = encode([f"{text} dull dull"]), encode([text])
    assert cut.all() and columns["linear"].values.tolist() == whole["linear"].values.tolist()
    assert assets.linear([f"{text} dull dull"]).tolist() != assets.linear([text]).tolist()


def test_without_it_nothing_of_it_is_there(settings, tmp_path):
    run = fit(settings(linear=False), tmp_path / "run", Classify)
    assert not (run.folder / "ngrams.safetensors").exists()
    model = carousel.load(run.folder)
    assert model.network.mixture is None and "mixture" not in model.network.state_dict()


def test_a_resumed_run_keeps_its_linear_model(settings, tmp_path, monkeypatch):
    whole = outcome(fit(settings(), tmp_path / "whole", Classify))
    with monkeypatch.context() as patch, pytest.raises(Killed):
        kill_at(patch, "batch", 1, 2)
        fit(settings(), tmp_path / "run", Classify)
    monkeypatch.setattr("carousel.tasks.classify.data.fit_linear", None)  # it is not fitted again
    assert outcome(fit({}, tmp_path / "run", Classify, resume=True)) == whole
