"""`carousel train lm`: options, exit codes, and one line for everything that can be wrong with what was given."""

import json
import os
import re
import signal

import pytest
import yaml
from safetensors.torch import load_file

from carousel.cli.main import main
from carousel.tasks.lm.settings import LanguageSettings
from carousel.tasks.runs import settings_of
from carousel.training import Run
from carousel.training.module import Module

LINES = ["abba", "a cab", "back and forth", "b", "dada is cabaret", "a bad cad", "fade away", "zebra"]
SMALL = ["--hidden", 6, "--embedding", 5, "--batch-size", 3, "--epochs", 2, "--threads", 1, "--log-steps", 1]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A directory with a text in it, to work in; caches stay inside."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    (tmp_path / "text.txt").write_text("\n".join(LINES) + "\n", "utf-8")
    (tmp_path / "dev.txt").write_text("\n".join(LINES[:3]) + "\n", "utf-8")
    return tmp_path


@pytest.fixture
def refused(carousel, place):
    """Runs the command, which must exit with `code`, say one line and leave no run; the line."""

    def run(*args, code=1):
        found, out, err = carousel(*args)
        assert (found, out) == (code, "")
        assert len(err.splitlines()) == 1, err
        assert err.startswith("error: ")
        assert "\x1b" not in err
        assert not (place / "run").exists()
        return err.removeprefix("error: ").rstrip("\n")

    return run


# ---------------------------------------------------------------- what works


def test_two_commands(carousel, place):
    code, out, err = carousel("train", "lm", "text.txt", "--dev", "dev.txt", "--out", "run", *SMALL)
    assert (code, out) == (0, "run: done; look at run/report.html\n")
    lines = err.splitlines()
    assert re.fullmatch(r"[\d,]+ parameters, 3 batches per epoch", lines[0])
    assert re.fullmatch(
        r"epoch 1/2  dev perplexity [\d.]+  dev perplexity without \[END\] [\d.]+  [\d,]+ tokens/s  [\d.]+ min  best",
        lines[1],
    )
    assert len(lines) == 3
    assert not {"\x1b", "\r"} & set(out + err)
    code, out, err = carousel("generate", "run", "--seed", 1)
    assert (code, err) == (0, "")
    assert out.endswith("\n")


def test_null_on_the_command_line(carousel, place, monkeypatch):
    """What help calls `null` can be given, and overrides a file."""
    given = []
    monkeypatch.setattr("carousel.training.trainer.train", lambda task, values, *_, **__: given.append(values))
    (place / "base.yaml").write_text("threads: 3\ninput_dropout: 0.5\n")
    args = ["train", "lm", "text.txt", "--out", "run", "--config", "base.yaml", "--quiet"]
    carousel(*args, "--threads", "null", "--input-dropout", "null", "--forget-bias", "0.5")
    carousel(*args, "--threads", "2")
    first, second = given
    assert (first["threads"], first["input_dropout"], first["forget_bias"]) == (None, None, 0.5)
    assert (second["threads"], second["input_dropout"]) == (2, 0.5)
    code, _, err = carousel(*args, "--threads", "two")
    assert code == 2 and "'two' is not a whole number in digits" in err


def test_quiet(carousel, place):
    assert carousel("train", "lm", "text.txt", "--out", "run", "--quiet", *SMALL) == (0, "run\n", "")


def test_a_settings_file_and_options(carousel, place):
    (place / "settings.yaml").write_text("train: text.txt\nepochs: 5\nhidden: 4\nlr: 1e-2\ntied: false\n")
    given = ["--config", "settings.yaml", "--set", "hidden=5", "--set", "layers=2", "--layers", 1, "--epochs", 1]
    assert carousel("train", "lm", "--out", "run", "--quiet", "--tied", *given)[0] == 0
    found = settings_of(Run("run"))[1]
    assert (found.epochs, found.hidden, found.layers, found.lr, found.tied) == (1, 5, 1, 0.01, True)
    carousel("train", "lm", "--config", "run/config.yaml", "--out", "again", "--quiet")
    assert (place / "run" / "model.safetensors").read_bytes() == (place / "again" / "model.safetensors").read_bytes()
    assert (place / "run" / "config.yaml").read_bytes() == (place / "again" / "config.yaml").read_bytes()


def test_every_setting_is_an_option(carousel, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    code, out, _ = carousel("train", "lm", "--help")
    assert code == 0
    for name in LanguageSettings.model_fields:
        if name not in ("task", "train"):
            assert f"--{name.replace('_', '-')} " in out
    assert "carousel train lm poems.txt --dev dev.txt --out run" in out
    for option in ("--resume", "--force", "--config", "--set", "--quiet"):
        assert option in out


@pytest.mark.parametrize("args", [["train"], ["train", "--help"], ["train", "-h"]], ids=" ".join)
def test_help_names_the_tasks(carousel, args):
    _, out, err = carousel(*args)
    assert "lm" in out + err
    assert "language model" in out + err


def test_the_command_in_the_result_gives_the_run_again(carousel, place, monkeypatch):
    args = ["train", "lm", "text.txt", "--out", "a run", "--quiet", *map(str, SMALL)]
    monkeypatch.setattr("sys.argv", ["/somewhere/carousel", *args])
    carousel(*args)
    told = json.loads((place / "a run" / "result.json").read_text())["command"]
    assert told == "carousel train lm text.txt --out 'a run' --quiet " + " ".join(map(str, SMALL))


def test_the_same_text_in_other_clothes(carousel, place):
    """The weights are the same, so nothing of the clothes reached the model."""
    lines = "\n".join(LINES)
    clothes = {"plain": lines + "\n", "crlf": lines.replace("\n", "\r\n"), "bom": "\ufeff\n" + lines + "\n\n"}
    found = {}
    for name, text in clothes.items():
        (place / f"{name}.txt").write_bytes(text.encode())
        assert carousel("train", "lm", f"{name}.txt", "--out", name, "--quiet", "--epochs", 1, *SMALL)[0] == 0
        found[name] = {key: weight.tolist() for key, weight in load_file(place / name / "model.safetensors").items()}
    assert found["plain"] == found["crlf"] == found["bom"]


def test_one_line_is_enough(carousel, place):
    for text, layout in (("abc\n", "lines"), ("a", "running"), ("a", "sentences")):
        (place / "one.txt").write_text(text)
        args = ["one.txt", "--dev", "one.txt", "--layout", layout, "--out", layout, "--quiet"]
        assert carousel("train", "lm", *args, *SMALL)[0] == 0
        assert carousel("generate", layout, "--max-length", 5)[0] == 0


def test_a_line_of_ten_megabytes(carousel, place):
    """Read, cut into parts and stopped after a step; then evaluated on the whole, in windows."""
    (place / "long.txt").write_text("to be or not to be, " * 500_000)
    with pytest.MonkeyPatch.context() as patch:
        real = Module.training_step

        def step(self, batch, index):
            os.kill(os.getpid(), signal.SIGINT)
            return real(self, batch, index)

        patch.setattr(Module, "training_step", step)
        code, _, err = carousel("train", "lm", "long.txt", "--out", "run", *SMALL)
    assert code == 130
    assert "batches per epoch" in err


# ---------------------------------------------------------------- what cannot be


@pytest.mark.parametrize(
    "data, said",
    [
        (b"", "bad.txt: the file is empty; give a file with text in it"),
        (b"\n \n\n", "bad.txt: all 3 lines are blank; give a file with text in it"),
        (b"fine\nalso\xff\n", "bad.txt:2: byte 0xff at column 5 is not UTF-8; convert the file with iconv"),
        (b"\xff\xfea\x00b\x00", "bad.txt:1: byte 0xff at column 1 is not UTF-8; convert the file with iconv -f utf-16"),
        (b"a\0b\n", "bad.txt:1: zero byte at column 2"),
        (b"\x1f\x8b\x08\x00", "bad.txt: damaged or cut short (gzip: "),
    ],
)
@pytest.mark.parametrize("layout", ["lines", "running", "sentences"])
def test_bad_text(refused, place, data, said, layout):
    (place / "bad.txt").write_bytes(data)
    assert refused("train", "lm", "bad.txt", "--layout", layout, "--out", "run").startswith(said)
    args = ["text.txt", "--dev", "bad.txt", "--layout", layout, "--out", "run"]
    assert refused("train", "lm", *args).startswith(said)


def test_no_such_text(refused):
    assert refused("train", "lm", "texd.txt", "--out", "run") == "texd.txt: no such file; did you mean text.txt?"
    assert "caches" not in refused("train", "lm", "text.txt", "--dev", "none.txt", "--out", "run")
    assert "is a directory" in refused("train", "lm", ".", "--out", "run")


def test_a_vocabulary_that_leaves_nothing(refused, place):
    said = refused("train", "lm", "text.txt", "--min-frequency", 99, "--out", "run")
    assert said.startswith("text.txt: no character occurs 99 times or more, so the vocabulary is empty")
    (place / "chinese.txt").write_text("床前明月光\n")
    said = refused("train", "lm", "text.txt", "--dev", "chinese.txt", "--out", "run")
    assert said.startswith("chinese.txt: none of its 5 tokens is in the vocabulary")


@pytest.mark.parametrize(
    "args, code, said",
    [
        (["--hiden", 3], 2, "there is no option --hiden; did you mean --hidden? (see carousel train lm --help)"),
        (["--qqqq"], 2, "there is no option --qqqq (see carousel train lm --help)"),
        (["--epochs", "many"], 2, "--epochs"),
        (["--epochs", 0], 1, "--epochs: should be greater than or equal to 1, got 0"),
        (["--optimizer", "adamm"], 1, "--optimizer: should be 'sgd', 'adam'"),
        (["--batch-size", 0], 1, "--batch-size: should be"),
        (["--set", "hiden=3"], 1, "--set hiden: there is no such key; did you mean hidden?"),
        (["--set", "hidden"], 1, "--set hidden: write it as key=value"),
        (["--config", "none.yaml"], 1, "none.yaml: no such file or directory; check the path"),
        (["--resume", "--force"], 2, "choose one of --resume and --force"),
        (["--config", ""], 2, "Invalid value for '--config': it is empty; give a path"),
        (["--resume"], 1, "run: no run to resume; leave out --resume to start one"),
        (["--patience", 2], 1, "patience: 2 needs a dev set, and there is none"),
        (["--dev", "dev.txt", "--set", "tied=maybe"], 1, "--set tied: "),
    ],
    ids=str,
)
def test_wrong_options(refused, args, code, said):
    assert said in refused("train", "lm", "text.txt", "--out", "run", *args, code=code)


def test_what_must_be_given(refused):
    assert refused("train", "lm", "--out", "run") == "TRAIN: missing; give training text"
    assert "--out" in refused("train", "lm", "text.txt", code=2)
    assert "lmm" in refused("train", "lmm", "text.txt", "--out", "run", code=2)


def test_a_wrong_settings_file(refused, place):
    (place / "bad.yaml").write_text("train: text.txt\n\nlearning_rate: 3\n")
    assert refused("train", "lm", "--config", "bad.yaml", "--out", "run") == (
        "bad.yaml:3: learning_rate: there is no such key; did you mean lr?"
    )
    (place / "bad.yaml").write_text("train: text.txt\nlr: fast\n")
    assert refused("train", "lm", "--config", "bad.yaml", "--out", "run").startswith("bad.yaml:2: lr: ")


# ---------------------------------------------------------------- a run that is there


def test_a_directory_that_is_taken(carousel, place):
    args = ["train", "lm", "text.txt", "--out", "run", "--quiet", *SMALL]
    assert carousel(*args)[0] == 0
    before = (place / "run" / "model.safetensors").read_bytes()
    code, out, err = carousel(*args, "--seed", 1)
    assert (code, out) == (1, "")
    assert err == "error: run: a run is here already; continue it with --resume or overwrite it with --force\n"
    assert (place / "run" / "model.safetensors").read_bytes() == before
    assert carousel(*args, "--seed", 1, "--force")[0] == 0
    assert (place / "run" / "model.safetensors").read_bytes() != before
    code, _, err = carousel("train", "lm", "text.txt", "--out", ".", "--force")
    assert (code, err) == (1, "error: .: holds other files; give an empty or new directory\n")
    assert (place / "text.txt").exists()


def test_resuming_a_finished_run(carousel, place):
    args = ["train", "lm", "text.txt", "--out", "run", "--quiet", *SMALL]
    carousel(*args)
    before = (place / "run" / "model.safetensors").read_bytes()
    assert carousel("train", "lm", "--out", "run", "--resume") == (0, "", "run: finished already, after 2 epochs\n")
    assert carousel(*args, "--resume")[0] == 0  # the same settings again
    code, _, err = carousel("train", "lm", "--out", "run", "--resume", "--hidden", 9)
    assert code == 1
    assert err.startswith("error: run/config.yaml: hidden is 6 there, 9 now; ")
    assert (place / "run" / "model.safetensors").read_bytes() == before
    assert carousel("train", "lm", "--out", "run", "--resume", "--epochs", 3, "--quiet") == (0, "run\n", "")
    assert yaml.safe_load((place / "run" / "config.yaml").read_text())["epochs"] == 3


def test_resuming_from_another_directory(carousel, place, monkeypatch):
    assert carousel("train", "lm", "text.txt", "--out", "run", "--quiet", *SMALL)[0] == 0
    (place / "elsewhere").mkdir()
    monkeypatch.chdir(place / "elsewhere")
    assert carousel("train", "lm", "--out", "../run", "--resume", "--epochs", 3, "--quiet") == (0, "../run\n", "")
    again = carousel("train", "lm", "../text.txt", "--out", "../run", "--resume")  # the same file by another name
    assert again == (0, "", "../run: finished already, after 3 epochs\n")
    code, _, err = carousel("train", "lm", "text.txt", "--out", "../run", "--resume")
    assert code == 1
    assert f"train is {place}/text.txt there, {place}/elsewhere/text.txt now; " in err


def test_what_does_nothing_is_said_before_training(carousel, place):
    code, _, err = carousel("train", "lm", "text.txt", "--out", "run", "--momentum", 0.9, *SMALL)
    assert code == 0
    assert err.splitlines()[0] == "--momentum: 0.9 does nothing, since --optimizer is adamw; it is for sgd or rmsprop"


def test_wrong_values_while_resuming_name_their_option(carousel, place):
    carousel("train", "lm", "text.txt", "--out", "run", "--quiet", *SMALL)
    code, _, err = carousel("train", "lm", "--out", "run", "--resume", "--epochs", 0)
    assert (code, err) == (1, "error: --epochs: should be greater than or equal to 1, got 0\n")
    code, _, err = carousel("train", "lm", "--out", "run", "--resume", "--set", "epoch=3")
    assert (code, err) == (1, "error: --set epoch: there is no such key; did you mean epochs?\n")


def test_ctrl_c(carousel, place, monkeypatch):
    """Saved, exit 130, and the line has the command that goes on."""
    args = ["text.txt", "--dev", "dev.txt", *SMALL]
    carousel("train", "lm", *args, "--out", "whole", "--quiet")
    with pytest.MonkeyPatch.context() as patch:
        real = Module.training_step

        def step(self, batch, index):
            if self.current_epoch == 1:
                os.kill(os.getpid(), signal.SIGINT)
            return real(self, batch, index)

        patch.setattr(Module, "training_step", step)
        code, out, err = carousel("train", "lm", *args, "--out", "my run")
    assert (code, out) == (130, "")
    told = "stopped at step 4, which is kept; resume with: carousel train lm --out 'my run' --resume"
    assert err.splitlines()[-1] == told
    code, out, err = carousel("train", "lm", "--out", "my run", "--resume")
    assert (code, out) == (0, "my run: done; look at 'my run/report.html'\n")
    assert "resuming from step 4" in err
    for name in ("model.safetensors", "metrics.csv"):
        assert (place / "my run" / name).read_bytes() == (place / "whole" / name).read_bytes()


def test_a_loss_that_is_no_number(carousel, place):
    args = ["text.txt", "--out", "run", "--quiet", "--optimizer", "sgd", "--lr", "1e38", "--clip", "1e30", *SMALL]
    code, out, err = carousel("train", "lm", *args)
    assert (code, out) == (1, "")
    assert len(err.splitlines()) == 1
    assert re.search(r"at step \d.*; nothing was kept yet; try a lower --lr \(it is 1e\+38\) or a smaller --clip", err)


def test_a_full_disk(carousel, place, monkeypatch):
    import errno

    from carousel.training.checkpoints import Checkpoints

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device", "run/checkpoints/x")

    monkeypatch.setattr(Checkpoints, "save_checkpoint", full)
    code, _, err = carousel("train", "lm", "text.txt", "--out", "run", "--quiet", *SMALL)
    assert (code, len(err.splitlines())) == (1, 1)
    end = "free some space, then resume with: carousel train lm --out run --resume\n"
    assert err == f"error: run/checkpoints/x: No space left on device; {end}"


@pytest.mark.parametrize("text", ["1_000", "1.5", "many"])
def test_numbers_of_options_are_in_digits(text, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["train", "lm", "a.txt", "--out", "run", "--hidden", text])
    assert stop.value.code == 2
    assert f"'--hidden': '{text}' is not a whole number in digits" in capsys.readouterr().err
