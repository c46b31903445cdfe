"""The commands at the head of each task's page run as they are written, on small files of those names."""

import io
import re
import shlex
import sys
from pathlib import Path

import pytest

from carousel.cli import main as cli

DOCS = Path(__file__).parent.parent / "docs"
TEXT = "a fine film\ndull and flat\nwhat a day\nthe film was dull\n"
REVIEWS = "a fine film\tgood\ndull and flat\tbad\nwhat a fine day\tgood\nthe film was dull\tbad\n"
NAMES = "Ada B-PER\nsaw O\nRome B-LOC\n\nGrace B-PER\nran O\n\n"
CONLLU = (
    "".join(f"{k}\t{w}\t{w}\t{t}\t_\t_\t0\t_\t_\t_\n" for k, (w, t) in enumerate([("Ada", "N"), ("ran", "V")], 1))
    + "\n"
)
TREES = "(1 (1 fine) (0 film))\n(0 (0 dull) (0 film))\n"
PAIRS = "sentence_a\tsentence_b\trelatedness_score\na man plays\ta man sings\t4.0\na dog runs\ta cat sleeps\t1.5\n"
FLIGHTS = "month,passengers\n" + "".join(
    f"{1950 + k // 12}-{k % 12 + 1:02d},{100 + k + 10 * (k % 12)}\n" for k in range(120)
)
GESTURES = "label,t1,t2,t3,t4\n" + "".join(f"{'up' if k % 2 else 'down'},{k},1,{2 - k % 2},\n" for k in range(8))
FILES = {
    "language-models": {"poems.txt": TEXT, "dev.txt": TEXT},
    "bilm": {"text.txt": TEXT, "dev.txt": TEXT, "names.conll": NAMES * 2, "dev.conll": NAMES},
    "classify": {"reviews.tsv": REVIEWS, "dev.tsv": REVIEWS, "texts.txt": TEXT},
    "sequences": {"gestures.csv": GESTURES, "dev.csv": GESTURES, "new.csv": GESTURES},
    "tag": {"train.conllu": CONLLU * 2, "dev.conllu": CONLLU, "sentences.txt": TEXT},
    "encode": {"pairs.tsv": PAIRS, "dev.tsv": PAIRS, "texts.txt": TEXT},
    "trees": {"train.txt": TREES, "dev.txt": TREES},
    "translate": {"train.en": TEXT, "train.de": TEXT, "dev.en": TEXT, "dev.de": TEXT, "texts.txt": TEXT},
    "forecast": {"flights.csv": FLIGHTS},
    "sweep": {"reviews.tsv": REVIEWS * 2, "dev.tsv": REVIEWS},
}


def commands(page):
    """The lines of the first block of commands: (what standard input is, the arguments, where the output goes)."""
    block = re.search(r"^```sh\n(.*?)^```", (DOCS / f"{page}.md").read_text("utf-8"), re.M | re.S)[1]
    for line in block.splitlines():
        words = shlex.split(line, comments=True)
        given, target = "", None
        if "|" in words:
            given, words = " ".join(words[1 : words.index("|")]), words[words.index("|") + 1 :]
        if ">" in words:
            words, target = words[: words.index(">")], words[-1]
        assert words[0] == "carousel"
        yield given, words[1:], target


@pytest.mark.parametrize("page", FILES)
def test_the_commands_of_a_page(page, tmp_path, monkeypatch, capsys):
    if page == "sweep":
        pytest.importorskip("optuna")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name, content in FILES[page].items():
        Path(name).write_text(content, "utf-8")
    for given, arguments, target in commands(page):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given.encode())))
        more = ["--threads", "1", "--epochs", "2"] if arguments[0] == "train" else []
        with pytest.raises(SystemExit) as stop:
            cli.main([*arguments, *more])
        out, err = capsys.readouterr()
        assert not stop.value.code, f"{' '.join(arguments)}: {err}"
        assert out
        if target is not None:
            Path(target).write_text(out, "utf-8")
