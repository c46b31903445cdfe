"""The language model against the same network in plain PyTorch, and what must not change its results."""

import math
import random

import pytest
import torch
import torch.nn.functional as F
from helpers.tiny import new_model
from torch import nn

from carousel.cells import registry
from carousel.data import END, START, UNK, TextBatch, Vocabulary
from carousel.networks.encoder import SequenceDropout
from carousel.tasks.lm import network as language
from carousel.tasks.lm.data import LanguageAssets
from carousel.tasks.lm.network import LanguageNetwork
from carousel.tasks.lm.settings import LanguageSettings

LINES = ["abba", "a cab", "back and forth", "b", "dada is cabaret", "a bad cad", "fade  away", "zebra"]


@pytest.fixture
def make(tmp_path):
    """A model with weights far from zero, so that errors show; its text is in `path`."""
    path = tmp_path / "text.txt"
    path.write_text("\n".join(LINES) + "\n", "utf-8")

    def model(**given):
        small = {"hidden": 7, "embedding": 5, "dropout": 0.0, "batch_size": 3, "bptt": 6, "min_frequency": 2}
        settings = LanguageSettings.read({"train": path, "cache": tmp_path / "cache", **small, **given})
        torch.manual_seed(3)
        made = new_model(settings)[0]
        network = made.network.eval()
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.mul_(2).add_(torch.randn_like(parameter) * 0.3)
            network.embedder.weight[0] = 0
        return made

    model.path = path
    return model


@torch.no_grad()
def plain_log_probs(model, ids, start=START):
    """log p of each id given those before it, from one unbroken pass in torch's own parts."""
    lstm = nn.LSTM(model.settings.embedding, model.settings.hidden, model.settings.layers)
    lstm.load_state_dict(model.network.layers.state_dict())
    x = F.embedding(torch.tensor([start, *ids[:-1]]), model.network.embedder.weight)
    x, _ = lstm(x.unsqueeze(1))
    x = x.squeeze(1)
    if model.network.project is not None:
        x = x @ model.network.project.weight.T
    logits = x @ model.network.output_weight.T + model.network.bias
    return logits.double().log_softmax(-1)[range(len(ids)), ids].tolist()


def ids_of(model, text):
    """By hand: a character is its place in the vocabulary, or unknown."""
    return [model.vocabulary.tokens.index(c) if c in model.vocabulary.tokens else UNK for c in text]


NETWORKS = {
    "tied with projection": {},
    "tied": {"hidden": 5},
    "not tied": {"tied": False},
    "two layers": {"layers": 2},
}


@pytest.mark.parametrize("given", NETWORKS.values(), ids=NETWORKS)
def test_evaluating_lines(make, given):
    model = make(**given)
    every, inner, characters = [], [], 0
    for line in LINES:
        found = plain_log_probs(model, [*ids_of(model, line), END])
        every += found
        inner += found[:-1]
        characters += len(line) + 1
    told = model.evaluate(make.path)
    assert told["perplexity"] == pytest.approx(math.exp(-sum(every) / len(every)), rel=1e-5)
    assert told["perplexity_without_end"] == pytest.approx(math.exp(-sum(inner) / len(inner)), rel=1e-5)
    assert told["bits_per_character"] == pytest.approx(-sum(every) / math.log(2) / characters, rel=1e-5)
    assert told["tokens"] == len(every)
    assert told["unknown"] == sum(ids_of(model, line).count(UNK) for line in LINES) > 0


@pytest.mark.parametrize("layout", ["running", "sentences"])
@pytest.mark.parametrize("given", NETWORKS.values(), ids=NETWORKS)
def test_evaluating_running_text(make, given, layout, monkeypatch):
    """The state is carried, so that windows give what one unbroken pass gives."""
    model = make(layout=layout, **given)
    ids = []
    for line in LINES:
        ids += [*ids_of(model, line), model.vocabulary.id("\n") if layout == "running" else END]
    found = plain_log_probs(model, ids)
    inner = [p for p, i in zip(found, ids, strict=True) if i != END]
    told = model.evaluate(make.path)
    assert told["perplexity"] == pytest.approx(math.exp(-sum(found) / len(found)), rel=1e-5)
    assert told["perplexity_without_end"] == pytest.approx(math.exp(-sum(inner) / len(inner)), rel=1e-5)
    characters = len(make.path.read_text("utf-8"))
    assert told["bits_per_character"] == pytest.approx(-sum(found) / math.log(2) / characters, rel=1e-5)
    monkeypatch.setattr(language, "WINDOW", 5)
    assert model.evaluate(make.path)["perplexity"] == pytest.approx(told["perplexity"], rel=1e-6)


def test_words(make):
    model = make(tokens="word", min_frequency=1)
    every = []
    for line in LINES:
        every += plain_log_probs(model, [*(model.vocabulary.id(word) for word in line.split()), END])
    told = model.evaluate(make.path)
    assert told["perplexity"] == pytest.approx(math.exp(-sum(every) / len(every)), rel=1e-5)
    characters = sum(len(line) + 1 for line in LINES)
    assert told["bits_per_character"] == pytest.approx(-sum(every) / math.log(2) / characters, rel=1e-5)


def test_scoring(make):
    model = make()
    for line, found in zip(LINES, model.score(LINES), strict=True):
        expected = plain_log_probs(model, [*ids_of(model, line), END])
        assert found.log_probs == pytest.approx(expected, abs=1e-5)
        assert found.total == pytest.approx(sum(expected), abs=1e-4)
        assert found.perplexity == pytest.approx(math.exp(-sum(expected) / len(expected)), rel=1e-5)
        assert found.tokens[-1] == "[END]"
        assert [t if t != "[UNK]" else "?" for t in found.tokens[:-1]] == [
            c if c in model.vocabulary.tokens else "?" for c in line
        ]


def test_scores_add_up_to_the_evaluation(make):
    model = make()
    total = sum(found.total for found in model.score(LINES))
    told = model.evaluate(make.path)
    assert told["perplexity"] == pytest.approx(math.exp(-total / told["tokens"]), rel=1e-6)


def test_scoring_sentences_of_running_text(make):
    """A sentence follows the end of another; of running text no end is expected."""
    found = next(make(layout="sentences").score(["abba"]))
    model = make(layout="sentences")
    assert found.log_probs == pytest.approx(plain_log_probs(model, [*ids_of(model, "abba"), END], start=END), abs=1e-5)
    model = make(layout="running")
    found = next(model.score(["abba"]))
    assert found.log_probs == pytest.approx(plain_log_probs(model, ids_of(model, "abba")), abs=1e-5)
    assert [score.tokens for score in model.score([""])] == [[]]
    assert [found.line for found in model.score("abba")] == ["abba"]


def test_long_lines_are_read_in_windows(make, monkeypatch):
    model = make()
    line = "".join(random.Random(0).choice("abcd ef") for _ in range(500))
    whole = next(model.score([line])).log_probs
    told = model.evaluate(make.path)
    monkeypatch.setattr(language, "WINDOW", 7)
    assert next(model.score([line])).log_probs == pytest.approx(whole, abs=1e-5)
    assert model.evaluate(make.path) == pytest.approx(told, rel=1e-6)


# ---------------------------------------------------------------- the loss


def batch_of(model, lines, padding=0):
    """A batch by hand; `padding` more steps of it."""
    rows = [[*ids_of(model, line), END] for line in lines]
    steps = max(map(len, rows)) + padding
    targets = torch.tensor([row + [0] * (steps - len(row)) for row in rows]).T
    inputs = torch.cat((torch.full((1, len(rows)), START), targets[:-1])) * (targets > 0)
    lengths = torch.tensor([len(row) for row in rows])
    return TextBatch(inputs, targets, lengths, torch.arange(len(rows)), int(lengths.sum()))


def gradients(model, *losses):
    model.network.zero_grad()
    sum(losses).backward()
    return {name: parameter.grad.clone() for name, parameter in model.network.named_parameters()}


def test_the_loss_is_the_mean_of_what_is_there(make):
    """Lines one by one, weighed by their tokens, give the loss and the gradient of the batch."""
    model = make()
    batch = batch_of(model, LINES)
    together = model.network.loss(batch)
    alone = [model.network.loss(batch_of(model, [line])) for line in LINES]
    assert together.weight == sum(loss.weight for loss in alone) == sum(len(line) + 1 for line in LINES)
    mean = sum(loss.mean * loss.weight for loss in alone) / together.weight
    torch.testing.assert_close(together.mean, mean)
    torch.testing.assert_close(gradients(model, together.mean), gradients(model, mean), rtol=1e-4, atol=1e-6)


def test_padding_has_no_effect(make):
    model = make()
    plain, padded = (model.network.loss(batch_of(model, LINES[:4], padding=n)).mean for n in (0, 9))
    torch.testing.assert_close(plain, padded)
    torch.testing.assert_close(gradients(model, plain), gradients(model, padded), rtol=1e-4, atol=1e-6)


def test_what_stands_in_the_padding_has_no_effect(make):
    model = make(tied=False)
    batch = batch_of(model, LINES[:4])
    other = TextBatch(
        torch.where(batch.targets > 0, batch.inputs, 5), batch.targets, batch.lengths, batch.rows, batch.tokens
    )
    torch.testing.assert_close(model.network.loss(batch).mean, model.network.loss(other).mean, rtol=0, atol=0)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.6])
def test_label_smoothing_is_torchs(make, smoothing):
    model = make(label_smoothing=smoothing)
    batch = batch_of(model, LINES)
    x, _ = model.network.read(batch.inputs, None, batch.lengths)
    logits = (x @ model.network.output_weight.T + model.network.bias).flatten(0, 1)
    expected = F.cross_entropy(logits, batch.targets.flatten(), ignore_index=0, label_smoothing=smoothing)
    torch.testing.assert_close(model.network.loss(batch).mean, expected)


def test_smoothing_is_not_part_of_the_perplexity(make):
    assert make(label_smoothing=0.5).evaluate(make.path) == make().evaluate(make.path)


def test_the_batch_has_no_effect_on_the_evaluation(make, monkeypatch):
    from carousel.data import LineBatches

    model = make()
    told = model.evaluate(make.path)
    for sequences in (1, 2, 5):
        monkeypatch.setattr(
            LanguageSettings, "reading_batches", lambda self, store, n=sequences: LineBatches(store, sequences=n)
        )
        assert model.evaluate(make.path) == pytest.approx(told, rel=1e-6)


def test_a_state_is_carried_through_running_text(make):
    """Training windows, one after the other, lose what one unbroken pass loses."""
    model = make(layout="running", batch_size=1, bptt=6)
    text = make.path.read_text("utf-8")
    expected = plain_log_probs(model, ids_of(model, text))
    batches = model.settings.training_batches(model.settings.store(make.path, model.vocabulary))
    total = sum(loss.mean.item() * loss.weight for loss in map(model.network.loss, batches))
    assert total == pytest.approx(-sum(expected), rel=1e-5)
    again = sum(loss.mean.item() * loss.weight for loss in map(model.network.loss, batches))
    assert again == pytest.approx(total, rel=1e-6)  # the next epoch begins afresh
    kept = model.network.carried
    assert {part.requires_grad for part in kept.values()} == {False}
    other = make(layout="running")
    other.carried = kept
    torch.testing.assert_close(other.carried, kept, rtol=0, atol=0)


# ---------------------------------------------------------------- parts


@pytest.mark.learning
@pytest.mark.parametrize(  # full peepholes take more updates than there is time for where the state is carried
    ("cell", "layout"),
    [(cell, how) for cell in registry() for how in ("lines", "running") if (cell, how) != ("peephole-full", "running")],
)
def test_every_cell_learns(make, cell, layout, reached):
    """A text in which each character follows from the last, with every kind of noise. Guessing gives a perplexity of 8,
    the frequencies of the characters one of 4, and to know the last character one of 1, but for a line's end."""
    make.path.write_text("abcdabcdabcd\n" * 12, "utf-8")
    noise = {"dropout": 0.1, "recurrent_dropout": 0.1, "weight_drop": 0.1, "zoneout": 0.1, "embedding_dropout": 0.1}
    model = make(cell=cell, layout=layout, layers=2, hidden=24, embedding=12, **noise)
    batches = model.settings.training_batches(model.settings.store(make.path, model.vocabulary))
    optimizer = torch.optim.Adam(model.network.parameters(), lr=0.03)
    before = model.evaluate(make.path)["perplexity"]
    model.network.train()
    for _ in range(15):
        for batch in batches:
            optimizer.zero_grad()
            model.network.loss(batch).mean.backward()
            assert all(torch.isfinite(p.grad).all() for p in model.network.parameters() if p.grad is not None)
            optimizer.step()
    reached("perplexity", model.evaluate(make.path)["perplexity"], below=2)
    reached("perplexity before", before, above=4)
    assert model.generate(max_length=20, seed=1).text is not None


@pytest.mark.parametrize("bias", [None, 0.0, 2.5])
def test_the_forget_bias(bias):
    """Of torch's two biases together; the second quarter is the forget gate's."""
    settings = LanguageSettings(train="t", hidden=4, embedding=4, layers=2, forget_bias=bias)
    layers = LanguageNetwork(settings, LanguageAssets(Vocabulary.train(["ab"]))).layers
    for k in range(2):
        total = (getattr(layers, f"bias_ih_l{k}") + getattr(layers, f"bias_hh_l{k}"))[4:8]
        torch.testing.assert_close(total, torch.full((4,), 1.0 if bias is None else bias))


def test_tied_means_one_matrix(make):
    model = make(hidden=5)
    assert model.network.output_weight is model.network.embedder.weight
    assert "output" not in model.network.state_dict()
    assert make(tied=False).network.output_weight.shape == (len(model.vocabulary), 7)


def test_padding_is_the_zero_vector_and_stays_so(make):
    model = make(tied=False)
    assert not model.network.embedder(torch.tensor([0])).any()
    model.network.loss(batch_of(model, LINES)).mean.backward()
    assert not model.network.embedder.weight.grad[0].any()


def test_dropout_of_sequences():
    x = torch.ones(50, 4, 30)
    drop = SequenceDropout(0.4, variational=True)
    y = drop(x)
    assert torch.equal(y, y[:1].expand_as(y))  # one mask for all steps
    assert y.unique().tolist() == [0.0, pytest.approx(1 / 0.6, rel=1e-4)]
    plain = SequenceDropout(0.4)(x)
    assert not torch.equal(plain, plain[:1].expand_as(plain))
    assert plain.mean().item() == pytest.approx(1, abs=0.06)
    assert drop.eval()(x) is x


def test_hidden_tokens_are_hidden_at_every_place(make):
    model = make(embedding_dropout=0.5)
    model.network.train()
    vectors = model.network.embedder(torch.arange(4, len(model.vocabulary)).repeat(3, 1))
    assert torch.equal(vectors[0], vectors[1])
    hidden = ~vectors[0].any(-1)
    assert 0 < hidden.sum() < len(hidden)


def test_evaluating_draws_nothing(make):
    model = make(dropout=0.5, recurrent_dropout=0.3, weight_drop=0.3, zoneout=0.3, embedding_dropout=0.3)
    assert model.evaluate(make.path) == model.evaluate(make.path)
