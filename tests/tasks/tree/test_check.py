"""Trees are checked before training."""

import json


def test_check(command, woods):
    code, out, _ = command("check", "tree", woods / "train.txt", "--dev", woods / "dev.txt", "--json")
    found = json.loads(out)
    assert code == 0 and found["reading"] == "trees in Penn brackets"
    assert (found["train"]["trees"], found["train"]["children"], found["dev"]["unknown"]) == (200, 2, 0)
    assert found["train"]["labels"].keys() == {"0", "1"}
