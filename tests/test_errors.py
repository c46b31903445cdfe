"""The kinds of CarouselError, and what was meant."""

import pickle

import pytest

import carousel
from carousel.data.corpora import FetchError
from carousel.decoding import ConstraintError
from carousel.errors import (
    ArgumentError,
    CarouselError,
    DataError,
    RunError,
    SettingsError,
    check_count,
    check_counts,
    did_you_mean,
)
from carousel.training.checkpoint_callback import Interrupted
from carousel.training.module import Diverged

VALUES = [ArgumentError, SettingsError, RunError, DataError, ConstraintError, Diverged]


@pytest.mark.parametrize("kind", [*VALUES, FetchError, Interrupted])
def test_every_error_of_the_package_is_of_one_base(kind):
    assert issubclass(kind, CarouselError) and issubclass(kind, ValueError) == (kind in VALUES)
    assert carousel.CarouselError is CarouselError


def test_a_data_error_survives_pickling():
    error = pickle.loads(pickle.dumps(DataError("a.txt", 3, "it is bad", "make it good")))
    assert str(error) == "a.txt:3: it is bad; make it good"
    assert (str(error.file), error.line, error.problem, error.remedy) == ("a.txt", 3, "it is bad", "make it good")


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (("a.txt", None), "a.txt: it is bad; make it good"),
        ((None, 3), "line 3: it is bad; make it good"),
        ((None, None), "it is bad; make it good"),
    ],
)
def test_a_data_error_names_what_is_known_of_the_place(parts, text):
    assert str(DataError(*parts, "it is bad", "make it good")) == text


@pytest.mark.parametrize(
    ("word", "choices", "synonyms", "meant"),
    [
        ("hiden", ["hidden", "layers"], {}, "hidden"),
        ("HIDDEN", ["hidden", "layers"], {}, "hidden"),
        ("text", ["Text", "Label"], {}, "Text"),
        ("learning_rate", ["lr", "layers"], {"learning_rate": "lr"}, "lr"),
        ("learnin_rate", ["lr", "layers"], {"learning_rate": "lr"}, "lr"),
        ("layers", ["layers"], {"layers": "other"}, "layers"),
        ("treebank", ["ptb", "tang"], {"treebank": "ptb"}, "ptb"),
    ],
)
def test_what_was_meant(word, choices, synonyms, meant):
    assert did_you_mean(word, choices, synonyms) == f"did you mean {meant}?"


@pytest.mark.parametrize("choices", [[], ["lr"], {"lr": 1}])
def test_nothing_is_near(choices):
    assert did_you_mean("colour", choices) == ""


def test_counts():
    check_counts(a=1, b=10**9)
    check_count("a", None, optional=True)
    check_count("a", 0, least=0)
    with pytest.raises(ArgumentError, match=r"steps must be less than 2\*\*31, got 10{30}$"):
        check_counts(steps=10**30)
    for value in (0, -1, 1.0, True, "1", None):
        with pytest.raises(ArgumentError, match="steps must be a whole number from 1 up, got"):
            check_counts(steps=value)
