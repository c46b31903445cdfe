"""Text in the form of a model: a source of it, and generated text made readable as it comes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carousel.data import Lines, RunningText, Vocabulary, tokenize
from carousel.data.text.form import TextForm
from carousel.data.text.formed import FormedText, restored

PTB = ["mr. vinken said `` we do n't know '' , and that 's all .", "is it a company 's plan -lrb- or not -rrb- ?"] * 20


@given(
    st.lists(
        st.sampled_from(
            ["mr.", "do", "n't", "know", ",", ".", "-lrb-", "a", "-rrb-", "``", "''", "?", "company", "'s"]
        ),
        max_size=12,
    )
)
def test_a_stream_is_what_the_whole_is(tokens):
    form, text = TextForm.learn(PTB, "word"), " ".join(tokens)
    pieces = [text[k : k + 3] for k in range(0, len(text), 3)]
    assert "".join(restored(form, pieces)) == form.restore(text)


def test_a_store_of_tokenized_text_has_the_same_ids(tmp_path, text_file):
    path = text_file("\n".join(PTB))
    form, words = TextForm.learn(PTB, "word"), Vocabulary.train(PTB, "word")
    plain = tokenize(Lines(path), words, tmp_path / "cache")
    formed = tokenize(FormedText(Lines(path), form, training=True), words, tmp_path / "cache")
    other = tokenize(FormedText(Lines(path), form), words, tmp_path / "cache")
    assert plain.tokens.tolist() == formed.tokens.tolist() == other.tokens.tolist()
    assert plain.path != formed.path != other.path


@pytest.mark.parametrize("text", ["to be , or not .\n" * 400, "To be, or not.\n" * 400])
def test_blocks_in_a_form(tmp_path, text):
    readers = (Lines, RunningText, lambda path: RunningText(path, end_lines=True))
    path = tmp_path / "text.txt"
    path.write_text(text)
    for reader in readers:
        formed = FormedText(reader(path), TextForm.learn(reader(path), "word"), training=True)
        assert [t for block in formed.blocks(100) for t in block.texts()] == list(formed)


def test_pieces_keep_their_lines_and_ends(text_file):
    """Raw text is split and lowered as the form asks; line numbers and newlines are those of the file."""
    form = TextForm.learn(PTB, "word")
    source = RunningText(text_file("Is it?\n\nWe don't know."))
    formed = FormedText(source, form)
    assert [piece.text for piece in formed.pieces()] == [
        form.read([piece.text.removesuffix("\n")]).texts[0] + "\n" * piece.text.endswith("\n")
        for piece in source.pieces()
    ]
    assert "".join(formed) == "is it ?\n\nwe do n't know ."
    assert [(p.line, p.end) for p in formed.pieces()] == [(p.line, p.end) for p in source.pieces()]


def test_nothing_generated_is_nothing():
    assert list(restored(TextForm.learn(PTB, "word"), [])) == []
