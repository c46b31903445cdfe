"""Tables are checked before training."""

import json

import pytest


def test_check(command, reviews, tmp_path):
    (tmp_path / "train.tsv").write_text("dull film\tbad\n" * 30 + "dull film\tgood\nfine\tgood\n")
    (tmp_path / "dev.tsv").write_text("dull film\tbad\nother\tugly\n")
    code, out, _ = command("check", tmp_path / "train.tsv", "--dev", tmp_path / "dev.tsv", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["train"]["labels"] == {"bad": 30, "good": 2}
    assert (found["train"]["repeated"], found["train"]["contradictory"], found["shared"]) == (30, 1, 1)
    assert (found["train"]["tokens"], found["dev"]["unknown"]) == (63, 1)
    told = " ".join(found["warnings"])
    for part in ("uneven", "another label", "does not have: ugly", "are in", "unknown"):
        assert part in told
    (tmp_path / "more.tsv").write_text("other\tbad\nodd\tquaint\nodd\tgood\n")
    more = ("--set", f"extra={tmp_path / 'more.tsv'}")
    code, out, _ = command("check", tmp_path / "train.tsv", "--dev", tmp_path / "dev.tsv", *more, "--json")
    found = json.loads(out)
    assert (code, found["extra"]["texts"], found["shared"], found["dev"]["unknown"]) == (0, 3, 2, 0)
    told = "\n".join(found["warnings"])
    assert f"more.tsv: labels that {tmp_path / 'train.tsv'} does not have: quaint" in told
    assert "more.tsv: 1 text repeats an earlier one with another label" in told
    assert f"dev.tsv: 2 of 2 texts are in {tmp_path / 'train.tsv'} or {tmp_path / 'more.tsv'} too" in told
    code, out, _ = command("check", tmp_path / "train.tsv", *more)
    assert (code, "label quaint" in out) == (0, True)
    code, out, _ = command("check", reviews / "train.tsv", "--dev", reviews / "dev.tsv")
    assert code == 0
    assert "label good" in out


@pytest.mark.parametrize(("target", "label"), [("labels", "x,y"), ("number", "2.5")])
def test_data_of_either_kind_is_checked(tmp_path, command, target, label):
    (tmp_path / "t.tsv").write_text("".join(f"text {k}\t{label if k % 2 else label[:1]}\n" for k in range(30)))
    code, out, err = command("check", "classify", tmp_path / "t.tsv", "--set", f"target={target}")
    assert code == 0 and not err and ("label x" in out) == (target == "labels")
