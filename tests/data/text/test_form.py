"""Raw text and the form of a training text: what is learned of it, bringing text to it, and the way back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carousel.data.text.form import TextForm

PTB = ["mr. vinken said `` we do n't know '' , and that 's all .", "is it a company 's plan -lrb- or not -rrb- ?"] * 20
MOSES = ["a man &apos;s hat , which isn &apos;t new .", "he said &quot; a well @-@ known man &quot; ."] * 30
MIKOLOV = [
    "mr. <unk> is chairman of <unk> n.v. the dutch group",
    "it rose N N to $ N in the u.s. and did n't fall",
] * 20
UD = [
    "Al - Zaman : American forces killed Dr. Ani , the preacher .",
    "I do n't ( really ) know Mr. Smith 's age !",
] * 20
SPACES = ["i don t know what it s about", "the co op is mr smith s and mr o neill s"] * 30
RAW = ["I saw Rome, and it's old.", 'He said: "Don\'t go (yet)!"', "We paid $5.50 at 10:30; e.g. here..."] * 30
FRENCH = ["Bonjour ! Vous allez bien ?", "Oui, merci : tout va bien.", "Non, pas du tout !"] * 30
CASES = [
    (PTB, 'Mr. Vinken doesn\'t say: "That\'s (not) it."', "mr. vinken does n't say `` that 's -lrb- not -rrb- it . ''"),
    (PTB, "Is it?", "is it ?"),
    (MOSES, "A well-known man's hat, isn't it.", "a well @-@ known man &apos;s hat , isn &apos;t it ."),
    (MIKOLOV, "Mr. Lee's rose 3.5% in the U.S., it didn't fall.", "mr. lee 's rose N in the u.s. it did n't fall"),
    (UD, "I saw Al-Ani, Dr. Smith and Rome.", "I saw Al - Ani , Dr. Smith and Rome ."),
    (UD, 'I saw Rome. "Ada" left. (He did.) Fine. 😀', 'I saw Rome . Ada left . ( He did . ) Fine .'),
    (UD, "He came at approx. ten, or appr. (ten).", "He came at approx. ten , or appr. ( ten ) ."),
    (UD, "😀 !!", "!"),
    (UD, "😀😀", "😀 😀"),
    (SPACES, "I don't know rock'n'roll.", "i don t know rock n roll"),
    (RAW, "I saw Rome.", "I saw Rome ."),
    (RAW, "It's (www.a.org/a?b=1), @ada; 1,000 more!!", "It's ( www.a.org/a?b=1 ) , @ada ; 1,000 more !!"),
    (RAW, "हिन्दी में, नमस्ते।", "हिन्दी में , नमस्ते ।"),
]  # fmt: skip


@pytest.mark.parametrize("training, raw, expected", CASES)
def test_raw_text_is_brought_to_the_form_of_the_training_text(training, raw, expected):
    assert TextForm.learn(training, "word").read([raw]).texts == [expected]


@pytest.mark.parametrize("training", [PTB, MOSES, MIKOLOV, UD])
def test_tokenized_text_is_not_touched(training):
    form = TextForm.learn(training, "word")
    assert form.tokenized
    assert [form.of_training(text) for text in training] == training
    for tokenized in (None, True):  # also if it is not said that it is tokenized
        assert form.read(training, tokenized).texts == training


def test_unusual_words_of_tokenized_text_stay_whole_among_others():
    """A line is tokenized if what is read with it is: its marks inside words are no sign of raw text."""
    form = TextForm.learn(PTB, "word")
    text = "the web:site a.b. , he said ."
    assert form.read([text]) == ([text], False)
    assert form.read(["Look at the web:site."]) == (["look at the web site ."], True)


def test_what_is_said_wins():
    form = TextForm.learn(UD, "word")
    assert form.read(["I saw Rome."], tokenized=True) == (["I saw Rome."], False)
    assert form.read(["Rome , Italy."], tokenized=False) == (["Rome , Italy ."], True)


@pytest.mark.parametrize(
    "training, tokens, tokenize, expected",
    [
        (RAW, "word", "auto", (False, True)),
        (PTB, "word", "auto", (True, True)),
        (PTB, "bpe", "auto", (True, True)),
        (RAW, "bpe", "words", (False, True)),
        (PTB, "word", "words", (False, True)),
    ],
)
def test_which_form_is_learned(training, tokens, tokenize, expected):
    form = TextForm.learn(training, tokens, tokenize)
    assert (form.tokenized, form.split) == expected


@pytest.mark.parametrize(
    "training, tokens, tokenize", [(RAW, "bpe", "auto"), (PTB, "character", "auto"), (PTB, "word", "none")]
)
def test_text_that_needs_no_form(training, tokens, tokenize):
    assert TextForm.learn(training, tokens, tokenize) is None


def test_lower_case_alone_is_a_form_too():
    lower = [text.lower() for text in RAW]
    form = TextForm.learn(lower, "bpe")
    assert form.read(["I Saw ROME, again."]).texts == ["i saw rome, again."]
    assert form.restore("i saw rome. it is old!") == "I saw rome. It is old!"
    assert TextForm.learn(RAW, "bpe", lower=True).restore("i saw rome.") == "I saw rome."


def test_little_text_allows_no_conclusions():
    form = TextForm.learn(["a fine film", "dull"], "word")
    assert form.read(["A fine film!"]).texts == ["A fine film !"]
    form = TextForm.learn(["a fine film that is never dull"] * 60, "word")
    assert form.read(["A fine film!"]).texts == ["a fine film"]


@pytest.mark.parametrize("training", [RAW, FRENCH])
def test_the_rule_for_raw_text_is_reversible(training):
    form = TextForm.learn(training, "word")
    for text in training:
        assert form.restore(form.of_training(text)) == text


def test_quotes_and_contractions_are_put_back():
    form = TextForm.learn(PTB, "word")
    tokens = "mr. vinken said `` we do n't know '' , and -lrb- that -rrb- 's all . is it ?"
    assert form.restore(tokens) == "Mr. vinken said \"we don't know\", and (that)'s all. Is it?"
    assert TextForm.learn(MOSES, "bpe").restore("a well @-@ known man &apos;s hat .") == "A well-known man's hat."


@pytest.mark.parametrize("training", [PTB, MOSES, MIKOLOV, UD, SPACES, RAW])
@given(st.text(alphabet="aB3.,!?'’\"“()-@& …。İΣ😀", max_size=40))
def test_words_are_aligned_with_the_text(training, text):
    """Nothing of a text is lost or rewritten, and the words beside it are those that the model reads."""
    form = TextForm.learn(training, "word")
    (words,) = form.align([text], tokenized=False)
    assert "".join(word.surface for word in words) == "".join(text.split())
    assert all(word.surface and word.form for word in words)
    read, kept = form.read([text], tokenized=False).texts[0].split(), [word.form for word in words]
    rest = iter(kept)
    assert all(word in rest for word in read)  # in their order; marks may be left out
    assert bool(read) == bool(kept)


def test_a_word_keeps_its_spelling_beside_its_form():
    form = TextForm.learn(PTB, "word")
    (words,) = form.align(["Don’t (say) “no”…"])
    assert [word.surface for word in words] == ["Do", "n’t", "(", "say", ")", "“", "no", "”", "…"]
    assert [word.form for word in words] == ["do", "n't", "-lrb-", "say", "-rrb-", "``", "no", "''", "."]
    tokenized = form.align(["do n't say (it) ."], tokenized=True)
    assert [word.surface for word in tokenized[0]] == ["do", "n't", "say", "(it)", "."]


@given(st.text(alphabet="ab.,!?'\"()- \n…。，ü😀", max_size=40))
def test_nothing_but_spaces_is_lost_in_raw_text(text):
    """Marks are split off, never dropped or reordered, and both directions are stable."""
    form = TextForm.learn(RAW, "word")
    split = form.read([text], tokenized=False).texts[0]
    assert "".join(split.split()) == "".join(text.split())
    assert "".join(form.restore(split).split()) == "".join(text.split())
    assert form.read([split], tokenized=False).texts[0].split() == split.split() or set("'\"-.!?…") & set(text)


@pytest.mark.parametrize("training", [PTB, MOSES, MIKOLOV, RAW])
def test_saved_and_loaded(tmp_path, training):
    form = TextForm.learn(training, "word")
    form.save(tmp_path)
    again = TextForm.load(tmp_path)
    assert again == form and again.fingerprint == form.fingerprint != TextForm.learn(UD, "word").fingerprint
    assert TextForm.load(tmp_path / "nowhere") is None
