"""RecurrentStepper against the same model in plain torch."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.nn.functional as F

import carousel
from carousel.decoding import Ban, Beam, Bias, Length, NoRepeat, Prefix, Sample, TopK, search
from carousel.layers import BeamState, RecurrentStepper
from carousel.ops import backend

V, E, H = 50, 12, 20
KINDS = [
    carousel.RNN,
    carousel.LSTM,
    carousel.PeepholeLSTM,
    carousel.CoupledLSTM,
    carousel.LayerNormLSTM,
    carousel.GRU,
    carousel.ResetBeforeGRU,
]


def model(kind=carousel.LSTM, dtype=None, **options):
    torch.manual_seed(1)
    layer = kind(E, H, dtype=dtype, **options)
    words, out = torch.nn.Embedding(V, E, dtype=dtype), torch.nn.Linear(layer.output_size, V, dtype=dtype)
    return words, layer, out, RecurrentStepper(words.weight, layer, out.weight, out.bias)


def whole(words, layer, out, tokens):
    """The log-probabilities after each of tokens (T, N), by one call over the sequence: (T, N, V)."""
    with torch.no_grad():
        return out(layer(words(tokens))[0]).log_softmax(-1)


def by_steps(lm, tokens, state=None):
    said = []
    for now in tokens:
        log_probs, state = lm.step(now, state)
        said.append(log_probs)
    return torch.stack(said)


@pytest.mark.parametrize("rows", [1, 3, 5, 37])
@pytest.mark.parametrize("kind", KINDS)
def test_steps_give_what_the_sequence_gives(kind, rows):
    words, layer, out, lm = model(kind, num_layers=2)
    tokens = torch.randint(V, (6, rows))
    torch.testing.assert_close(by_steps(lm, tokens), whole(words, layer, out, tokens), atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    "options",
    [
        {"proj_size": 7},
        {"num_layers": 3, "proj_size": 5},
        {"learn_initial_state": True},
        {"zoneout": 0.2},
        {"bias": False},
    ],
    ids=repr,
)
def test_options(options):
    words, layer, out, lm = model(**options)
    if "learn_initial_state" in options:
        torch.nn.init.normal_(layer.initial_h_l0)
    layer.eval()
    tokens = torch.randint(V, (5, 9))
    torch.testing.assert_close(by_steps(lm, tokens), whole(words, layer, out, tokens), atol=1e-5, rtol=0)


def test_against_torch_itself():
    torch.manual_seed(0)
    lstm = torch.nn.LSTM(E, H, num_layers=2)
    words, layer, out, lm = model(num_layers=2)
    layer.load_state_dict(lstm.state_dict())
    tokens = torch.randint(V, (7, 6))
    with torch.no_grad():
        said = out(lstm(words(tokens))[0]).log_softmax(-1)
    torch.testing.assert_close(by_steps(lm, tokens), said, atol=1e-5, rtol=0)


def test_double_precision():
    words, layer, out, lm = model(dtype=torch.float64)
    tokens = torch.randint(V, (5, 6))
    torch.testing.assert_close(by_steps(lm, tokens), whole(words, layer, out, tokens), atol=1e-12, rtol=0)


def test_a_projection_and_one_matrix_for_embedding_and_output():
    words, layer, _, _ = model()
    project, bias = torch.nn.Linear(H, E), torch.randn(V)
    lm = RecurrentStepper(
        words.weight, layer, words.weight, bias, projection=project.weight, projection_bias=project.bias
    )
    tokens = torch.randint(V, (5, 6))
    with torch.no_grad():
        said = F.linear(project(layer(words(tokens))[0]), words.weight, bias).log_softmax(-1)
    torch.testing.assert_close(by_steps(lm, tokens), said, atol=1e-5, rtol=0)


def test_rows_do_not_depend_on_one_another():
    _, _, _, lm = model()
    tokens = torch.randint(V, (5, 40))
    together = by_steps(lm, tokens)
    for rows in (slice(0, 1), slice(3, 9), slice(7, 39)):
        torch.testing.assert_close(by_steps(lm, tokens[:, rows]), together[:, rows], atol=1e-6, rtol=0)


@pytest.mark.parametrize("kind", [carousel.GRU, carousel.LSTM])
def test_select(kind):
    _, _, _, lm = model(kind)
    tokens = torch.randint(V, (4, 5))
    _, state = lm.step(tokens[0], lm.start(5))
    rows = torch.tensor([4, 0, 0])
    picked = by_steps(lm, tokens[1:, rows], lm.select(state, rows))
    torch.testing.assert_close(picked, by_steps(lm, tokens[1:], state)[:, rows], atol=1e-6, rtol=0)
    assert lm.select(lm.start(5), rows) is None


def test_weights_are_read_when_a_sequence_begins():
    words, layer, out, lm = model()
    tokens = torch.randint(V, (3, 5))
    for change in (
        lambda: out.weight.data.mul_(2),
        lambda: layer.weight_hh_l0.data.normal_(),
        lambda: words.weight.data.normal_(),
        lambda: setattr(out.bias, "data", torch.randn(V)),
        lambda: [m.double() for m in (words, layer, out)],
    ):
        change()
        torch.testing.assert_close(by_steps(lm, tokens), whole(words, layer, out, tokens), atol=1e-5, rtol=0)


def test_rows_come_and_go():
    """Packed weights and those in place give the same, whichever is needed first."""
    words, layer, out, lm = model(num_layers=2, proj_size=7)
    tokens = torch.randint(V, (6, 9))
    want = whole(words, layer, out, tokens)
    for counts in ([2, 2, 9, 9, 3, 9], [9, 9, 1, 1, 9, 4]):
        state, rows = None, torch.arange(counts[0])
        for t, n in enumerate(counts):
            if t:
                wider = torch.arange(n) % len(rows)
                state, rows = lm.select(state, wider), rows[wider]
            log_probs, state = lm.step(tokens[t, rows], state)
            torch.testing.assert_close(log_probs, want[t, rows], atol=1e-5, rtol=0)


def test_several_threads_share_a_beginning():
    words, layer, out, lm = model()
    tokens = torch.randint(V, (40, 6))
    want = whole(words, layer, out, tokens)
    state = lm.step(tokens[0], None)[1].rows.state
    begun = lm.step(tokens[0, :2], None)[1]._replace(rows=BeamState(state))  # few rows: nothing is packed yet
    with ThreadPoolExecutor(4) as pool:
        for said in pool.map(lambda _: by_steps(lm, tokens[1:], begun), range(8)):
            torch.testing.assert_close(said, want[1:], atol=1e-5, rtol=0)


def test_without_kernels(monkeypatch):
    _, _, _, lm = model()
    tokens = torch.randint(V, (4, 5))
    fast = by_steps(lm, tokens)
    monkeypatch.setattr(backend, "MISSING", "no kernels")
    for name in ("step", "keep"):
        monkeypatch.setattr(f"carousel.layers.native.{name}", lambda *_: None)
    torch.testing.assert_close(by_steps(lm, tokens), fast, atol=1e-5, rtol=0)


def test_searching():
    words, layer, out, lm = model()
    ask = {"start": 1, "end": 0, "max_length": 12}
    for strategy in (Sample(TopK(5), copies=3), Beam(4)):
        for hypotheses in search(lm, [[], [3, 4], [5]], strategy, seed=1, **ask):
            assert hypotheses
    [[h]] = search(lm, [[7, 8]], seed=1, **ask)
    read = torch.tensor([1, 7, 8, *h.tokens[:-1]]).unsqueeze(1)
    said = whole(words, layer, out, read)[2:, 0]
    assert h.token_log_probs == pytest.approx(said[torch.arange(len(h.tokens)), list(h.tokens)].tolist(), abs=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"embedding": torch.zeros(V, E + 1)}, r"embedding must have the shape \(any, 12\), got \(50, 13\)"),
        ({"weight": torch.zeros(V, 3)}, r"weight must have the shape \(any, 20\), got \(50, 3\)"),
        ({"bias": torch.zeros(V - 1)}, r"bias must have the shape \(50\), got \(49,\)"),
        ({"projection_bias": torch.zeros(3)}, "projection_bias was given without a projection"),
        ({"layer": carousel.LSTM(E, H, bidirectional=True)}, "a bidirectional layer needs the whole sequence"),
    ],
)
def test_what_does_not_fit(change, message):
    words, layer, out, _ = model()
    given = {"embedding": words.weight, "layer": layer, "weight": out.weight, "bias": out.bias} | change
    with pytest.raises(ValueError, match=message):
        RecurrentStepper(**given)


def test_a_token_outside_the_embedding():
    with pytest.raises(IndexError):
        model()[3].step(torch.tensor([V]), None)


class Whole:
    """A stepper that does not know its best."""

    def __init__(self, stepper):
        self.start, self.step, self.select = stepper.start, stepper.step, stepper.select
        self.vocab_size, self.device = stepper.vocab_size, stepper.device


RULES = {
    "none": [],
    "ban": [Ban([3, 4])],
    "length": [Ban([3]), Length(2, [4, 9, 6])],
    "prefix": [Prefix([[5], [6, 7, 8], []]), Ban([9])],
    "bias": [Bias({2: 1.0}), Ban([3])],
    "no repeat": [NoRepeat(2)],
}


@pytest.mark.parametrize(
    ("name", "prompts"),
    [
        *((name, [[], [], []]) for name in RULES),
        *((name, [[7], [8, 9], []]) for name in RULES if name != "prefix"),  # a prompt would have to begin so
    ],
)
@pytest.mark.parametrize("width", [1, 5])
def test_a_beam_that_asks_for_the_best_alone(name, prompts, width):
    rules = RULES[name]
    _, _, _, lm = model(dtype=torch.float64)
    asked = []
    best = lm.step_best
    lm.step_best = lambda *args: asked.append(args) or best(*args)
    ask = {"start": 1, "end": 0, "max_length": 10, "constraints": rules}
    found = search(lm, prompts, Beam(width, n_best=width), **ask)
    whole = search(Whole(lm), prompts, Beam(width, n_best=width), **ask)
    assert bool(asked) == (not {Bias, NoRepeat} & {type(rule) for rule in rules})
    for a, b in zip(found, whole, strict=True):
        assert [h.tokens for h in a] == [h.tokens for h in b]
        for one, other in zip(a, b, strict=True):
            assert one.token_log_probs == pytest.approx(other.token_log_probs) and one.score == pytest.approx(
                other.score
            )


def test_a_beam_that_finds_nothing_says_why():
    _, _, _, lm = model()
    lm.weight.data[:] = torch.nan
    with pytest.raises(ValueError, match="returned NaN at position 0"):
        search(lm, 2, Beam(3), start=1, end=0, max_length=5)
    _, _, _, lm = model()
    begun = lm.step(torch.tensor([1, 1]), None)[1]
    lm.start = lambda items: begun
    begun.predict.weight.data[:, 0] = torch.nan  # after the first step, which says all
    with pytest.raises(ValueError, match="returned NaN at position"):
        search(lm, 2, Beam(3), start=1, end=0, max_length=5)
