"""Which characters the fonts of this machine can draw, as matplotlib's own font files say."""

from matplotlib.font_manager import FontProperties, findfont
from matplotlib.ft2font import FT2Font

from carousel.pictures import fonts


def test_matplotlibs_own_font_is_enough_for_latin():
    assert fonts.families("déjà vu\n") == ["DejaVu Sans"]
    assert fonts.families("") == ["DejaVu Sans"]


def test_what_a_font_has_is_what_its_file_says():
    file = FT2Font(findfont(FontProperties(family="DejaVu Sans")))
    for character in "aß漢\u0378":
        assert fonts.has("DejaVu Sans", character) == (ord(character) in file.get_charmap())
    assert not fonts.has("no such family", "a")


def test_what_no_font_can_draw_is_its_code_point(monkeypatch):
    monkeypatch.setattr(fonts, "_drawable", lambda character: character.isascii())
    assert fonts.spelled("aé\n漢") == "a⟨E9⟩\n⟨6F22⟩"


def test_families_are_taken_until_nothing_is_missing(monkeypatch):
    able = {"DejaVu Sans": "ab", "One": "c", "Two": "cd", "Three": "e"}
    monkeypatch.setattr(fonts, "has", lambda family, character: character in able[family])
    monkeypatch.setattr(fonts, "_names", lambda: ["One", "Two", "Three"])
    assert fonts.families("abd") == ["DejaVu Sans", "Two"]
    assert fonts.families("cd") == ["DejaVu Sans", "One", "Two"]
    assert fonts.families("xyz") == ["DejaVu Sans"]
