"""Text as the data of a language model, and what a run keeps of it."""

from collections import Counter

import pytest
from helpers.tiny import language

from carousel.errors import SettingsError
from carousel.tasks.lm.data import LanguageAssets, adaptive_parts, check, prepare


def test_lines_and_tokens_are_counted(tmp_path):
    settings = language(tmp_path)
    assets, data = prepare(settings)
    train, dev = (path.read_text().splitlines() for path in (settings.train, settings.dev))
    assert data.train.tokens == sum(len(line) + 1 for line in train)  # [END] is predicted too
    assert data.dev.tokens == sum(len(line) + 1 for line in dev)
    known = set("".join(train))
    assert set(assets.vocabulary.tokens[4:]) == known
    unknown = sum(character not in known for line in dev for character in line)
    assert f"{unknown / sum(map(len, dev)):.2%} unknown" in data.info["dev text"]


def test_assets_are_saved_and_not_learned_again(tmp_path):
    settings = language(tmp_path)
    assets, _ = prepare(settings)
    assets.save(tmp_path)
    loaded = LanguageAssets.load(settings, tmp_path)
    assert loaded.vocabulary.fingerprint == assets.vocabulary.fingerprint
    assert (loaded.form, loaded.usual) == (assets.form, assets.usual)
    settings.train.write_text("xzz\n" * 20)
    assert prepare(settings, loaded)[0] is loaded


@pytest.mark.parametrize("tokens", ["character", "word"])
def test_tokens_that_occur_once_are_found_by_counting(tmp_path, tokens, monkeypatch):
    monkeypatch.setattr("carousel.tasks.lm.data.WINDOW", 7)  # counted in parts
    text = "the owl saw the cat\nthe cat sat\nzebra\n"
    (tmp_path / "text.txt").write_text(text)
    file = tmp_path / "text.txt"
    settings = language(tmp_path, train=file, dev=file, tokens=tokens, min_frequency=1)
    assets, _ = prepare(settings)
    pieces = Counter(text.split() if tokens == "word" else text.replace("\n", ""))
    assert assets.singletons is not None
    once = [token for token, rare in zip(assets.vocabulary.tokens, assets.singletons, strict=True) if rare]
    assert sorted(once) == sorted(piece for piece, count in pieces.items() if count == 1)


def test_bpe_has_no_unknown_tokens_to_learn(tmp_path):
    assert prepare(language(tmp_path, tokens="bpe"))[0].singletons is None


def test_a_small_vocabulary_needs_no_adaptive_softmax(tmp_path):
    with pytest.raises(SettingsError, match=r"output='adaptive': it is for .* tokens and more, this vocabulary has 12"):
        adaptive_parts(language(tmp_path), 12)


def test_the_check_has_both_files(tmp_path):
    settings = language(tmp_path)
    found = check(settings)
    assert (found.train.lines, found.dev.lines) == (22, 8)
