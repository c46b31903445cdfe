"""The baseline of a language model counts the tokens that its metric counts."""

import math

import numpy as np
import pytest

from carousel.tasks import find
from carousel.tasks.shared.ngrams import KneserNey, order_for

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.mark.parametrize("layout", ["lines", "sentences", "running"])
def test_the_language_models_tokens_are_counted(layout, tmp_path):
    """What is counted is what the network's metric counts; of one line again and again n-grams are almost sure."""
    (tmp_path / "train.txt").write_text("abcd\n" * 50)
    (tmp_path / "dev.txt").write_text("abcd\nabzd\n")
    task = find("lm")
    settings = task.Settings.read(
        {"train": tmp_path / "train.txt", "dev": tmp_path / "dev.txt", "layout": layout, "hidden": 4, "embedding": 4}
    )
    assets, data = task.prepare(settings)
    model = task.make_network(settings, assets).eval()
    metric = model.metric()
    for batch in data.dev:
        metric.add(batch)
    seen = []
    real = KneserNey.log_probs
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KneserNey, "log_probs", lambda self, text: seen.append(real(self, text)) or seen[-1])
        ((name, measure),) = task.baselines(settings, assets, data).items()
        value = measure()
    assert name == f"Kneser–Ney {order_for(len(assets.vocabulary))}-grams"
    assert len(seen[0]) == metric.count == {"lines": 10, "sentences": 10, "running": 10}[layout]
    assert value == pytest.approx(math.exp(-np.mean(seen[0])))
    assert np.exp(seen[0][1:4]).min() > 0.7 and np.exp(seen[0][7]) < 0.1  # bcd are likely, z is not
