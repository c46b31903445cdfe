"""What people hand to a model: one text, any iterable of texts, a column of a table; anything else is one line."""

import numpy as np
import pytest

from carousel.errors import ArgumentError


class Column(list):
    """As a column of a DataFrame iterates."""


class Table(dict):
    """As a DataFrame iterates: over the names of its columns."""

    columns = property(list)


def calls(model):
    """The calls of a model that take texts."""
    names = ("predict", "generate", "translate", "score", "embed")
    own = {name: getattr(model, name) for name in names if hasattr(model, name)}
    if model.name == "encode":
        own.pop("predict")
    if model.name == "lm":
        own["generate"] = lambda given: model.generate(given, max_length=12, seed=1)
    return own


def same(a, b):
    a, b = (list(x) for x in (a, b))
    return len(a) == len(b) and all(np.array_equal(x, y) if isinstance(x, np.ndarray) else repr(x) == repr(y)
                                    for x, y in zip(a, b, strict=True))  # fmt: skip


def test_any_iterable_of_texts(small_model):
    model, item, _ = small_model
    for call in calls(model).values():
        expected = list(call([item, item]))
        for given in ((item, item), (text for text in [item, item]), np.array([item, item]), Column([item, item])):
            assert same(call(given), expected)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "an iterable of texts, got NoneType"),
        (5, "an iterable of texts, got int"),
        (b"abc", "an iterable of texts, got bytes"),
        (["a", 5], "item 2 is of type int; give texts"),
        (["a", float("nan")], "item 2 is of type float; give texts"),
        ([b"abc"], "item 1 is of type bytes; give texts"),
        (Table(text=["a"]), r"Table has columns; give one of them, such as data\['text'\]"),
        ({"text": "a"}, "dict has columns"),
    ],
    ids=repr,
)
def test_what_is_no_text_is_one_line(small_model, given, message):
    model, _, _ = small_model
    for call in calls(model).values():
        with pytest.raises(ArgumentError, match=message) as error:
            list(call(given))
        assert "\n" not in str(error.value)


def test_pairs_of_an_encoder(small_model):
    model, item, _ = small_model
    if model.name != "encode":
        pytest.skip("it reads texts")
    one = model.predict(item, "dull")
    assert "probabilities" not in one.as_dict() and isinstance(one.as_dict()["score"], float)
    for pairs in ([(item, "dull")], iter([(item, "dull")]), {"a": [item], "b": ["dull"]}, np.array([[item, "dull"]])):
        assert model.predict(pairs) == [one]
    for given, message in (
        (item, "second: missing"),
        ([item], "item 1 is not of the form"),
        ([5], "item 1"),
        (5, "int"),
    ):
        with pytest.raises(ArgumentError, match=message):
            model.predict(given)


def test_a_trace_of_nothing_says_so(small_model):
    model, _, _ = small_model
    if model.name in ("lm", "bilm"):  # a start token is read first
        assert len(model.trace("").tokens[0]) == 1
        return
    with pytest.raises(ArgumentError, match="nothing to read"):
        model.trace("")
