"""Searches for translations: against one another, and against the network's own probabilities."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from helpers.translators import LETTERS, batch_of, teacher_forced, untrained
from hypothesis import given
from hypothesis import strategies as st

from carousel.data import END, START
from carousel.decoding import Beam, Exhaustive, GenerationConfig, Greedy, search

lines_of_letters = st.lists(
    st.lists(st.sampled_from(LETTERS), min_size=1, max_size=6).map(" ".join), min_size=1, max_size=6
)


DECODERS = [{}, {"input_feeding": True}, {"decoder": "bahdanau"}]


@given(
    lines_of_letters,
    st.integers(1, 4),
    st.sampled_from([{"attention": "none"}, *({"attention": a, **d} for a in ("additive", "dot") for d in DECODERS)]),
)
def test_a_translation_does_not_depend_on_its_neighbours(lines, beam, network):
    model = untrained(**network)
    options = {"num_beams": beam, "num_return_sequences": beam, "attention": True}
    together = model.translate(lines, batch_size=4, **options)
    for line, found in zip(lines, together, strict=True):
        alone = model.translate(line, **options)
        assert [one.tokens for one in found.sequences] == [one.tokens for one in alone.sequences]
        np.testing.assert_allclose(
            [one.log_prob for one in found.sequences], [one.log_prob for one in alone.sequences], atol=1e-4
        )
        if network["attention"] != "none":
            torch.testing.assert_close(found.attention, alone.attention, atol=1e-5, rtol=1e-4)


@given(lines_of_letters, st.integers(0, 3))
def test_a_beam_of_one_is_greedy(lines, seed):
    model = untrained(seed)
    for line in lines:
        ids = model.source_vocabulary.encode(line).astype(np.int64)
        stepper = model.network.stepper(torch.from_numpy(ids).unsqueeze(1), torch.tensor([len(ids)]))
        [[greedy]], [[beam]] = (
            search(stepper, 1, strategy, start=START, end=END, max_length=12) for strategy in (Greedy(), Beam(1))
        )
        assert greedy.tokens == beam.tokens


@pytest.mark.parametrize("length", ["mean", "none", "gnmt"])
def test_a_wide_beam_finds_what_is_best(length):
    model = untrained(3, words="ab")
    sources = [np.array([4, 5]), np.array([5])]
    norm = GenerationConfig(num_beams=5, length_normalization=length).length_norm()
    for ids in sources:
        source = torch.from_numpy(ids).unsqueeze(1), torch.tensor([len(ids)])
        steppers = [model.network.stepper(*source) for _ in range(2)]
        common = {"start": START, "end": END, "max_length": 4}
        every = search(steppers[0], 1, Exhaustive(n_best=3, length=norm), **common)
        wide = search(steppers[1], 1, Beam(6**4, n_best=3, length=norm, completed=10**6, wide=True), **common)
        assert [one.tokens for one in every[0]] == [one.tokens for one in wide[0]]


@pytest.mark.learning
def test_scores_are_the_model_s_own(trained):
    made = trained.translate("a b c", num_return_sequences=3, attention=True)
    assert made.score >= made.others[0].score >= made.others[1].score
    for one in made.sequences:
        target = trained.target_vocabulary.encode(one.text)
        assert one.finished and one.tokens[-1] == "[END]"
        batch = batch_of((trained.source_vocabulary.encode("a b c"), target))
        vectors, weights = teacher_forced(trained.network, batch)
        log_probs = F.linear(vectors, trained.network.output_weight, trained.network.bias).log_softmax(2)
        expected = log_probs.gather(2, batch.targets.unsqueeze(2)).sum()
        assert one.log_prob == pytest.approx(float(expected.detach()), abs=1e-4)
        assert one.score == pytest.approx(one.log_prob / len(one.tokens))
        torch.testing.assert_close(one.attention, weights[:, 0], atol=1e-5, rtol=1e-4)
