"""The task on trees: its loss by hand, trees that do not feel their neighbours, runs end to end, and bad files."""

import json

import pytest
import torch
from helpers.pages import rows

import carousel
from carousel.data.sources.brackets import Tree
from carousel.errors import ArgumentError
from carousel.tasks.tree.task import TreeTask


@pytest.mark.learning
def test_it_learns_what_not_does(trained, woods, reached):
    model = carousel.load(trained)
    found = model.evaluate(woods / "dev.txt")
    reached("accuracy", found["accuracy"], above=0.9)
    assert found["trees"] == 50
    said = model.predict("(_ (_ not) (_ good))")
    assert (said.label, said.labels[1]) == ("0", "1")
    assert repr(said) == f"0 {said.confidence:.3f}  (0 (0 not) (1 good))"
    assert said.drawing().splitlines()[1].startswith("├─ ")
    page = (trained / "report.html").read_text("utf-8")
    assert "Some trees" in page
    assert sum(int(row[1]) for row in rows(page, "length in words", "trees", "accuracy")) == 50


def test_a_run_goes_on_where_it_was_killed(settings, goes_on):
    noisy = settings(word_dropout=0.2, average=0.9, schedule="cosine")
    goes_on(TreeTask, noisy)


# ---------------------------------------------------------------- the command line


@pytest.mark.learning
def test_predict(command, trained, tmp_path):
    code, out, _ = command("predict", trained, given=b"(_ (_ not) (_ good))\n")
    assert code == 0
    head, row = (line.split("\t") for line in out.splitlines())
    assert head == ["label", "confidence", "tree"]
    assert (row[0], row[2]) == ("0", "(0 (0 not) (1 good))")
    code, out, _ = command("predict", trained, "--draw", given=b"(_ (_ not) (_ good))\n")
    assert out.splitlines()[-2].startswith("└─ 1 ")
    sentence = tmp_path / "t.conllu"
    sentence.write_text("1\tgood\t_\t_\t_\t_\t2\t_\t_\t_\n2\tnot\t_\t_\t_\t_\t0\t_\t_\t_\n")
    code, out, _ = command("predict", trained, sentence, "--json")
    assert json.loads(out)["tree"].count("(") == 2


def test_a_trace_names_nodes_by_their_words(trained):
    model = carousel.load(trained)
    tree = "(_ (_ not) (_ (_ good) (_ Film)))"
    trace = model.trace(tree)
    assert trace.tokens == ("not", "good", "Film [UNK]", "good Film", "not good Film")
    assert trace.gates["f"].shape == (5, 12)
    scores = model.network.output(trace.states["h"])
    assert scores.argmax(1).tolist() == model.predict(tree).probabilities.argmax(1).tolist()
    one, two = model.trace(["(_ (_ bad) (_ film))", tree])
    assert len(one.tokens) == 3
    torch.testing.assert_close(two.states["c"], trace.states["c"])
    with pytest.raises(carousel.CarouselError, match="0 trees where there should be one"):
        model.trace("")


def test_an_intervention_holds_nodes_of_a_tree(trained):
    model = carousel.load(trained)
    tree = "(_ (_ not) (_ (_ good) (_ Film)))"
    plain = model.trace(tree)
    cut = carousel.Clamp("f", 0.0, steps=plain.tokens.index("not")), carousel.Clamp("h", 0.0, steps=0)
    changed = model.intervene(tree, *cut)
    assert changed.tokens == plain.tokens
    assert not changed.gates["f"][0].any() and not changed.states["h"][0].any()
    assert changed.states["c"][:4].equal(plain.states["c"][:4])  # nothing below the root depends on it
    assert not changed.states["h"][4].allclose(plain.states["h"][4])
    one, two = model.intervene([tree, tree], carousel.Clamp("c", 1.0, steps=0, sequences=1))
    assert one.states["c"].allclose(plain.states["c"]) and (two.states["c"][0] == 1).all()
    with pytest.raises(ValueError, match="NaryTreeLSTM has no gate or state 'g'"):
        model.intervene(tree, carousel.Clamp("g", 0.0))


def test_what_is_no_tree_is_named_as_in_predict(trained):
    model = carousel.load(trained)
    for call in (model.evaluate, model.predict):
        with pytest.raises(ArgumentError, match="item 1 is of type tuple; give texts"):
            call([("a", "b")])
    assert model.evaluate([Tree.parse("(1 (1 not) (0 bad))")])["trees"] == 1


def test_a_deep_tree_is_predicted_without_its_drawing(command, trained):
    """The drawing of so many nested nodes would take 6 million characters."""
    deep = b"(_ " * 2_000 + b"good" + b")" * 2_000
    code, out, _ = command("predict", trained, "--json", given=deep)
    said = json.loads(out)
    assert (code, len(said["nodes"]), "drawing" in said) == (0, 2_000, False)
    _, out, _ = command("predict", trained, "--json", "--draw", given=b"(_ (_ not) (_ good))\n")
    assert len(json.loads(out)["drawing"].splitlines()) == 3
    code, _, err = command("predict", trained, "--draw", "--n-best", 2, given=b"(_ good)\n")
    assert (code, "--n-best is for runs of tag; this is one of tree" in err) == (1, True)
