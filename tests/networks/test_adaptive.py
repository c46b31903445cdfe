"""The adaptive softmax against torch.nn.AdaptiveLogSoftmaxWithLoss with the same weights."""

import pytest
import torch

import carousel
from carousel.errors import ArgumentError, SettingsError
from carousel.networks.adaptive import AdaptivePredictor, AdaptiveSoftmax


def both(dtype=torch.float64, features=32, size=300, cutoffs=(20, 80)):
    torch.manual_seed(0)
    theirs = torch.nn.AdaptiveLogSoftmaxWithLoss(features, size, list(cutoffs), head_bias=True, dtype=dtype)
    ours = AdaptiveSoftmax(features, size, cutoffs).to(dtype)
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("high", [300, 80, 20])  # with tokens of every cluster, without the last, of the head alone
def test_loss_and_gradients(dtype, high):
    ours, theirs = both(dtype)
    x = torch.randn(50, 32, dtype=dtype)
    targets = torch.randint(high, (50,))
    inputs = [x.clone().requires_grad_() for _ in range(2)]
    loss, expected = ours.loss(inputs[0], targets), theirs(inputs[1], targets)
    torch.testing.assert_close(loss, expected.loss, atol=1e-5, rtol=1e-5)
    loss.backward()
    expected.loss.backward()
    torch.testing.assert_close(inputs[0].grad, inputs[1].grad, atol=1e-5, rtol=1e-5)
    for (name, one), other in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        grad = torch.zeros_like(other) if other.grad is None else other.grad
        torch.testing.assert_close(one.grad, grad, atol=1e-5, rtol=1e-5, msg=name)
    each = ours.loss(x, targets, reduction="none")
    torch.testing.assert_close(each, -expected.output.detach(), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(ours.loss(x, targets, reduction="sum"), -expected.output.sum(), atol=1e-4, rtol=1e-5)


def test_gradients_of_each_loss():
    ours, theirs = both()
    x, targets, scale = torch.randn(50, 32).double(), torch.randint(300, (50,)), torch.randn(50).double()
    (ours.loss(x, targets, reduction="none") * scale).sum().backward()
    (-theirs(x, targets).output * scale).sum().backward()
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, atol=1e-8, rtol=1e-8)


def test_ignored_targets_count_for_nothing():
    ours, theirs = both()
    x, targets = torch.randn(4, 6, 32).double(), torch.randint(1, 300, (4, 6))
    targets[2:, 3] = 0
    kept = targets != 0
    expected = theirs(x[kept], targets[kept])
    torch.testing.assert_close(ours.loss(x, targets, ignore_index=0), expected.loss)
    each = ours.loss(x, targets, ignore_index=0, reduction="none")
    assert each.shape == (4, 6)
    assert (each[~kept] == 0).all()
    torch.testing.assert_close(each[kept], -expected.output)


def test_all_log_probabilities():
    ours, theirs = both(torch.float32)
    x = torch.randn(9, 32)
    with torch.no_grad():
        torch.testing.assert_close(AdaptivePredictor(ours)(x), theirs.log_prob(x), atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(AdaptivePredictor(ours)(x).logsumexp(1), torch.zeros(9), atol=1e-5, rtol=0)


def test_bad_cutoffs():
    for cutoffs in ([], [0, 5], [5, 5], [5, 300], [80, 20]):
        with pytest.raises(ArgumentError, match="cutoffs must rise from 1 to below 300"):
            AdaptiveSoftmax(8, 300, cutoffs)


WORDS = [f"a b c d w{4 * k} e f g h w{4 * k + 1} w{4 * k + 2} a c e w{4 * k + 3}" for k in range(60)]
TINY = {
    "tokens": "word",
    "min_frequency": 1,
    "tied": False,
    "output": "adaptive",
    "hidden": 32,
    "embedding": 8,
    "dropout": 0,
    "quiet": True,
}


@pytest.mark.learning
def test_a_language_model(tmp_path):
    model = carousel.train("lm", WORDS, dev=WORDS[:20], out=tmp_path / "run", epochs=8, lr=0.02, batch_size=8, **TINY)
    assert model.network.adaptive.cutoffs == [10, 50, 252]  # 1/25 and 1/5
    assert "adaptive softmax: 10 tokens in the head" in (tmp_path / "run/report.html").read_text("utf-8")
    reached = carousel.evaluate(tmp_path / "run", WORDS[:20])["perplexity"]
    scored = list(model.score(WORDS[:20]))
    mean = sum(line.total for line in scored) / sum(len(line.tokens) for line in scored)
    assert reached == pytest.approx(torch.tensor(-mean).exp().item(), rel=1e-4)
    assert reached < 40
    # What a search adds up along its way is what scoring gives the same tokens.
    generation = model.generate(num_beams=3, max_length=5)
    text = next(model.score(generation.text))
    assert generation.log_prob == pytest.approx(sum(text.log_probs[: len(generation.tokens)]), abs=1e-4)
    assert model.generate(seed=1, max_length=4).text == model.generate(seed=1, max_length=4).text


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"tied": True}, "output='adaptive' has matrices of its own, which nothing can share; give tied=False"),
        ({"label_smoothing": 0.1}, "output='adaptive' has no label smoothing; leave out label_smoothing"),
        ({"tokens": "bpe"}, "output='adaptive' needs tokens in order of frequency"),
        ({"tokens": "character"}, "output='adaptive': it is for 200 tokens and more, this vocabulary has"),
    ],
)
def test_what_does_not_go_together(change, says, tmp_path):
    with pytest.raises(SettingsError, match=says):
        carousel.train("lm", WORDS, dev=WORDS[:9], out=tmp_path / "run", **{**TINY, **change})
    assert not (tmp_path / "run").exists()
