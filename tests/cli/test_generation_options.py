"""The options of `carousel generate` and `translate`: those of GenerationConfig, with the same meaning as in Python."""

import json
import subprocess
import sys

import pytest
import torch

import carousel
from carousel.cli.generation_options import FILES
from carousel.cli.main import application, main
from carousel.decoding.config import NAMES
from carousel.tasks.lm.settings import LanguageSettings
from carousel.tasks.lm.task import LanguageTask
from carousel.tasks.translate.settings import TranslateSettings
from carousel.tasks.translate.task import Translate
from carousel.training.trainer import train
from carousel.wording import dashed

LETTERS = "abcdef"
RULE = '''
import torch
from carousel.decoding import Constraint

class Never(Constraint):
    """Never one letter, c or C, whichever the model has."""
    rows = None

    def start(self, context):
        return torch.tensor([k for k, token in enumerate(context.tokens) if token in ("c", "C")])

    def apply(self, log_probs, state):
        log_probs.index_fill_(1, state, -torch.inf)

class Needs(Never):
    def __init__(self, letter):
        pass

a_number = 3
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A language model of letters and a translator of letters to capitals, which both like c best; and a rule."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "rule.py").write_text(RULE)
    (folder / "text.txt").write_text("abcdef\nfedcba\nbccb\n" * 4)
    (folder / "pairs.tsv").write_text("abc\tABC\nfed\tFED\nbccb\tBCCB\n" * 8)
    small = {"hidden": 6, "embedding": 6, "threads": 1, "epochs": 1, "cache": folder / "cache", "tokens": "character"}
    for task, settings, name, data in (
        (LanguageTask, LanguageSettings, "lm", "text.txt"),
        (Translate, TranslateSettings, "translate", "pairs.tsv"),
    ):
        make_network = task.make_network

        def biased(settings, assets, make_network=make_network):
            network = make_network(settings, assets)
            vocabulary = getattr(assets, "vocabulary", None) or assets.target
            with torch.no_grad():
                network.bias[[k for k, token in enumerate(vocabulary.tokens) if token in "cC"]] = 3.0
            return network

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(task, "make_network", biased)
            train(task, settings.read({"train": folder / data, **small}), folder / name, quiet=True, report=False)
    (folder / "lines.txt").write_text("abc\nfd\n")
    return folder


@pytest.fixture
def command(folder, capsys, monkeypatch):
    """Runs `carousel generate` or `translate` on its run: exit code, output, errors on one line."""

    def call(name, *args):
        inputs = [folder / "lm"] if name == "generate" else [folder / "translate", folder / "lines.txt"]
        with pytest.raises(SystemExit) as end:
            main([name, *map(str, inputs), *map(str, args)])
        out, err = capsys.readouterr()
        return end.value.code or 0, out, " ".join(err.split())

    return call


BOTH = pytest.mark.parametrize("name", ["generate", "translate"])


@BOTH
def test_a_constraint_from_a_file(command, folder, name):
    args = ["--seed", 1, "--temperature", 1, "--max-length", 12]
    code, free, _ = command(name, *args)
    assert code == 0 and "c" in free.lower()
    code, ruled, err = command(name, *args, "--constraint", f"{folder}/rule.py:Never")
    assert (code, err) == (0, "") and "c" not in ruled.lower() and len(ruled.strip()) > 2
    model = carousel.load(folder / ("lm" if name == "generate" else name))
    sys.path.insert(0, str(folder))
    try:
        from rule import Never
    finally:
        sys.path.pop(0)
    options = {"seed": 1, "temperature": 1.0, "max_length": 12, "constraints": [Never()]}
    made = [model.generate(**options)] if name == "generate" else model.translate(["abc", "fd"], **options)
    assert ruled == "".join(f"{one.text}\n" for one in made)


@BOTH
@pytest.mark.parametrize(
    "place, message",
    [
        ("rule.py", "rule.py: a constraint is named FILE.py:CLASS"),
        ("none.py:Never", "none.py: no such file"),
        ("{folder}/rule.py:never", "rule.py: it defines no never; did you mean Never?"),
        ("{folder}/rule.py:a_number", "rule.py:a_number: not a carousel.decoding.Constraint, but of type int"),
        ("{folder}/rule.py:Needs", "rule.py:Needs: it cannot be made without arguments"),
    ],
)
def test_a_constraint_that_is_none(command, folder, name, place, message):
    code, out, err = command(name, "--constraint", place.format(folder=folder))
    assert code and not out and message in err


@BOTH
def test_every_field_is_an_option_with_its_help(name):
    import typer

    options = {o: p for p in typer.main.get_command(application([name])).commands[name].params for o in p.opts}
    for field, declared in NAMES.items():
        if field not in FILES:
            plain = declared.metadata["help"].partition("{")[0]
            assert plain and options[dashed(field)].help.startswith(plain)
            assert "{" not in options[dashed(field)].help
            assert options[dashed(field)].default is None
    assert ("--tree" in options) == (name == "translate")  # there it names the file to draw into


@BOTH
def test_options_from_a_file(command, folder, tmp_path, name):
    (tmp_path / "options.yaml").write_text("top_k: 3\nseed: 5\nmax_length: 9\n")
    expected = command(name, "--top-k", 3, "--seed", 5, "--max-length", 9)
    assert expected[0] == 0
    assert command(name, "--config", tmp_path / "options.yaml") == expected
    assert command(name, "--config", tmp_path / "options.yaml", "--seed", 6) == command(
        name, "--top-k", 3, "--seed", 6, "--max-length", 9
    )
    for text, message in (
        ("topk: 3\n", "topk: there is no such option; did you mean top_k?"),
        ("top_k: 0\n", "top_k: must be a whole number of at least 1, got 0"),
        ("constraints: [rule.py:Never]\n", "constraints: must be a list of Constraint objects"),
        ("- 3\n", "a file of options has lines of the form name: value"),
        ("a: [\n", "not YAML"),
    ):
        (tmp_path / "options.yaml").write_text(text)
        code, out, err = command(name, "--config", tmp_path / "options.yaml")
        assert code and not out and f"{tmp_path}/options.yaml: {message}" in err


def test_stopping_rules(command):
    for value in ("true", "false", "7"):
        assert command("translate", "--early-stopping", value)[0] == 0
    assert "got 2" in command("translate", "-n", 3, "--early-stopping", 2)[2]


def test_json_of_a_sampled_translation_has_its_seed(command):
    code, out, err = command("translate", "--json", "--top-k", 3, "--quiet")
    first, second = map(json.loads, out.splitlines())
    assert (code, err) == (0, "") and first["seed"] == second["seed"]
    assert command("translate", "--json", "--top-k", 3, "--seed", first["seed"])[1] == out


def test_help_does_not_wait_for_torch():
    check = "import sys; sys.argv = ['carousel', 'generate', '--help']\n" \
            "from carousel.cli.main import main\n" \
            "try: main()\nexcept SystemExit: print('torch' in sys.modules)"  # fmt: skip
    assert subprocess.run([sys.executable, "-c", check], capture_output=True, text=True).stdout.endswith("False\n")
