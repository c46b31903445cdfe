"""GenerationConfig: its defaults by task, the strategy it stands for, and what it refuses."""

import dataclasses
import math
import subprocess
import sys

import numpy as np
import pytest

from carousel.decoding import (
    GNMT,
    Beam,
    GenerationConfig,
    Greedy,
    Mean,
    OptionError,
    RandomK,
    Sample,
    Temperature,
    TopK,
    TopP,
    Unnormalised,
)
from carousel.decoding.config import DEFAULTS, NAMES, SYNONYMS
from carousel.wording import dashed, spelling


def strategy(task, **options):
    return GenerationConfig(**options).resolve(task).strategy(1000)


# ---------------------------------------------------------------- what the options stand for


@pytest.mark.parametrize(
    "task, options, expected",
    [
        ("text", {}, Sample()),
        ("translation", {}, Beam(5)),
        ("text", {"num_beams": 1}, Greedy()),
        ("text", {"do_sample": False}, Greedy()),
        ("translation", {"num_beams": 1}, Greedy()),
        ("translation", {"do_sample": True}, Sample()),
        ("translation", {"do_sample": True, "num_beams": 1}, Sample()),
        ("text", {"num_beams": 4}, Beam(4)),
        ("translation", {"temperature": 0.5, "num_return_sequences": 3}, Sample(Temperature(0.5), copies=3)),
        ("translation", {"random_k": 4, "temperature": 2.0}, Sample(Temperature(2.0), RandomK(4))),
        ("text", {"top_p": 0.5, "top_k": 9, "temperature": 2.0}, Sample(Temperature(2.0), TopK(9), TopP(0.5))),
        ("translation", {"num_return_sequences": 3}, Beam(5, n_best=3)),
        ("translation", {"early_stopping": False}, Beam(5, completed=math.inf)),
        ("translation", {"early_stopping": 9}, Beam(5, completed=9)),
        ("translation", {"early_stopping": 1}, Beam(5, completed=1)),
        ("translation", {"length_normalization": "gnmt"}, Beam(5, length=GNMT(0.6))),
        ("translation", {"length_normalization": "gnmt", "length_penalty": 1.5}, Beam(5, length=GNMT(1.5))),
        ("translation", {"length_normalization": "none"}, Beam(5, length=Unnormalised())),
        ("translation", {"length_penalty": 0.0}, Beam(5, length=Unnormalised())),
        ("translation", {"length_penalty": 2.0}, Beam(5, length=Mean(2.0))),
    ],
    ids=str,
)
def test_strategies(task, options, expected):
    assert repr(strategy(task, **options)) == repr(expected)


@pytest.mark.parametrize("penalty", [0.0, 0.5, 1.0, 2.0])
def test_length_penalty_is_that_of_hugging_face(penalty):
    """BeamHypotheses.add: sum_logprobs / generated_len ** length_penalty."""
    norm = GenerationConfig(num_beams=2, length_penalty=penalty).length_norm()
    totals, lengths = np.array([-3.0, -7.5, -0.1]), np.array([1, 4, 9])
    np.testing.assert_allclose(norm.score(totals, lengths), totals / lengths**penalty)


def test_the_penalty_of_gnmt_is_wu_et_al_s():
    norm = GenerationConfig(num_beams=2, length_normalization="gnmt", length_penalty=0.2).length_norm()
    assert norm.score(-6.0, 25) == pytest.approx(-6.0 / (5 + 25) ** 0.2 * (5 + 1) ** 0.2)  # equation 14


def test_one_place_has_the_defaults_of_all_tasks():
    for task, defaults in DEFAULTS.items():
        resolved = GenerationConfig(seed=1).resolve(task)
        for name, value in defaults.items():
            assert NAMES[name].default is None
            assert getattr(resolved, name) == value


def test_a_fresh_seed_unless_one_is_given():
    seeds = {GenerationConfig().resolve("text").seed for _ in range(20)}
    assert len(seeds) == 20 and None not in seeds
    assert GenerationConfig(seed=7).resolve("text").seed == 7
    assert GenerationConfig().resolve("translation").seed is None
    resolved = GenerationConfig().resolve("text")
    assert resolved.resolve("text") == resolved


def test_fields_given_by_keyword_take_precedence():
    config = GenerationConfig(top_k=5, seed=1)
    assert GenerationConfig.of(config, {"seed": 2}) == GenerationConfig(top_k=5, seed=2)
    assert GenerationConfig.of(None, {}) == GenerationConfig()
    with pytest.raises(TypeError, match="config must be a GenerationConfig, got dict; give options by keyword"):
        GenerationConfig.of({"top_k": 5}, {})
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.top_k = 3


def test_it_prints_what_was_given():
    assert repr(GenerationConfig(num_beams=3, early_stopping=1)) == "GenerationConfig(num_beams=3, early_stopping=1)"


def test_from_yaml(tmp_path):
    file = tmp_path / "options.yaml"
    file.write_text("num_beams: 4\nlength_normalization: gnmt\nearly_stopping: false\n")
    assert GenerationConfig.load(file) == GenerationConfig(
        num_beams=4, length_normalization="gnmt", early_stopping=False
    )
    file.write_text("")
    assert GenerationConfig.load(file) == GenerationConfig()


# ---------------------------------------------------------------- what it refuses

CONTRADICTIONS = [
    (
        {"num_beams": 3, "temperature": 0.5},
        "{num_beams} and {temperature}: beam search does not sample; give one of them",
    ),
    ({"num_beams": 3, "do_sample": True}, "{num_beams} and {do_sample}: beam search does not sample"),
    ({"do_sample": False, "top_p": 0.5}, "{do_sample} false and {top_p}: the second is for sampling"),
    ({"random_k": 3, "top_k": 2}, "{random_k} and {top_k}: {random_k} samples uniformly; give one of them"),
    ({"random_k": 3, "top_p": 0.5}, "{random_k} and {top_p}: {random_k} samples uniformly"),
    ({"length_penalty": 2.0, "top_k": 2}, "{length_penalty} and {top_k}: the first is for beam search"),
    ({"early_stopping": False, "do_sample": True}, "{early_stopping} and {do_sample}: the first is for beam search"),
    (
        {"length_normalization": "none", "length_penalty": 0.6},
        "{length_penalty}: {length_normalization} none has no penalty; give one of them",
    ),
    ({"num_beams": 2, "num_return_sequences": 3}, "{num_return_sequences}: at most as many as {num_beams}, 2, got 3"),
    ({"num_beams": 1, "num_return_sequences": 2}, "{num_return_sequences}: greedy search has one result"),
    ({"num_return_sequences": 3, "early_stopping": 2}, "{early_stopping}: must be at least {num_return_sequences}, 3"),
    ({"min_length": 9, "max_length": 9}, "{min_length}: must be below {max_length}, 9, got 9"),
    ({"form": "五言律詩", "max_length": 48}, "{max_length}: 五言律詩 takes 49 tokens, the end token included; got 48"),
    ({"rhyme": {"光": "a"}}, "{rhyme}: it needs a {form}"),
    ({"rhyme_class": "a", "form": "五言絕句"}, "{rhyme_class}: it needs a table of rhymes; give {rhyme} too"),
]


@pytest.mark.parametrize("options, message", CONTRADICTIONS, ids=str)
def test_contradictions_name_the_options_as_they_were_written(options, message):
    with pytest.raises(OptionError) as caught:
        GenerationConfig(**options)
    python = message.format(**{name: name for name in NAMES})
    shell = message.format(**{name: dashed(name) for name in NAMES})
    assert str(caught.value).startswith(python)
    with spelling(dashed), pytest.raises(OptionError) as caught:
        GenerationConfig(**options)
    assert str(caught.value).startswith(shell)
    assert "\n" not in str(caught.value) and "{" not in str(caught.value)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"top_k": 0}, "top_k: must be a whole number of at least 1, got 0"),
        ({"top_k": 2.5}, "top_k: must be a whole number of at least 1, got 2.5"),
        ({"top_k": True}, "top_k: must be a whole number of at least 1, got True"),
        ({"top_p": 1.5}, "top_p: must be a number above 0 and at most 1, got 1.5"),
        ({"temperature": 0}, "temperature: must be a number above 0, got 0"),
        ({"temperature": math.nan}, "temperature: must be a number above 0, got nan"),
        ({"temperature": math.inf}, "temperature: must be a number above 0, got inf"),
        ({"temperature": "hot"}, "temperature: must be a number above 0, got 'hot'"),
        ({"num_beams": 0}, "num_beams: must be a whole number of at least 1, got 0"),
        ({"seed": -1}, "seed: must be a whole number of at least 0 and at most 18446744073709551615, got -1"),
        ({"do_sample": 1}, "do_sample: must be true or false, got 1"),
        (
            {"early_stopping": "never"},
            "early_stopping: must be true, false or a whole number of at least 1, got 'never'",
        ),
        ({"early_stopping": 0}, "early_stopping: must be true, false or a whole number of at least 1, got 0"),
        ({"unknown": "banned"}, "unknown: must be one of ban, allow, replace, got 'banned'; did you mean ban?"),
        ({"length_normalization": "median"}, "length_normalization: must be one of mean, gnmt, none, got 'median'"),
        ({"prefix": 3}, "prefix: must be a text, or one for each input, got 3"),
        ({"constraints": ["my.py:Rule"]}, "constraints: must be a list of Constraint objects, got"),
        ({"form": "sonnet"}, "form: no form is named 'sonnet', only 五言絕句"),
        ({"form": "五言詩"}, "did you mean 五言律詩?"),
        (
            {"num_return_sequences": 10**11},
            "num_return_sequences: must be a whole number of at least 1 and at most 1000000, got 100000000000",
        ),
        ({"num_return_sequences": None}, "num_return_sequences: must be a whole number of at least 1 and at most"),
    ],
    ids=str,
)
def test_values_out_of_range(options, message):
    with pytest.raises(OptionError) as caught:
        GenerationConfig(**options)
    assert message in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "name, near", [("topk", "top_k"), ("num_beam", "num_beams"), ("Temperature", "temperature"), *SYNONYMS.items()]
)
def test_an_unknown_option_is_named_with_the_nearest(name, near):
    with pytest.raises(OptionError, match=f"^{name}: there is no such option; did you mean {near}\\?$"):
        GenerationConfig.of(None, {name: 1})
    with pytest.raises(OptionError, match=r"^zzz: there is no such option; options are do_sample, "):
        GenerationConfig.of(None, {"zzz": 1})


@pytest.mark.parametrize(
    "task, options, message",
    [
        ("text", {"length_penalty": 2.0}, "length_penalty: it is for beam search; give num_beams above 1 too"),
        ("translation", {"num_beams": 1, "length_penalty": 2.0}, "length_penalty: it is for beam search"),
        ("text", {"do_sample": False, "num_return_sequences": 2}, "num_return_sequences: greedy search has one result"),
        ("translation", {"num_return_sequences": 6}, "num_return_sequences: at most as many as num_beams, 5, got 6"),
    ],
)
def test_contradictions_with_the_defaults_of_a_task(task, options, message):
    config = GenerationConfig(**options)
    with pytest.raises(OptionError, match=message):
        config.resolve(task)


def test_a_vocabulary_that_is_too_small():
    for options in ({"top_k": 11}, {"random_k": 11}, {"num_beams": 11}):
        [name] = options
        with pytest.raises(OptionError, match=f"{name}: must be at most 10, the size of the vocabulary, got 11"):
            GenerationConfig(**options).resolve("text").strategy(10)


def test_importing_it_does_not_import_torch():
    check = "import sys, carousel.decoding.config; print('torch' in sys.modules, 'pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], capture_output=True, text=True).stdout == "False False\n"
