"""Labs on a model of one's own: what its layers read, against the embedder by hand; what they do, against the trace."""

import json
import math

import pytest
import torch

import carousel
from carousel import lab
from carousel.data import Vocabulary
from carousel.inspect import LayerReading, read_layers
from carousel.lab.claims import jacobian, vanishing
from carousel.lab.gate_use import by_token, gate_use
from carousel.tasks.lm.data import LanguageAssets
from carousel.tasks.lm.settings import LanguageSettings
from carousel.tasks.lm.task import LanguageTask
from carousel.tasks.tag.data import TagAssets
from carousel.tasks.tag.examples import TagVocabulary
from carousel.tasks.tag.settings import TagSettings
from carousel.tasks.tag.task import Tag

LINES = ["abcab", "ba", "cabbagecab", "aaaaaaa", "bcbcbcbc"]


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "dev.txt"
    path.write_text("\n".join(LINES) + "\n", "utf-8")
    return path


@pytest.fixture
def lm(text, tmp_path):
    def make(**given):
        usual = {"train": "gone.txt", "dev": text, "hidden": 5, "embedding": 4, "cache": tmp_path / "cache"}
        settings = LanguageSettings(**{**usual, **given})
        assets = LanguageAssets(Vocabulary.train(LINES))
        return LanguageTask.make_model(LanguageTask.make_network(settings, assets).eval(), assets)

    return make


@pytest.fixture
def tagger(tmp_path):
    path = tmp_path / "names.conll"
    path.write_text("Ada\tB-PER\nsat\tO\ndown\tO\n\nSit\tO\nAda\tB-PER\n\n", "utf-8")
    words, letters = Vocabulary.train(["ada sat down sit"], "word"), Vocabulary.train(["Ada sat down Sit"])
    assets = TagAssets(TagVocabulary(words, letters, ["O", "B-PER", "I-PER"], "iob2", "iob2", frozenset()))
    small = {"embedding": 6, "hidden": 4, "character_embedding": 3, "character_hidden": 2}
    settings = TagSettings(train=path, cache=tmp_path / "cache", **small)
    return Tag.make_model(Tag.make_network(settings, assets).eval(), assets)


def test_what_a_language_model_s_layers_read(lm, text):
    model = lm()
    found = read_layers(model)
    assert found.name == "layers"
    assert found.layer is model.network.layers
    assert found.source == f"the 5 longest sequences of {text}"
    longest = sorted(LINES, key=len, reverse=True)
    assert found.tokens == tuple(("[START]", *line) for line in longest)
    for k, line in enumerate(longest):
        ids = torch.tensor([1, *(int(i) for i in model.vocabulary.encode(line))])
        assert found.lengths[k] == len(ids)
        assert torch.equal(found.x[: len(ids), k], model.network.embedder(ids).detach())
    assert not model.network.layers._forward_pre_hooks  # as it was
    assert model.evaluate(text)["tokens"] == sum(len(line) + 1 for line in LINES)


def test_a_tagger_s_words_come_with_their_letters(tagger):
    found = read_layers(tagger)
    assert found.layer is tagger.network.layers  # and not that of the letters
    assert found.x.shape == (3, 2, tagger.network.layers.input_size)
    assert tagger.network.layers.input_size > 6
    assert found.tokens[0] == tuple(
        tagger.vocabulary.words.token(int(i)) for i in tagger.vocabulary.words.encode("ada sat down")
    )
    seen = []
    hook = tagger.network.layers.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    tagger.predict("Ada sat down")
    hook.remove()
    torch.testing.assert_close(found.x[:, 0], seen[0][:, 0])


def test_layer_input_is_what_the_layers_are_called_with(tmp_path, monkeypatch):
    """For every task with recurrent layers, against what a hook sees while the model is evaluated."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    texts = ["a fine film", "dull", "what a day", "a b c d e f"]
    small = {"epochs": 1, "threads": 1, "quiet": True, "report": False, "hidden": 4, "embedding": 4}
    tagged = [[(word, "ND"[len(word) > 2]) for word in text.split()] for text in texts]
    both = [(text, text[::-1]) for text in texts]
    series = {**small, "horizon": 2, "context": 6, "holdout": 0.4}
    cases = {
        "lm": (texts, small), "bilm": (texts, {**small, "min_frequency": 1}),
        "classify": ([(text, str(len(text) % 2)) for text in texts], small),
        "encode": ([(*pair, float(k)) for k, pair in enumerate(both)], small),
        "tag": (tagged, {**small, "min_frequency": 1}),
        "translate": (both, {**small, "tokens": "character"}),
        "forecast": ([math.sin(t / 2) for t in range(60)], {k: v for k, v in series.items() if k != "embedding"}),
    }  # fmt: skip
    for name, (data, settings) in cases.items():
        model = carousel.train(name, data, out=tmp_path / name, **settings)
        files = sorted((tmp_path / name / "data").glob("train.*"))
        found = read_layers(model, files)
        seen = []
        hook = found.layer.register_forward_pre_hook(lambda module, args: seen.append(args[0]))  # noqa: B023
        for batch in model.batches(*files):
            model.network.metric().add(batch)
        hook.remove()
        assert model.network.get_submodule(found.name) is found.layer
        torch.testing.assert_close(seen[0][:, : found.x.shape[1]], found.x, msg=name)
        assert found.x.shape[:2] == (int(found.lengths.max()), len(found.lengths)), name
        assert not found.tokens or [len(row) for row in found.tokens] == found.lengths.tolist(), name


def test_what_cannot_be_read_is_said(lm, tmp_path):
    model = lm(dev=None)
    with pytest.raises(ValueError, match=r"gone.txt: no such file, .*; give it with data"):
        read_layers(model)
    with pytest.raises(ValueError, match="only a model of a run can read a file"):
        read_layers(carousel.LSTM(2, 3), "some.txt")
    with pytest.raises(ValueError, match="the model has no recurrent layer"):
        read_layers(torch.nn.Linear(2, 2))
    with pytest.raises(ValueError, match="has no gate that keeps the past; give an LSTM or GRU"):
        lab.forget_argmax(1, samples=1, model=carousel.RNN(2, 3))


@pytest.mark.parametrize("kind", [carousel.LSTM, carousel.GRU, carousel.LayerNormLSTM, carousel.RNN])
def test_the_first_layer_alone_says_what_it_said_among_the_others(kind):
    layer = kind(3, 4, num_layers=2, bidirectional=True)
    x = torch.randn(6, 2, 3)
    alone, longest = LayerReading("", layer, x, torch.tensor([4, 6]), "").first()
    assert torch.equal(longest, x[:, 1:].double())
    expected = layer.trace(x).states["h"][0, :, 1]
    torch.testing.assert_close(alone(longest)[0][:, 0].float(), expected, atol=1e-5, rtol=1e-5)


# ---------------------------------------------------------------- gates


def test_shares_of_shut_and_open_by_hand():
    layer = carousel.LSTM(2, 3)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
        layer.weight_ih_l0[3, 0] = 100  # f of unit 0 is open where x₀ = 1, shut where it is −1, ½ where it is 0
    x = torch.zeros(4, 2, 2)
    x[:, 0, 0] = torch.tensor([1.0, 1.0, -1.0, 0.0])
    x[:, 1, 0] = torch.tensor([-1.0, 1.0, 1.0, 1.0])  # of which only the first is real
    found = LayerReading("n", layer, x, torch.tensor([4, 1]), "", (("a", "a", "b", "c"), ("b",)))
    use = {one.gate: one for one in gate_use(found)}
    assert set(use) == {"i", "f", "o"}
    assert use["f"].layer == "n.l0"
    assert use["f"].shut == pytest.approx((0.4, 0, 0))
    assert use["f"].open == pytest.approx((0.4, 0, 0))
    assert use["i"].shut == use["i"].open == (0, 0, 0)
    assert use["f"].mean == pytest.approx((2 * 1 + 2 * 0 + 0.5 + 2 * 5 * 0.5) / 15)
    assert by_token(found) == []  # no token five times


def test_tokens_at_which_it_lets_go():
    layer = carousel.GRU(1, 2)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
        layer.weight_ih_l0[2:4, 0] = 2  # z of both units
    x = torch.tensor([-1.0, 1.0] * 5).reshape(10, 1, 1)
    found = by_token(LayerReading("n", layer, x, torch.tensor([10]), "", (("x", "y") * 5,)))
    assert found == [
        ("x", pytest.approx(1 / (1 + math.e**2)), 5),
        ("y", pytest.approx(1 / (1 + math.e**-2)), 5),
    ]


# ---------------------------------------------------------------- memory and spectrum


def test_what_is_left_of_a_changed_input_in_a_linear_memory():
    """One unit, h = tanh(x + w h₋) with small x: a change is worth wᵏ after k steps."""
    layer = carousel.RNN(1, 1)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
        layer.weight_ih_l0.fill_(1)
        layer.weight_hh_l0.fill_(0.5)
    x = 1e-3 * torch.randn(40, 3, 1)
    found = vanishing.remember(LayerReading("n", layer, x, torch.tensor([40, 30, 20]), "it"))
    assert found.left[:10] == pytest.approx([0.5**k for k in range(10)], rel=1e-2)
    assert found.horizon == 7  # 0.5⁷ < 0.01 < 0.5⁶
    with pytest.raises(ValueError, match="none has more than 4 steps"):
        vanishing.remember(LayerReading("n", layer, x, torch.tensor([4, 3, 2]), "it"))
    with pytest.raises(ValueError, match="no input differs from the others"):
        vanishing.remember(LayerReading("n", layer, torch.ones(9, 1, 1), torch.tensor([9]), "it"))


def test_the_spectrum_of_a_known_matrix():
    layer = carousel.RNN(1, 2)
    turn = torch.tensor([[0.6, -0.8], [0.8, 0.6]])
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
        layer.weight_hh_l0.copy_(0.9 * turn)  # h stays 0, where tanh has slope 1
    found = jacobian.spectrum_of(LayerReading("n", layer, torch.zeros(30, 1, 1), torch.tensor([30]), "it"))
    assert found.steps == (0, 6, 12, 17, 23, 29)
    for values in found.eigenvalues:
        assert sorted(values) == [pytest.approx((0.54, -0.72)), pytest.approx((0.54, 0.72))]
    assert found.radius == pytest.approx(0.9)
    assert found.norms == pytest.approx((0.9,) * 6)
    assert found.slow == 0  # 0.9¹⁰ is 0.35


def test_three_labs_look_at_a_model(lm):
    model = lm(layers=2)
    for found in (
        lab.vanishing(20, hidden=3, model=model),
        lab.jacobian(6, hidden=2, model=model),
        lab.forget_argmax(2, samples=10, model=model),
    ):
        page = found.page().html().split("<main>")[1]
        assert "longest sequences of" in page
        assert page.count("<figure") == len(found.figures()) > 1
        assert json.loads(json.dumps(found.numbers())).keys()
        assert str(found)
    assert {one.layer for one in found.use} == {"layers.l0", "layers.l1"}
    assert {token for token, *_ in found.tokens} == {"[START]", "a", "b", "c"}  # those that are read five times


def test_a_gru_has_a_gate_that_keeps(lm):
    model = lm(cell="gru")
    (found,) = lab.forget_argmax(1, samples=1, model=model).preferences
    rows = slice(5, 10)  # z of r z n
    assert found.norms == pytest.approx(model.network.layers.weight_hh_l0[rows].norm(dim=1).tolist())
    assert found.biases == pytest.approx(
        (model.network.layers.bias_ih_l0 + model.network.layers.bias_hh_l0)[rows].tolist()
    )


def test_a_bidirectional_tagger_can_be_looked_at(tagger):
    found = lab.forget_argmax(1, samples=1, model=tagger)
    assert [one.layer for one in found.preferences] == ["layers.l0", "layers.l0_reverse"]
    assert lab.jacobian(6, hidden=2, model=tagger).spectrum.radius > 0
