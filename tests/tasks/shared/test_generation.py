"""Generation by a language model: against a loop in plain PyTorch, and each option does what it says."""

import pytest
import torch
import torch.nn.functional as F
from helpers.tiny import new_model
from torch import nn

from carousel.data import END, PAD, START, UNK
from carousel.decoding import Constraint, GenerationConfig, OptionError
from carousel.errors import DataError
from carousel.tasks.lm.settings import LanguageSettings
from carousel.tasks.shared.generation import read_rhymes

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
        made = new_model(LanguageSettings.read(known))[0]
        network = made.network.eval()
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.5)
            network.bias[[PAD, START, UNK]] = 4.0  # what must never be made is what the model likes best
            network.bias[END] = -1.0
        return made

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
    lstm.load_state_dict(model.network.layers.state_dict())
    ids, total = [start, *(model.vocabulary.tokens.index(c) for c in prompt)], 0.0
    while len(ids) - 1 < length and (len(ids) == 1 + len(prompt) or ids[-1] != END):
        x, _ = lstm(F.embedding(torch.tensor(ids), model.network.embedder.weight).unsqueeze(1))
        x = x[-1, 0] if model.network.project is None else model.network.project(x[-1, 0])
        log_probs = (model.network.output_weight @ x + model.network.bias).log_softmax(-1)
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
    found = model.generate(prompt, num_beams=1, max_length=30)
    assert found.text == "".join(model.vocabulary.tokens[i] for i in expected if i != END)
    assert found.text.startswith(prompt)
    assert list(found.ids) == expected[len(prompt) :]
    assert found.tokens == [model.vocabulary.tokens[i] for i in found.ids]
    assert found.finished == (expected[-1] == END)
    assert found.log_prob == pytest.approx(total, abs=1e-3)  # of the model, whatever was forbidden


def test_the_prompt_and_the_text_are_read_as_one(make):
    """What is made after a prompt is what would have been made anyway, if it begins like that."""
    model = make()
    free = model.generate(num_beams=1, max_length=12)
    for cut in (1, 4, 7):
        assert model.generate(free.text[:cut], num_beams=1, max_length=12).text == free.text


def test_unknown_tokens_only_if_allowed(make):
    model = make(min_frequency=2)
    assert all("[UNK]" not in t.text for t in model.generate(num_return_sequences=20, max_length=20).sequences)
    expected, _ = plain_greedy(model, "", 10, unknown=True)
    found = model.generate(unknown="allow", num_beams=1, max_length=10)
    assert UNK in expected
    assert found.text == model.vocabulary.decode(expected)


@pytest.mark.parametrize("layout, start", [("sentences", END), ("running", START)])
def test_running_text(make, layout, start):
    """A sentence follows the end of another; running text does not end."""
    model = make(layout=layout)
    expected, _ = plain_greedy(model, "明", 25, start=start)
    if layout == "running":
        model.network.bias.data[END] = -1e9  # as if it were banned
        expected, _ = plain_greedy(model, "明", 25)
    found = model.generate("明", num_beams=1, max_length=25)
    assert found.text == "".join(model.vocabulary.tokens[i] for i in expected if i != END)
    if layout == "running":
        assert (found.finished, len(found.text)) == (False, 25)


@pytest.mark.parametrize("options", [{}, {"num_beams": 1}, {"num_beams": 3}, {"top_k": 3}], ids=str)
def test_running_text_has_no_end_token(make, options):
    """However likely: training never showed it, so that an untrained bias is all that the model knows of it."""
    model = make(layout="running")
    model.network.bias.data[END] = 1e3
    found = model.generate("明", max_length=25, seed=1, **options)
    assert "[END]" not in found.tokens and len(found.text) == 25


# ---------------------------------------------------------------- seeds and batches

OPTIONS = [
    {"temperature": 0.8}, {"top_k": 5}, {"top_p": 0.7, "temperature": 1.3}, {"random_k": 3}, {"num_beams": 3},
    {"num_beams": 1}, {},
]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_batches_change_nothing(poet, options):
    prompts = ["明", "", "床前明月光，", "春"] * 3
    whole = poet.generate(prompts, max_length=20, seed=5, **options)
    for size in (1, 5):
        again = poet.generate(prompts, max_length=20, seed=5, batch_size=size, **options)
        assert [t.text for t in again] == [t.text for t in whole]
    assert all(t.text.startswith(p) for t, p in zip(whole, prompts, strict=True))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_stream_is_the_same_text(poet, options):
    for prompt in ("明月", ""):
        pieces = list(poet.stream(prompt, max_length=20, seed=5, **options))
        assert "".join(pieces) == poet.generate(prompt, max_length=20, seed=5, **options).text
        assert len(pieces) > 1


def test_the_seed_decides(poet):
    def sample(seed):
        return [t.text for t in poet.generate(num_return_sequences=4, seed=seed, max_length=30).sequences]

    first, again, other = map(sample, (1, 1, 2))
    assert first == again != other
    assert len(set(first)) == 4  # each sample has random numbers of its own
    torch.manual_seed(99)
    assert sample(1) == first


def test_a_fresh_seed_is_in_the_result_and_repeats_it(poet):
    before = torch.get_rng_state()
    first, second = (poet.generate(max_length=30) for _ in range(2))
    assert first.seed != second.seed and first.text != second.text
    assert poet.generate(max_length=30, seed=first.seed) == first
    assert torch.equal(torch.get_rng_state(), before)  # the host's random numbers are its own
    assert poet.generate(num_beams=2, max_length=30).seed is None


def test_without_options_it_samples(poet):
    assert len({t.text for t in poet.generate(num_return_sequences=5, max_length=30).sequences}) > 1


def test_samples_are_numbered_through_all_prompts(poet):
    """One sample of each of six prompts draws what three of two prompts draw."""
    six = poet.generate(["明"] * 3 + ["春"] * 3, max_length=20, seed=3)
    two = poet.generate(["明", "春"], num_return_sequences=3, max_length=20, seed=3)
    assert [t.text for t in six] == [t.text for one in two for t in one.sequences]


def test_a_config_is_its_keywords(poet):
    config = GenerationConfig(top_k=5, max_length=20, seed=2)
    assert poet.generate("明", config) == poet.generate("明", top_k=5, max_length=20, seed=2)
    assert poet.generate("明", config, seed=3) == poet.generate("明", top_k=5, max_length=20, seed=3)
    assert "".join(poet.stream("明", config)) == poet.generate("明", config).text


def test_top_1_is_greedy(poet):
    expected = poet.generate(num_beams=1, max_length=25).text
    for options in ({"top_k": 1}, {"random_k": 1}, {"do_sample": False}, {"temperature": 1e-4}, {"top_p": 1e-9}):
        assert poet.generate(max_length=25, **options).text == expected


def test_a_beam_finds_what_greedy_misses(poet):
    beam, greedy = (poet.generate(num_beams=n, max_length=12) for n in (8, 1))
    assert beam.log_prob >= greedy.log_prob - 1e-6


def test_several_results_of_a_beam_are_best_first(poet):
    best = poet.generate("明", num_beams=6, num_return_sequences=4, max_length=12, tree=True)
    scores = [one.score for one in best.sequences if one.finished]
    assert len(best.sequences) == 4 and len({one.text for one in best.sequences}) == 4
    assert scores == sorted(scores, reverse=True)
    considered = {tuple(best.tree.record.path(best.tree.item, k)) for k in range(len(best.tree.record.nodes[0]))}
    assert best.ids in considered
    assert repr(best).splitlines()[0] == f"{best.text}  {best.score:.3f}" and len(repr(best).splitlines()) == 4


def test_a_prefix_is_forced_and_scored(poet):
    """After a prompt the prefix follows; its tokens are part of the result, and of its log-probability."""
    made = poet.generate("明", prefix="月光", num_beams=1, max_length=12)
    assert made.text.startswith("明月光") and made.tokens[:2] == ["月", "光"]
    rest = poet.generate("明月光", num_beams=1, max_length=12)
    assert made.text == rest.text
    scored = next(poet.score(made.text))
    assert made.log_prob == pytest.approx(sum(scored.log_probs[1 : 1 + len(made.tokens)]), abs=1e-3)
    assert [t.text[0] for t in poet.generate(["", ""], prefix=["春", "夜"], max_length=9)] == ["春", "夜"]


def test_min_length(poet):
    with torch.no_grad():
        short = poet.network.bias[END].clone()
        poet.network.bias[END] = 8.0
        try:
            assert poet.generate(num_beams=1).text == ""
            made = poet.generate("明", num_beams=1, min_length=7)
            assert len(made.text) == 7 and made.finished
        finally:
            poet.network.bias[END] = short


def test_the_mode_of_the_model_is_restored(make):
    model = make(dropout=0.5)
    model.network.train()
    model.network.embedder.eval()
    calm = make(dropout=0.5).generate(seed=1, max_length=20)
    assert model.generate(seed=1, max_length=20) == calm
    assert model.network.training and model.network.layers.training and not model.network.embedder.training
    pieces = model.stream(seed=1, max_length=20)
    next(pieces)
    assert model.network.training


class NoMoon(Constraint):
    """Never 月, whose number it looks up among the model's tokens."""

    def start(self, context):
        return torch.tensor([context.tokens.index("月")])

    rows = None

    def apply(self, log_probs, state):
        log_probs.index_fill_(1, state, -torch.inf)


@pytest.mark.parametrize("options", [{"num_beams": 3}, {"num_beams": 1}, {"temperature": 2.0}], ids=str)
def test_a_constraint_of_the_user(poet, options):
    moon = poet.vocabulary.id("月")
    with torch.no_grad():
        poet.network.bias[moon] += 6
        try:
            assert "月" in poet.generate(max_length=20, seed=1, **options).text
            made = poet.generate(max_length=20, seed=1, constraints=[NoMoon()], **options)
            assert "月" not in made.text and len(made.tokens) > 3
            assert "".join(poet.stream(max_length=20, seed=1, constraints=[NoMoon()], **options)) == made.text
        finally:
            poet.network.bias[moon] -= 6


# ---------------------------------------------------------------- rules

FORMS = {"五言絕句": (4, 5), "七言絕句": (4, 7), "五言律詩": (8, 5), "七言律詩": (8, 7)}


@pytest.mark.parametrize(
    "options", [{"num_beams": 1}, {"top_k": 6, "num_return_sequences": 3}, {"num_beams": 2}], ids=str
)
@pytest.mark.parametrize("form", FORMS)
def test_forms_hold_exactly(poet, form, options):
    lines, length = FORMS[form]
    expected = ("○" * length + "，" + "○" * length + "。") * (lines // 2)
    for made in (one for each in poet.generate(["", "明月"], form=form, **options) for one in each.sequences):
        assert shape(made.text) == expected
        assert made.finished


def test_simplified_names_of_forms(poet):
    assert poet.generate(form="五言绝句", seed=1) == poet.generate(form="五言絕句", seed=1)


def test_acrostics(poet):
    for made in poet.generate(num_return_sequences=3, form="五言絕句", acrostic="春山明月", top_k=9).sequences:
        assert made.text[::6] == "春山明月"
    for made in poet.generate(num_return_sequences=3, acrostic="春山", top_k=9, max_length=100).sequences:
        heads = [line[0] for line in made.text.replace("。", "，").split("，") if line]
        assert heads[: min(2, len(heads))] == list("春山")[: len(heads)]


def test_rhyme(poet):
    table = {c: "甲" for c in "光霜鄉"} | {c: "乙" for c in "曉鳥少"} | {"流": "丙"}
    seen = set()
    for made in poet.generate(num_return_sequences=6, form="五言絕句", rhyme=table, temperature=1.0).sequences:
        first, second = made.text[10], made.text[22]
        assert table[first] == table[second] in "甲乙"  # 丙 has one character, and none rhymes with itself
        assert first != second
        seen.add(table[first])
    for made in poet.generate(
        num_return_sequences=4, form="五言絕句", rhyme=table, rhyme_class="乙", temperature=1.0
    ).sequences:
        assert {table[made.text[10]], table[made.text[22]]} == {"乙"}


def test_no_repeat(poet):
    for made in poet.generate(num_return_sequences=4, no_repeat_ngram_size=2, temperature=0.3, max_length=60).sequences:
        text = made.text
        pairs = [text[k : k + 2] for k in range(len(text) - 1) if not set(text[k : k + 2]) & set("，。")]
        assert len(pairs) == len(set(pairs))


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    "options, message",
    [
        *(
            ({name: 10_000}, rf"{name}: must be at most \d+, the size of the vocabulary, got 10000")
            for name in ("top_k", "random_k", "num_beams")
        ),
        ({"acrostic": "Q"}, "acrostic: the model does not know 'Q'; choose another"),
        ({"rhyme": {"Q": "a"}, "form": "五言絕句"}, "rhyme: the model knows none of the characters in the table"),
        (
            {"rhyme": {"光": "a", "霜": "a"}, "form": "五言絕句", "rhyme_class": "b"},
            "rhyme_class: no known character of the table has the class 'b'",
        ),
        ({"prompt": "明Q月"}, "prompt 1: the model does not know 'Q'; choose another, or set unknown to allow"),
        ({"prompt": ["明", "Q"]}, "prompt 2: the model does not know 'Q'"),
        ({"prefix": "Q"}, "prefix: the model does not know 'Q'"),
        ({"prefix": ["明", "月"]}, "prefix: there are 2 for 1 prompt"),
        (
            {"prompt": ["明", "月"], "prefix": ["明"]},
            "prefix: there are 1 for more inputs; give one text, or one for each",
        ),
        ({"attention": True}, "attention: a language model has no attention to return"),
        ({"unknown": "replace"}, "unknown: replace needs a source to copy from"),
        ({"length_penalty": 2.0}, "length_penalty: it is for beam search; give num_beams above 1 too"),
        ({"do_sample": False, "num_return_sequences": 2}, "num_return_sequences: greedy search has one result"),
        ({"beam": 3}, "beam: there is no such option; did you mean num_beams?"),
    ],
    ids=str,
)
def test_options_that_do_not_fit_the_model(poet, options, message):
    with pytest.raises(ValueError, match=message) as caught:
        poet.generate(**options)
    assert "\n" not in str(caught.value)


def test_a_stream_is_one_text(poet):
    with pytest.raises(OptionError, match="num_return_sequences: a stream is one text"):
        next(poet.stream(num_return_sequences=2))


def test_unknown_tokens_in_a_prompt_can_be_allowed(poet):
    assert len(poet.generate("明Q月", unknown="allow", max_length=6, num_beams=1).tokens) == 3


def test_verse_needs_characters(make):
    words = make(["to be or not", "to be"], tokens="word")
    for options in ({"form": "五言絕句"}, {"acrostic": "to"}, {"form": "五言絕句", "rhyme": {"be": "a"}}):
        with pytest.raises(OptionError, match="it needs a character model; this one generates words"):
            words.generate(**options)
    with pytest.raises(OptionError, match="prompt 1: the model does not know 'question'"):
        words.generate("to be question")


def test_a_form_needs_its_marks_and_an_end(make):
    with pytest.raises(ValueError, match="has no token for 。 ，"):
        make(["abc", "de"]).generate(form="五言絕句")
    with pytest.raises(ValueError, match="end"):
        make(layout="running").generate(form="五言絕句")
    with pytest.raises(OptionError, match="acrostic: the model knows no punctuation"):
        make(["abc", "de"]).generate(acrostic="ab")


def test_a_prompt_that_breaks_a_rule(poet):
    with pytest.raises(OptionError, match="prompt 1: '，', its character 2, does not fit 五言絕句"):
        poet.generate("明，", form="五言絕句")
    with pytest.raises(OptionError, match="prompt 1: '明', its character 6, does not fit 五言絕句"):
        poet.generate("床前明月光明", form="五言絕句")
    message = "prompt 1: its line 2 begins with '疑', that of the acrostic with '月'; change one of them"
    with pytest.raises(OptionError, match=message):
        poet.generate("明月光，疑", acrostic="明月")
    with pytest.raises(OptionError, match="prompt 1: 4 tokens leave no room below max_length, 4; give a larger one"):
        poet.generate("床前明月", max_length=4)


def test_bpe_and_words_come_back_as_text(make):
    text = ["to be or not to be", "that is the question", "to be that is"]
    words = make(text, tokens="word")
    for made in words.generate("to be", num_return_sequences=5, max_length=12).sequences:
        assert made.text.startswith("to be")
        assert "[" not in made.text
    pieces = make(text, tokens="bpe", vocabulary_size=280)
    for seed in range(3):
        made = pieces.generate("to b", max_length=12, seed=seed)
        assert made.text.startswith("to b")
        streamed = "".join(pieces.stream("to b", max_length=12, seed=seed))
        assert streamed.rstrip("\ufffd") == made.text.rstrip("\ufffd")  # but for a character cut short at the end


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
