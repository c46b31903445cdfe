"""Translation by the options of GenerationConfig: attention on request, seeds, streams, constraints, lengths."""

import pytest
import torch
from helpers.translators import untrained

from carousel.data import END
from carousel.decoding import Constraint, GenerationConfig, OptionError
from carousel.errors import CarouselError

LETTERS = "abcdef，。"


def make(**given):
    return untrained(1, LETTERS, 4.0, tokens="character", threads=1, **given)


@pytest.fixture
def model():
    return make()


@pytest.fixture
def passes(model, monkeypatch):
    """Counts the encoder's passes, and those of the teacher-forced decoder."""
    count = {"encode": 0, "forward": 0}
    for name in count:
        original = getattr(model.network, name)

        def counted(*args, name=name, original=original):
            count[name] += 1
            return original(*args)

        monkeypatch.setattr(model.network, name, counted)
    return count


@pytest.mark.parametrize("options", [{}, {"num_beams": 1}, {"top_k": 3}, {"tree": True}], ids=str)
def test_attention_costs_nothing_unless_it_is_requested(model, passes, options):
    assert model.translate("abc", **options).attention is None
    assert passes == {"encode": 1, "forward": 0}


def test_attention_on_request_is_one_more_pass(model, passes):
    made = model.translate("abc", attention=True)
    assert made.attention.shape == (len(made.tokens), 3)
    assert passes == {"encode": 2, "forward": 1}


def test_replacing_unknown_tokens_does_not_return_the_attention(model):
    assert model.translate("abc", unknown="replace").attention is None


def test_the_default_is_a_beam_of_5(model):
    default, five = model.translate("abcdef"), model.translate("abcdef", num_beams=5)
    assert default == five and default.seed is None
    assert model.translate("abcdef", num_beams=1, max_length=9).log_prob <= five.log_prob or len(five.tokens) != 9


def test_a_fresh_seed_is_in_the_result_and_repeats_it(model):
    first, second = (model.translate(["abc", "def"], temperature=2.0) for _ in range(2))
    assert first[0].seed == first[1].seed != second[0].seed
    assert model.translate(["abc", "def"], temperature=2.0, seed=first[0].seed) == first


def test_a_config_is_its_keywords(model):
    config = GenerationConfig(num_beams=3, num_return_sequences=2, min_length=4)
    assert model.translate("abc", config) == model.translate("abc", num_beams=3, num_return_sequences=2, min_length=4)
    assert len(model.translate("abc", config, num_return_sequences=3).sequences) == 3


@pytest.mark.parametrize("options", [{"num_beams": 1}, {"temperature": 1.5, "seed": 3}, {"num_beams": 3}], ids=str)
def test_a_stream_is_the_same_text(model, options):
    pieces = list(model.stream("abcdef", **options))
    assert "".join(pieces) == model.translate("abcdef", **options).text and len(pieces) > 1
    assert list(model.stream("", **options)) == []


def test_a_stream_is_one_whole_text(model):
    with pytest.raises(OptionError, match="num_return_sequences: a stream is one text"):
        list(model.stream("abc", num_return_sequences=2))
    with pytest.raises(OptionError, match="unknown: replace needs the whole translation"):
        list(model.stream("abc", unknown="replace"))


@pytest.mark.parametrize("beams", [1, 3])
def test_lengths_count_the_end_token(model, beams):
    """As in Hugging Face: max_length with the end token, min_length without."""
    for most in (2, 5):
        made = model.translate(["abc", "f"], num_beams=beams, max_length=most, min_length=most - 1)
        assert [(len(one.ids), one.ids[-1], one.finished) for one in made] == [(most, END, True)] * 2
    assert all(len(one.text) >= 50 for one in model.translate(["abc", "f"], num_beams=beams, min_length=50))


def test_no_repeat_ngram_size(model):
    text = model.translate("abcdef", no_repeat_ngram_size=2, num_beams=1).text
    pairs = [text[k : k + 2] for k in range(len(text) - 1) if not set(text[k : k + 2]) & set("，。")]
    assert len(pairs) == len(set(pairs)) > 0


def test_verse(model):
    made = model.translate("ab", form="五言絕句", acrostic="fade")
    assert [made.text[k] for k in (5, 11, 17, 23)] == ["，", "。", "，", "。"] and made.text[::6] == "fade"


class Rising(Constraint):
    """No token with a lower number than the one before, until the end."""

    def start(self, context):
        self.names = context.tokens
        return torch.zeros(context.items, dtype=torch.int64)

    def apply(self, log_probs, state):
        lower = torch.arange(log_probs.shape[1]) < state.unsqueeze(1)
        lower[:, END] = False
        log_probs.masked_fill_(lower, -torch.inf)

    def advance(self, state, tokens):
        return tokens


@pytest.mark.parametrize(
    "options", [{}, {"num_beams": 1}, {"temperature": 3.0, "num_return_sequences": 4, "seed": 1}], ids=str
)
def test_a_constraint_of_the_user(model, options):
    rule = Rising()
    made = model.translate(["fbdace", "ab"], constraints=[rule], **options)
    for one in (each for line in made for each in line.sequences):
        assert list(one.text) == sorted(one.text, key=LETTERS.index)
    assert list(rule.names[-len(LETTERS) :]) == list(LETTERS)
    free = model.translate(["fbdace", "ab"], **options)
    assert any(list(e.text) != sorted(e.text, key=LETTERS.index) for line in free for e in line.sequences)


def test_constraints_are_objects(model):
    with pytest.raises(CarouselError, match="constraints must be Constraint objects, got type"):
        model.translate("abc", constraints=[Rising])


def test_the_modes_of_the_models_are_restored(model):
    expected = model.translate("abc")
    other = make(dropout=0.5)
    network = other.network.train()
    network.encoder.eval()
    assert other.translate("abc") == expected
    assert network.training and network.decoder.training and not network.encoder.training
    assert model.translate("abc", ensemble=[other]).text == expected.text and network.training
    with pytest.raises(OptionError):
        other.translate("abc", prefix="z")
    assert network.training
