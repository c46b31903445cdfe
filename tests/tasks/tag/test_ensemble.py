"""Taggers as one."""

import math
import statistics

import pytest
from helpers.ensembles import check_mean, check_spread


@pytest.mark.parametrize("ensemble", ["softmax"], indirect=True)
def test_a_prediction_is_the_mean_of_the_members_predictions(ensemble):
    check_mean(ensemble)


@pytest.mark.parametrize("ensemble", ["crf", "softmax"], indirect=True)
def test_the_evaluation_has_the_spread_of_the_members(ensemble):
    check_spread(ensemble)


@pytest.mark.parametrize("ensemble", ["crf"], indirect=True)
def test_a_tagging_has_the_geometric_mean_of_what_members_give_it(ensemble):
    _, data, model, _ = ensemble
    words = [word for word, _ in data[0]]
    total = len(model.vocabulary.tags) ** len(words)
    each = []
    for one in [*model.members, model]:
        best = one.predict([words], n_best=total)[0]
        each.append({tuple(tags): p for tags, p in zip(best.taggings, best.log_probs, strict=True)})
    *members, own = each
    mean = {tags: statistics.mean(member[tags] for member in members) for tags in own}
    norm = math.log(sum(math.exp(p) for p in mean.values()))
    assert own == pytest.approx({tags: p - norm for tags, p in mean.items()}, abs=1e-4)
