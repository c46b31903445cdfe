"""`start_from`: a new run begins with another's weights, matched by name."""

import pytest
import torch

import carousel
from carousel.errors import RunError
from carousel.tasks import find
from carousel.training import Run

SMALL = {"threads": 1, "quiet": True, "report": False, "hidden": 4, "embedding": 6, "epochs": 1}
OLD = [(f"{word} film {k}", label) for k in range(10) for word, label in (("fine", "good"), ("dull", "bad"))]
NEW = [(f"{word} book {k}", label) for k in range(10) for word, label in (("dull", "bad"), ("odd", "odd"))]


def _new_network(task, settings):
    """The network that a run begins with, what its rows are of, and what was printed of where its weights are from."""
    kind = find(task)
    own = kind.Settings.read(settings)
    torch.manual_seed(1)
    assets, _ = kind.prepare(own)
    fresh = kind.make_network(own, assets)
    before = {name: parameter.detach().clone() for name, parameter in fresh.named_parameters()}
    notes = kind.start_network(fresh, assets)
    return fresh, assets, before, notes


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    folder = tmp_path_factory.mktemp("start")
    return carousel.train("classify", OLD, out=folder / "old", cache=folder / "cache", **SMALL), folder


def _files(folder, task, data):
    return find(task).write_data(data, folder, {})


def test_words_and_labels_get_the_rows_of_their_names(classifier, tmp_path):
    old, folder = classifier
    settings = {"train": _files(tmp_path / "new", "classify", NEW), "cache": tmp_path, "start_from": folder / "old"}
    settings |= {"hidden": 4, "embedding": 6, "dev_split": "none"}
    network, assets, before, notes = _new_network("classify", settings)
    there = dict(old.network.named_parameters())
    words, old_words = assets.vocabulary.tokens, old.vocabulary.tokens
    got, first = network.embedder.embedder.weight, before["embedder.embedder.weight"]
    for k, word in enumerate(words):
        expected = there["embedder.embedder.weight"][old_words.index(word)] if word in old_words else first[k]
        torch.testing.assert_close(got[k], expected)
    assert {"dull", "0"} <= set(words) & set(old_words) and "book" not in old_words
    assert assets.labels == ["bad", "odd"] and old.labels == ["bad", "good"]
    torch.testing.assert_close(network.output.weight[0], there["output.weight"][0])
    torch.testing.assert_close(network.output.weight[1], before["output.weight"][1])
    for name, parameter in network.layers.named_parameters():
        torch.testing.assert_close(parameter, there[f"layers.{name}"])
    shared = sum(word in old_words for word in words)
    assert f"embedder.weight {shared} of {len(words)} rows" in notes[0] and "output.weight 1 of 2 rows" in notes[0]


def test_what_has_another_shape_is_new_and_named(classifier, tmp_path):
    _, folder = classifier
    settings = {"train": _files(tmp_path / "new", "classify", NEW), "cache": tmp_path, "start_from": folder / "old"}
    settings |= {"hidden": 5, "embedding": 6}
    network, _, before, notes = _new_network("classify", settings)
    torch.testing.assert_close(network.layers.weight_ih_l0, before["layers.weight_ih_l0"])
    assert "layers.weight_ih_l0 (16 × 6 there, 20 × 6 here)" in notes[1]
    with pytest.raises(RunError, match=r"nothing in .* fits"):
        odd = _files(tmp_path / "odd", "classify", [(text, label * 2) for text, label in NEW])
        _new_network("classify", {**settings, "train": odd, "embedding": 3})


def test_another_cell_has_other_layers(classifier, tmp_path):
    """A peephole LSTM has parameters of the same names and shapes, which mean something else."""
    _, folder = classifier
    settings = {"train": _files(tmp_path / "new", "classify", NEW), "cache": tmp_path, "start_from": folder / "old"}
    network, _, before, _ = _new_network("classify", {**settings, "hidden": 4, "embedding": 6, "cell": "peephole"})
    torch.testing.assert_close(network.layers.weight_hh_l0, before["layers.weight_hh_l0"])


def test_transitions_of_tags_are_matched_on_both_axes(tmp_path):
    tagged = [[("Ada", "N"), ("sat", "V"), (str(k), "D")] for k in range(8)]
    other = [[("Ada", "X"), ("sat", "V"), ("here", "N")] for k in range(8)]
    options = {**SMALL, "output": "crf", "min_frequency": 1, "cache": tmp_path / "cache", "dev_split": "none"}
    old = carousel.train("tag", tagged, out=tmp_path / "old", **options)
    new = carousel.train("tag", other, out=tmp_path / "new", start_from=tmp_path / "old", **{**options, "lr": 1e-12})
    mine, theirs = new.vocabulary.tags, old.vocabulary.tags
    for a in ("N", "V"):
        for b in ("N", "V"):
            got = new.network.crf.transitions[mine.index(a), mine.index(b)]
            want = old.network.crf.transitions[theirs.index(a), theirs.index(b)]
            torch.testing.assert_close(got, want, atol=1e-5, rtol=0)


def test_a_classifier_takes_vectors_and_layers_of_a_language_model(tmp_path):
    texts = [text for text, _ in OLD]
    options = {**SMALL, "cache": tmp_path / "cache", "dev_split": "none"}
    lm = carousel.train("lm", texts, out=tmp_path / "lm", tokens="word", **options)
    options |= {"lr": 1e-12, "bidirectional": False, "linear": False}
    model = carousel.train("classify", OLD, out=tmp_path / "run", start_from=tmp_path / "lm", **options)
    tokens = lm.vocabulary.tokens
    rows = model.network.embedder.embedder.weight[[model.vocabulary.tokens.index(word) for word in ("fine", "film")]]
    theirs = lm.network.embedder.weight[[tokens.index(word) for word in ("fine", "film")]]
    torch.testing.assert_close(rows, theirs, atol=1e-5, rtol=0)
    torch.testing.assert_close(model.network.layers.weight_hh_l0, lm.network.layers.weight_hh_l0, atol=1e-5, rtol=0)


@pytest.mark.parametrize("task", ["lm", "bilm", "classify", "tag", "encode", "tree", "forecast", "translate"])
def test_a_run_of_every_task_starts_from_its_own_kind_with_all_parts(task, tmp_path):
    data = {
        "lm": ["a b c"] * 3, "bilm": ["a b c"] * 3, "classify": OLD, "tag": [[("a", "N"), ("b", "V")]] * 3,
        "encode": [("a b", "b a", "x"), ("a", "b", "y")] * 3, "tree": ["(0 (1 a) (0 b))", "(1 (1 b) (1 a))"],
        "forecast": [float(k % 4) for k in range(60)], "translate": [("a b", "b a")] * 3,
    }[task]  # fmt: skip
    options = {"threads": 1, "quiet": True, "report": False, "hidden": 4, "epochs": 1}
    if task != "forecast":
        options |= {"embedding": 4, "cache": tmp_path / "cache"}
    if task in ("bilm", "tag"):
        options["min_frequency"] = 1
    old = carousel.train(task, data, out=tmp_path / "old", **options)
    kind = find(task)
    settings = kind.Settings.read({}, file=Run(tmp_path / "old").config).model_copy(
        update={"start_from": tmp_path / "old"}
    )
    assets, _ = kind.prepare(settings)
    network = kind.make_network(settings, assets)
    notes = kind.start_network(network, assets)
    assert len(notes) == 1  # nothing is left
    if task in ("bilm", "tag"):  # rows of characters are matched by name, too
        characters = network.row_names(assets)["shapes.readers.0.embedder.weight"]
        assert [len(characters[0])] == [len(reader.embedder.weight) for reader in network.shapes.readers[:1]]
    for (name, got), (_, want) in zip(network.named_parameters(), old.network.named_parameters(), strict=True):
        torch.testing.assert_close(got, want, msg=name)


def test_where_to_start_must_be_a_run(tmp_path, classifier, command):
    file = _files(tmp_path / "new", "classify", NEW)
    out = tmp_path / "run"
    code, _, err = command("train", "classify", file, "--out", out, "--start-from", tmp_path / "none")
    assert code == 1 and "no such run" in err and not out.exists()
    code, _, err = command(
        "train", "classify", file, "--out", out, "--start-from", classifier[1] / "old", "--hidden", 4, "--embedding",
        6, "--epochs", 1, "--cache", tmp_path / "cache",
    )  # fmt: skip
    assert code == 0 and "taken are" in err
    code, _, err = command("train", "classify", "--out", out, "--resume", "--start-from", tmp_path / "none")
    assert code == 1 and "start_from is" in err
