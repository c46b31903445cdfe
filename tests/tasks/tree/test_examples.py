"""Trees as examples: joined classes, and files that are refused."""

import pytest

BAD = {
    "unbalanced": ("(1 (0 a) (1 b)\n", "bad.txt:1: the tree that begins here lacks 1 closing bracket"),
    "one label": ("(1 (1 a) (1 b))\n", "bad.txt: every label is '1'"),
    "no label": ("(_ (_ a) (_ b))\n", "bad.txt: no node has a label"),
    "nothing": ("", "bad.txt: the file is empty"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_training_data_leaves_nothing_behind(command, tmp_path, kind):
    text, said = BAD[kind]
    (tmp_path / "bad.txt").write_text(text)
    code, out, err = command("train", "tree", tmp_path / "bad.txt", "--out", tmp_path / "run")
    assert (code, out) == (1, "")
    assert said in err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_bad_data_to_use_a_model_on(command, trained, tmp_path):
    path = tmp_path / "dev.txt"
    path.write_text("(1 (1 good) (0 bad))\n(7 good)\n")
    code, _, err = command("eval", trained, path)
    assert (code, len(err.splitlines())) == (1, 1)
    assert "dev.txt:2: the label '7' is not in the training data, whose labels are 0, 1" in err
    code, _, err = command("predict", trained, given=b"(1 (1 a) (1 b) (1 c))\n")
    assert code == 1
    assert "standard input:1: a node has 3 children, and the model takes at most 2" in err
    path.write_text("(1 good)\n\n(1 (1 good)\n")
    code, _, err = command("predict", trained, path)
    assert (code, len(err.splitlines())) == (1, 1)
    assert f"{path}:3: the tree that begins here lacks 1 closing bracket" in err
