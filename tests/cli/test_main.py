"""What the commands do not import: time that a user would wait for nothing.

Modules are counted, not seconds, so that a busy machine makes no difference.
"""

import json
import re
import subprocess
import sys

import pytest

from carousel.cli.main import main

NEVER = (
    "lightning", "torchmetrics", "tensorboard", "plotly", "matplotlib", "pandas", "scipy", "sklearn", "onnx",
    "onnxruntime", "sacrebleu", "seqeval", "torch._dynamo", "torch._inductor", "sympy", "fastapi", "optuna", "IPython",
)  # fmt: skip
TABLES = ("rich", "pyarrow")  # of `check` and of training data


def imported(*args, at=None, source="from carousel.cli.main import main; main(sys.argv[1:])"):
    """The modules in a process of its own that has run a command."""
    code = f"""
import atexit, json, sys
atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.__stderr__))
{source}
"""
    call = subprocess.run([sys.executable, "-c", code, *map(str, args)], capture_output=True, text=True, cwd=at)
    assert call.returncode == 0, call.stderr
    return set(json.loads(call.stderr.splitlines()[-1]))


def test_import_carousel():
    modules = imported(source="import carousel; dir(carousel)")
    assert not modules & {"torch", "numpy", "pydantic", "typer", *TABLES, *NEVER}


@pytest.mark.parametrize(
    "args", [["--help"], ["--version"], ["generate", "--help"], ["bench", "tag", "--help"]], ids=" ".join
)
def test_help(args):
    assert not imported(*args) & {"torch", "numpy", "yaml", *TABLES, *NEVER}


def test_help_of_train():
    """Options come from pydantic models, of one task alone."""
    modules = imported("train", "lm", "--help")
    assert not modules & {"torch", "numpy", *TABLES, *NEVER}
    assert {name for name in modules if name.startswith("carousel.tasks.") and name.endswith(".settings")} == {
        "carousel.tasks.lm.settings"
    }


DATA = {
    "lm": "to be\n" * 8,
    "bilm": "to be or not\n" * 8,
    "classify": "a fine film\tgood\na dull film\tbad\n" * 4,
    "tag": "Rome B-LOC\nfell O\n\n" * 4,
    "encode": "a film\ta play\t1.5\na day\ta film\t4.5\n" * 4,
    "tree": "(3 (2 a) (4 film))\n" * 8,
    "forecast": "Month,Passengers\n" + "".join(f"{1949 + k // 12}-{k % 12 + 1:02d},{k % 12}\n" for k in range(60)),
    "translate": "a film\tein Film\na day\tein Tag\n" * 4,
}  # fmt: skip

USES = {"lm": "score", "classify": "predict", "tag": "predict", "forecast": "predict", "translate": "translate"}


@pytest.mark.slow
@pytest.mark.parametrize(("task", "command"), USES.items(), ids=USES)
def test_use_of_a_run(tmp_path, task, command):
    (tmp_path / "data.tsv").write_text(DATA[task])
    small = ["--hidden", 4, "--epochs", 1, "--threads", 1, "--quiet", "--no-baseline"]
    with pytest.raises(SystemExit) as end:
        main(list(map(str, ["train", task, tmp_path / "data.tsv", "--out", tmp_path / "run", *small])))
    assert end.value.code == 0
    (tmp_path / "new.txt").write_text(DATA[task] if task == "forecast" else "a film\n")
    modules = imported(command, "run", "new.txt", at=tmp_path)
    assert not modules & {"torch.onnx", *TABLES, *NEVER}
    assert not any(name.endswith((".report", ".baseline")) for name in modules if name.startswith("carousel.tasks."))


def test_check(tmp_path):
    """Data of every task is checked without torch, and small data without Arrow."""
    for name, text in DATA.items():
        (tmp_path / f"{name}.tsv").write_text(text)
    files = ", ".join(f"({name!r}, '{name}.tsv')" for name in DATA)
    modules = imported(
        source=f"import carousel\nfor task, file in [{files}]: carousel.check(file, task=task)", at=tmp_path
    )
    assert not modules & {"torch", "pyarrow", *NEVER}
    assert "torch" not in imported("check", "classify.tsv", at=tmp_path)


@pytest.fixture
def works(carousel):
    """Runs the command, which must work and say nothing on stderr: its lines."""

    def call(*args):
        code, out, err = carousel(*args)
        assert (code, err) == (0, "")
        assert "\x1b" not in out
        return out.splitlines()

    return call


def test_commands_are_listed_in_the_order_of_use(works):
    listed = re.findall(r"^  (\w+)  ", "\n".join(works("--help")).partition("Commands:")[2], re.M)
    assert listed[:2] == ["train", "eval"]
    assert {"predict", "translate", "generate", "score", "embed", "similar"} == set(listed[2:8])
    assert listed[-3:] == ["bench", "lab", "data"]
