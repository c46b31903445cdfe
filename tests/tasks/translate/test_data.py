"""The translator's data: checks, files that do not fit, the vocabularies that a run keeps."""

import pytest

from carousel.data import Vocabulary
from carousel.tasks.translate.data import TranslateAssets, prepare


@pytest.mark.parametrize("shared", [False, True])
def test_assets_are_saved_and_used_again(settings, tmp_path, shared):
    s = settings(shared=shared)
    assets, data = prepare(s)
    names = ["tokenizer.json"] if shared else ["source.json", "target.json"]
    tmp_path = tmp_path / "run"
    tmp_path.mkdir()
    assets.save(tmp_path)
    reading = ["source_form.json", "target_form.json", "usual.json"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*names, *reading])
    kept = TranslateAssets.load(s, tmp_path)
    assert (kept.source, kept.target, kept.shared) == (assets.source, assets.target, shared)
    assert (kept.forms, kept.usual) == (assets.forms, assets.usual)
    small = Vocabulary.from_tokens("aA", "word")  # nothing is learned again from the training file
    given = TranslateAssets(small, small)
    again, fewer = prepare(s, given)
    assert again is given and len(fewer.train.store) == len(data.train.store) == 400
    assert fewer.train.store.unknown > data.train.store.unknown == 0


def test_files_that_do_not_fit(command, run, tmp_path):
    source, target = tmp_path / "a.en", tmp_path / "a.de"
    source.write_text("a\nb\nc\n"), target.write_text("A\nB\n")
    for words in (["eval", run], ["check", "translate"], ["train", "translate", "--out", tmp_path / "run2"]):
        code, out, err = command(*words, source, target)
        assert (code != 0, out) == (True, "") and err.count("\n") == 1
        assert f"{source}: 3 lines, but {target} has 2" in err
    source.write_text("a\n\n")
    code, _, err = command("train", "translate", source, target, "--out", tmp_path / "run2")
    assert code and f"{source}:2: the source is empty" in err and not (tmp_path / "run2").exists()
