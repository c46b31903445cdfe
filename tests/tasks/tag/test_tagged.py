"""A tagged sentence as text and in JSON's terms, by hand."""

import json

from carousel.tasks.tag.tagged import Tagged, TaggedList

NAMES = Tagged(
    ["Ada", "Lovelace", "met", "Alan"], [["B-PER", "I-PER", "O", "B-PER"], ["B-PER", "O", "O", "O"]],
    [0.98765, 0.5, 0.25, 1.0], [-0.5, -1.23456789], "iob2",
)  # fmt: skip


def test_spans():
    assert repr(NAMES) == "[Ada Lovelace]PER met [Alan]PER"
    assert [tuple(span) for span in NAMES.spans] == [("PER", 0, 2), ("PER", 3, 4)]
    found = json.loads(json.dumps(NAMES.as_dict()))
    assert found["spans"][0] == {"type": "PER", "start": 0, "end": 2, "text": "Ada Lovelace"}
    assert found["confidences"][0] == 0.9877 and found["log_prob"] == -0.5
    assert found["n_best"][1] == {"tags": ["B-PER", "O", "O", "O"], "log_prob": -1.234568}


def test_plain_tags():
    plain = Tagged(["Ada", "sat"], [["N", "V"]], [0.9, 0.8], [-0.3])
    assert (repr(plain), plain.spans) == ("Ada/N sat/V", [])
    assert plain.as_dict().keys() == {"words", "tags", "confidences", "log_prob"}
    assert repr(TaggedList([plain, NAMES])) == f"{plain}\n{NAMES}"


def test_no_words():
    assert repr(Tagged([], [[]], [], [0.0], "iob2")) == ""
