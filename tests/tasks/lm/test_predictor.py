"""The language model against the same network in plain PyTorch, and what must not change its results."""

import math
import random

import pytest
import torch
from helpers.language_models import LINES, ids_of, plain_log_probs

from carousel import Clamp
from carousel.cells import registry
from carousel.data import END, UNK
from carousel.errors import CarouselError
from carousel.tasks.lm import network as language
from carousel.tasks.lm.settings import LanguageSettings

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


def test_a_trace_has_every_step(make):
    """Only files are cut, for labs."""
    model, text = make(), "abba " * 300
    trace = model.trace([text, "abx"])
    assert trace.h.shape[1] == len(trace.tokens[0]) == len(text) + 1 > language.WINDOW
    assert trace.tokens[1] == ("[START]", "a", "b", "x [UNK]")
    assert len(model.layer_input(model.batch_of([text])).x) == language.WINDOW


def test_a_clamp_of_nothing_can_be_put_right(make):
    with pytest.raises(CarouselError, match="Clamp: LSTM has no gate or state 'q'"):
        make().intervene("abba", Clamp("q", 0.0))


@pytest.mark.parametrize("layout", ["running", "sentences"])
@pytest.mark.parametrize("given", NETWORKS.values(), ids=NETWORKS)
def test_evaluating_running_text(make, given, layout, monkeypatch):
    """The state is carried, so that windows give what one unbroken pass gives."""
    model = make(layout=layout, **given)
    ids = []
    for line in LINES:
        ids += [*ids_of(model, line), model.vocabulary.id("\n") if layout == "running" else END]
    found = plain_log_probs(model, ids, model.settings.first_token)
    inner = [p for p, i in zip(found, ids, strict=True) if i != END]
    told = model.evaluate(make.path)
    assert told["perplexity"] == pytest.approx(math.exp(-sum(found) / len(found)), rel=1e-5)
    assert told.get("perplexity_without_end") == (
        None if layout == "running" else pytest.approx(math.exp(-sum(inner) / len(inner)), rel=1e-5)
    )
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


def test_evaluating_draws_nothing(make):
    model = make(dropout=0.5, recurrent_dropout=0.3, weight_drop=0.3, zoneout=0.3, embedding_dropout=0.3)
    assert model.evaluate(make.path) == model.evaluate(make.path)
