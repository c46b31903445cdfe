"""Settings of the language model that exclude one another."""

import pytest

from carousel.errors import SettingsError
from carousel.tasks.lm.settings import RUNNING, LanguageSettings


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"embedding": "one-hot", "tied": True}, "tied: one-hot vectors are no matrix that the output could share"),
        ({"output": "adaptive", "tied": True}, "output='adaptive' has matrices of its own"),
        ({"output": "adaptive", "tied": False, "label_smoothing": 0.1}, "='adaptive' has no label smoothing"),
        (
            {"output": "adaptive", "tied": False, "tokens": "bpe"},
            "output='adaptive' needs tokens in order of frequency",
        ),
    ],
)
def test_what_does_not_fit_together(given, message):
    with pytest.raises(SettingsError, match=message):
        LanguageSettings.read({"train": "t.txt", **given})


def test_what_fits():
    own = LanguageSettings.read({"train": "t.txt", "output": "adaptive", "tied": False, "tokens": "word"})
    assert (own.output, own.label_smoothing) == ("adaptive", 0)


@pytest.mark.parametrize("layout", ["running", "sentences"])
def test_running_text_has_other_defaults(layout):
    own = LanguageSettings.read({"train": "t.txt", "layout": layout, "dropout": 0.4})
    lines = LanguageSettings.read({"train": "t.txt"})
    assert {**RUNNING, "dropout": 0.4}.items() <= own.model_dump().items()
    assert all(getattr(lines, name) != value for name, value in RUNNING.items())
    assert LanguageSettings.read({"train": "t.txt", "layout": "lines"}) == lines
    best = LanguageSettings.PRESETS["best"].settings
    assert best.items() <= LanguageSettings.read({**best, "train": "t.txt", "layout": layout}).model_dump().items()
