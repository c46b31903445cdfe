"""What may be varied, and what is said of what may not."""

import pytest

from carousel.errors import SettingsError
from carousel.sweeps.space import Choices, Range, gather_space, parse_space
from carousel.tasks import find

BASE = {"train": "poems.txt"}


def space(*pairs):
    return parse_space(find("lm").Settings, BASE, *gather_space(None, pairs))


def test_lists_and_ranges():
    assert space("lr=1e-4..1e-2", "hidden=128,256", "dropout=0..0.5:0.1", "layers=1..3", "cell=lstm,gru") == {
        "lr": Range(1e-4, 1e-2, log=True),
        "hidden": Choices((128, 256)),
        "dropout": Range(0.0, 0.5, step=0.1),
        "layers": Range(1, 3),
        "cell": Choices(("lstm", "gru")),
    }
    assert space("lr=0.1..1:linear")["lr"] == Range(0.1, 1.0)
    assert space("patience=null,3", "tied=true,false") == {
        "patience": Choices((None, 3)), "tied": Choices((True, False)),
    }  # fmt: skip
    assert isinstance(space("hidden=64..512")["hidden"].low, int)


def test_a_file_and_python_say_the_same(tmp_path):
    file = tmp_path / "space.yaml"
    file.write_text("lr: 1e-4..1e-2\nhidden: [128, 256]\ndropout: {low: 0, high: 0.5, step: 0.1}\n")
    expected = space("lr=1e-4..1e-2", "hidden=128,256", "dropout=0..0.5:0.1")
    assert parse_space(find("lm").Settings, BASE, *gather_space(file, [])) == expected
    vary = {"lr": "1e-4..1e-2", "hidden": (128, 256), "dropout": {"low": 0, "high": 0.5, "step": 0.1}}
    assert parse_space(find("lm").Settings, BASE, vary) == expected
    assert gather_space(file, ["hidden=1,2"])[0]["hidden"] == "1,2"  # the command line wins


@pytest.mark.parametrize(
    ("pair", "says"),
    [
        ("hiden=1,2", "--vary hiden: there is no such key; did you mean hidden?"),
        ("hidden=128,x", "--vary hidden: should be a whole number, got 'x'"),
        ("hidden=0..10", "--vary hidden: should be greater than or equal to 1, got 0"),
        ("hidden=1.5..3", "--vary hidden: should be a whole number"),
        ("cell=lstm,grue", "--vary cell: "),
        ("cell=a..b", "--vary cell: "),
        ("optimizer=adam..sgd", "--vary optimizer: a range has numbers at its ends, not adam; list the values"),
        ("lr=1..0.1", "--vary lr: the range 1..0.1 is empty; give the smaller end first"),
        ("dropout=0..0.5:log", "--vary dropout: a log scale begins above 0, not at 0"),
        ("dropout=0..0.5:x", "--vary dropout: the step is a number above 0 (or log, linear), not x"),
        ("hidden=8", "--vary hidden: one value is not a choice; give several, or set it with hidden"),
        ("hidden=8,8", "--vary hidden: 8 is given twice; keep one"),
        ("train=a,b", "--vary train: cannot be varied"),
        ("hidden", "--vary hidden: write it as key=value,value or key=low..high"),
    ],
)
def test_one_line_says_what_is_wrong(pair, says):
    with pytest.raises(SettingsError) as error:
        space(pair)
    assert str(error.value).startswith(says)
    assert "\n" not in str(error.value)


def test_what_a_range_contains():
    assert 0.3 in Range(0.0, 0.5, step=0.1)
    assert 0.25 not in Range(0.0, 0.5, step=0.1)
    assert True not in Range(0, 5)
    assert True not in Choices((1, 2))
