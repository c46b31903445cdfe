"""What a language model writes: against a loop in plain PyTorch, and as it was asked to."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from carousel.data import END, PAD, START, UNK, DataError
from carousel.models.language import LanguageModel, LanguageSettings
from carousel.models.writing import Writing, read_rhymes, write, write_aloud

POEMS = [
    "床前明月光，疑是地上霜。舉頭望明月，低頭思故鄉。",
    "春眠不覺曉，處處聞啼鳥。夜來風雨聲，花落知多少。",
    "白日依山盡，黃河入海流。欲窮千里目，更上一層樓。",
    "千山鳥飛絕，萬徑人蹤滅。孤舟蓑笠翁，獨釣寒江雪。",
]


@pytest.fixture(scope="module")
def make(tmp_path_factory):
    folder = tmp_path_factory.mktemp("poems")

    def model(text=POEMS, **given):
        path = folder / "poems.txt"
        path.write_text("\n".join(text) + "\n", "utf-8")
        known = {"train": path, "cache": folder / "cache", "hidden": 8, "embedding": 6, **given}
        torch.manual_seed(4)
        made = LanguageModel.prepare(LanguageSettings.read(known))[0]
        with torch.no_grad():
            for parameter in made.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.5)
            made.bias[[PAD, START, UNK]] = 4.0  # what must never be written is what the model likes best
            made.bias[END] = -1.0
        return made.eval()

    return model


@pytest.fixture(scope="module")
def poet(make):
    return make()


def shape(text):
    return "".join(c if c in "，。" else "○" for c in text)


# ---------------------------------------------------------------- against a plain loop


@torch.no_grad()
def plain_greedy(model, prompt, length, unknown=False, start=START):
    """The most probable token at every step, with torch's own LSTM."""
    lstm = nn.LSTM(model.settings.embedding, model.settings.hidden, model.settings.layers)
    lstm.load_state_dict(model.layers.state_dict())
    ids, total = [start, *(model.vocabulary.tokens.index(c) for c in prompt)], 0.0
    while len(ids) - 1 < length and (len(ids) == 1 + len(prompt) or ids[-1] != END):
        x, _ = lstm(F.embedding(torch.tensor(ids), model.embedder.weight).unsqueeze(1))
        x = x[-1, 0] if model.project is None else model.project(x[-1, 0])
        log_probs = (model.output_weight @ x + model.bias).log_softmax(-1)
        allowed = log_probs.clone()
        allowed[[PAD, START] if unknown else [PAD, START, UNK]] = -torch.inf
        ids.append(int(allowed.argmax()))
        total += float(log_probs[ids[-1]])
    return ids[1:], total


@pytest.mark.parametrize("given", [{}, {"tied": False}, {"layers": 2, "hidden": 6}], ids=str)
@pytest.mark.parametrize("prompt", ["", "明月", "床前明月光，疑"])
def test_greedy_is_the_argmax_loop(make, given, prompt):
    model = make(**given)
    expected, total = plain_greedy(model, prompt, 30)
    [found] = model.generate(prompt=prompt, length=30)
    assert found.text == "".join(model.vocabulary.tokens[i] for i in expected if i != END)
    assert found.text.startswith(prompt)
    assert found.tokens == len(expected) - len(prompt)
    assert found.finished == (expected[-1] == END)
    assert found.log_prob == pytest.approx(total, abs=1e-3)  # of the model, whatever was forbidden


def test_the_prompt_and_the_text_are_read_as_one(make):
    """What is written after a prompt is what would have been written anyway, if it begins like that."""
    model = make()
    [free] = model.generate(length=12)
    for cut in (1, 4, 7):
        assert model.generate(prompt=free.text[:cut], length=12)[0].text == free.text


def test_unknown_tokens_only_if_allowed(make):
    model = make(min_frequency=2)
    assert all("[UNK]" not in t.text for t in model.generate(20, temperature=1.0, length=20))
    expected, _ = plain_greedy(model, "", 10, unknown=True)
    [found] = model.generate(unknown=True, length=10)
    assert UNK in expected
    assert found.text == model.vocabulary.decode(expected)


@pytest.mark.parametrize("layout, start", [("sentences", END), ("running", START)])
def test_running_text(make, layout, start):
    """A sentence follows the end of another; running text does not end."""
    model = make(layout=layout)
    expected, _ = plain_greedy(model, "明", 25, start=start)
    if layout == "running":
        model.bias.data[END] = -1e9
        expected, _ = plain_greedy(model, "明", 25)
    [found] = model.generate(prompt="明", length=25)
    assert found.text == "".join(model.vocabulary.tokens[i] for i in expected if i != END)
    if layout == "running":
        assert (found.finished, len(found.text)) == (False, 25)


# ---------------------------------------------------------------- seeds and batches

WISHES = [{"temperature": 0.8}, {"top_k": 5}, {"top_p": 0.7, "temperature": 1.3}, {"random_k": 3}, {"beam": 3}, {}]


@pytest.mark.parametrize("wish", WISHES, ids=str)
def test_batches_change_nothing(poet, wish):
    prompts = ["明", "", "床前明月光，", "春"] * 3
    whole = list(write(poet, prompts, Writing(length=20, **wish), seed=5, batch=64))
    for size in (1, 5):
        assert [t.text for t in write(poet, prompts, Writing(length=20, **wish), seed=5, batch=size)] == [
            t.text for t in whole
        ]
    assert all(t.text.startswith(p) for t, p in zip(whole, prompts, strict=True))


@pytest.mark.parametrize("wish", WISHES, ids=str)
def test_aloud_is_the_same_text(poet, wish):
    prompts = ["明月", ""]
    for number, written in enumerate(write(poet, prompts, Writing(length=20, **wish), seed=5)):
        pieces = list(write_aloud(poet, prompts[number], Writing(length=20, **wish), seed=5, number=number))
        assert "".join(pieces) == written.text
        assert len(pieces) > 1


def test_the_seed_decides(poet):
    first, again, other = (
        [t.text for t in poet.generate(4, temperature=1.0, seed=seed, length=30)] for seed in (1, 1, 2)
    )
    assert first == again != other
    assert len(set(first)) == 4  # each text draws for itself
    torch.manual_seed(99)
    assert [t.text for t in poet.generate(4, temperature=1.0, seed=1, length=30)] == first


def test_several_texts_are_drawn_if_nothing_else_was_asked(poet):
    assert len({t.text for t in poet.generate(5, length=30)}) > 1


def test_top_1_is_greedy(poet):
    expected = poet.generate(length=25)[0].text
    for wish in ({"top_k": 1}, {"random_k": 1}, {"beam": 1}, {"temperature": 1e-4}, {"top_p": 1e-9}):
        assert poet.generate(length=25, **wish)[0].text == expected


def test_a_beam_finds_what_greedy_misses(poet):
    assert poet.generate(beam=8, length=12)[0].log_prob >= poet.generate(length=12)[0].log_prob - 1e-6


# ---------------------------------------------------------------- rules

FORMS = {"五言絕句": (4, 5), "七言絕句": (4, 7), "五言律詩": (8, 5), "七言律詩": (8, 7)}


@pytest.mark.parametrize("wish", [{}, {"top_k": 6}, {"beam": 2}], ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_forms_hold_exactly(poet, form, wish):
    lines, length = FORMS[form]
    expected = ("○" * length + "，" + "○" * length + "。") * (lines // 2)
    for written in poet.generate(3 if "top_k" in wish else 1, prompt=["", "明月"], form=form, **wish):
        assert shape(written.text) == expected
        assert written.finished


def test_simplified_names_of_forms(poet):
    assert poet.generate(form="五言绝句")[0].text == poet.generate(form="五言絕句")[0].text


def test_acrostics(poet):
    for written in poet.generate(3, form="五言絕句", acrostic="春山明月", top_k=9):
        assert written.text[::6] == "春山明月"
    for written in poet.generate(3, acrostic="春山", top_k=9, length=100):
        heads = [line[0] for line in written.text.replace("。", "，").split("，") if line]
        assert heads[: min(2, len(heads))] == list("春山")[: len(heads)]


def test_rhyme(poet):
    table = {c: "甲" for c in "光霜鄉"} | {c: "乙" for c in "曉鳥少"} | {"流": "丙"}
    seen = set()
    for written in poet.generate(6, form="五言絕句", rhyme=table, temperature=1.0):
        first, second = written.text[10], written.text[22]
        assert table[first] == table[second] in "甲乙"  # 丙 has one character, and none rhymes with itself
        assert first != second
        seen.add(table[first])
    for written in poet.generate(4, form="五言絕句", rhyme=table, rhyme_class="乙", temperature=1.0):
        assert {table[written.text[10]], table[written.text[22]]} == {"乙"}


def test_no_repeat(poet):
    for written in poet.generate(4, no_repeat=2, temperature=0.3, length=60):
        text = written.text
        pairs = [text[k : k + 2] for k in range(len(text) - 1) if not set(text[k : k + 2]) & set("，。")]
        assert len(pairs) == len(set(pairs))


# ---------------------------------------------------------------- what cannot be


@pytest.mark.parametrize(
    "wish, said",
    [
        ({"beam": 3, "top_k": 2}, "beam searches and samplers draw; choose one of them"),
        ({"beam": 3, "temperature": 0.5}, "beam searches and samplers draw"),
        ({"random_k": 3, "top_p": 0.5}, "leave top_k and top_p away"),
        ({"top_k": 10_000}, "k is larger than the vocabulary, which has"),
        ({"random_k": 10_000}, "k is larger than the vocabulary, which has"),
        ({"top_k": 0}, "k must be at least 1, got 0"),
        ({"top_p": 1.5}, "got 1.5"),
        ({"temperature": 0.0}, "temperature must be above 0"),
        ({"beam": 0}, "got 0"),
        ({"form": "五言詩"}, "no form is named '五言詩', only .*did you mean"),
        ({"form": "sonnet"}, "no form is named 'sonnet', only"),
        ({"form": "五言律詩", "length": 20}, "length"),
        ({"acrostic": "Q"}, "acrostic: the model does not know 'Q'; choose another"),
        ({"rhyme": {"光": "a", "霜": "a"}}, "rhyme needs a form"),
        ({"rhyme_class": "a", "form": "五言絕句"}, "rhyme_class needs a table of rhymes"),
        ({"rhyme": {"Q": "a"}, "form": "五言絕句"}, "rhyme: the model knows none of the characters in the table"),
        ({"rhyme": {"光": "a", "霜": "a"}, "form": "五言絕句", "rhyme_class": "b"}, "no token has the given class 'b'"),
        ({"no_repeat": 0}, "got 0"),
        ({"prompt": "明Q月"}, "prompt 1: the model does not know 'Q'; choose another, or allow unknown ones"),
        ({"prompt": ["明", "Q"]}, "prompt 2: the model does not know 'Q'"),
    ],
    ids=str,
)
def test_wishes_that_cannot_be(poet, wish, said):
    with pytest.raises(ValueError, match=said) as caught:
        poet.generate(**wish)
    assert "\n" not in str(caught.value)


def test_a_strange_prompt_can_be_allowed(poet):
    assert poet.generate(prompt="明Q月", unknown=True, length=6)[0].tokens == 3


def test_verse_needs_characters(make):
    words = make(["to be or not", "to be"], tokens="word")
    for wish in ({"form": "五言絕句"}, {"acrostic": "to"}, {"form": "五言絕句", "rhyme": {"be": "a"}}):
        with pytest.raises(ValueError, match="form, acrostic and rhyme need a character model; this one reads words"):
            words.generate(**wish)
    with pytest.raises(ValueError, match="prompt 1: the model does not know 'question'"):
        words.generate(prompt="to be question")


def test_a_form_needs_its_marks_and_an_end(make):
    with pytest.raises(ValueError, match="has no token for 。 ，"):
        make(["abc", "de"]).generate(form="五言絕句")
    with pytest.raises(ValueError, match="end"):
        make(layout="running").generate(form="五言絕句")
    with pytest.raises(ValueError, match="acrostic: the model knows no punctuation"):
        make(["abc", "de"]).generate(acrostic="ab")


def test_a_prompt_that_breaks_a_rule(poet):
    with pytest.raises(ValueError, match="prompt 1: '，', its character 2, does not fit 五言絕句"):
        poet.generate(prompt="明，", form="五言絕句")
    with pytest.raises(ValueError, match="prompt 1: '明', its character 6, does not fit 五言絕句"):
        poet.generate(prompt="床前明月光明", form="五言絕句")
    said = "prompt 1: its line 2 begins with '疑', that of the acrostic with '月'; change one of them"
    with pytest.raises(ValueError, match=said):
        poet.generate(prompt="明月光，疑", acrostic="明月")
    with pytest.raises(ValueError, match="prompt 1: 4 tokens, which leaves no room in a length of 4; give a larger"):
        poet.generate(prompt="床前明月", length=4)
    with pytest.raises(ValueError, match="length: 五言絕句 takes 25 tokens, its end counted; 24 are too few"):
        poet.generate(form="五言絕句", length=24)


def test_bpe_and_words_come_back_as_text(make):
    text = ["to be or not to be", "that is the question", "to be that is"]
    words = make(text, tokens="word")
    for written in words.generate(5, prompt="to be", temperature=1.0, length=12):
        assert written.text.startswith("to be")
        assert "[" not in written.text
    pieces = make(text, tokens="bpe", vocabulary_size=280)
    for number, written in enumerate(pieces.generate(3, prompt="to b", temperature=1.0, length=12)):
        assert written.text.startswith("to b")
        wish = Writing(temperature=1.0, length=12)
        aloud = "".join(write_aloud(pieces, "to b", wish, number=number))
        assert aloud.rstrip("\ufffd") == written.text.rstrip("\ufffd")  # but for a character cut short at the end


# ---------------------------------------------------------------- tables of rhymes


def test_a_table_of_rhymes(tmp_path):
    path = tmp_path / "rhymes.tsv"
    path.write_bytes("\ufeff東\t東同 中\r\n\r\n江\t江\t窗\n".encode())
    assert read_rhymes(path) == {"東": "東", "同": "東", "中": "東", "江": "江", "窗": "江"}


@pytest.mark.parametrize(
    "text, said",
    [
        ("東\t東同\n東同中\n", ":2: not of the form class TAB characters; write, say, 東\t東同中風"),
        ("\n東\t\n", ":2: not of the form"),
        ("\n \n", ": no rhymes in it; give lines of the form class TAB characters"),
        ("", ": the file is empty"),
        ("\t東\n", ":1: not of the form"),
    ],
)
def test_a_table_that_is_none(tmp_path, text, said):
    path = tmp_path / "rhymes.tsv"
    path.write_text(text, "utf-8")
    with pytest.raises(DataError) as caught:
        read_rhymes(path)
    assert str(caught.value).startswith(f"{path}{said}")
