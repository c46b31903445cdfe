"""Raw text given to the models of runs: prepared in training, evaluation and prediction alike, and put back."""

import json
from itertools import pairwise

import pytest

import carousel
from carousel.cli.main import main

SMALL = {"hidden": 4, "embedding": 4, "epochs": 1, "quiet": True, "report": False, "dev_split": "none"}
NAMES = ["rome", "paris", "berlin", "london", "vienna", "madrid"]
TOKENIZED = [f"i saw {name} , but he did n't see {other} ." for name in NAMES for other in NAMES]
RAW = [f"I saw {name.title()}, but he didn't see {other.title()}." for name in NAMES for other in NAMES]


@pytest.fixture(scope="module")
def make(tmp_path_factory):
    known = {}

    def train(task, data, **given):
        key = repr((task, data[0], given))
        if key not in known:
            folder = tmp_path_factory.mktemp(task)
            known[key] = folder / "run"
            carousel.train(task, data, out=folder / "run", cache=folder / "cache", **{**SMALL, **given})
        return carousel.load(known[key])

    make = train
    make.known = known
    return make


def labelled(texts):
    return [(text, "ab"[k % 2]) for k, text in enumerate(texts)]


def test_a_tagger_splits_punctuation_from_words(make):
    sentences = [[word.title() if word in NAMES else word for word in text.split()] for text in TOKENIZED]
    model = make("tag", [[(word, word[0]) for word in words] for words in sentences])
    assert model.predict("I saw Rome.").words == ["I", "saw", "Rome", "."]
    assert model.predict("He didn't see Rome, Berlin.").words == ["He", "did", "n't", "see", "Rome", ",", "Berlin", "."]
    assert model.predict("I saw Rome.", tokenized=True).words == ["I", "saw", "Rome."]
    assert model.predict([["I", "saw", "Rome."]])[0].words == ["I", "saw", "Rome."]
    assert [item["words"] for item in model.predict_lines(["I saw Rome.", ""])] == [["I", "saw", "Rome", "."], []]


@pytest.mark.parametrize("task", ["classify", "encode"])
def test_raw_and_tokenized_text_are_the_same_to_a_model(make, task, tmp_path):
    if task == "classify":
        model = make(task, labelled(TOKENIZED))
        results = [[one.probabilities for one in model.predict(texts)] for texts in (TOKENIZED, RAW)]
        scores = [carousel.evaluate(model, labelled(texts)) for texts in (TOKENIZED, RAW)]
    else:
        pairs = [[(text, text, "ab"[k % 2]) for k, text in enumerate(texts)] for texts in (TOKENIZED, RAW)]
        model = make(task, pairs[0])
        results = [model.embed(texts).tolist() for texts in (TOKENIZED, RAW)]
        scores = [carousel.evaluate(model, one) for one in pairs]
    assert results[0] == results[1] and scores[0] == scores[1]
    assert scores[0]["unknown"] == 0


def test_raw_training_text_is_split_in_training_too(make):
    model = make("classify", labelled(RAW))
    assert {"rome", ".", ","} <= set(model.vocabulary.tokens) and "rome." not in model.vocabulary
    model = make("classify", labelled(RAW), tokenize="none")
    assert "rome." in model.vocabulary and model.assets.form is None


def test_the_form_of_a_run_is_kept_not_learned_again(make):
    model = make("classify", labelled(TOKENIZED))
    run = make.known[repr(("classify", labelled(TOKENIZED)[0], {}))]
    assert json.loads((run / "text_form.json").read_text())["contractions"] == "ptb"
    assert "text_form.json" in (run / "manifest.json").read_text()
    assert model.assets.form.tokenized and model.settings.tokenize == "auto"


def test_a_language_model_of_words(make):
    model = make("lm", TOKENIZED, tokens="word")
    [tokenized], [raw] = model.score(TOKENIZED[0]), model.score(RAW[0])
    assert tokenized.tokens == raw.tokens and tokenized.log_probs == raw.log_probs and raw.line == RAW[0]
    raw = model.generate("I saw Rome, but he didn't", seed=1, max_length=14)
    assert raw.text.startswith("I saw rome, but he didn't")
    tokenized = model.generate("i saw rome , but he did n't", seed=1, max_length=14, tokenized=True)
    assert tokenized.text.startswith("i saw rome , but he did n't") and tokenized.tokens == raw.tokens
    assert model.generate("i saw rome , but he did n't", seed=1, max_length=14).text == tokenized.text
    assert "".join(model.stream("I saw Rome, but he didn't", seed=1, max_length=14)) == raw.text
    assert model.evaluate(_file(make, TOKENIZED))["perplexity"] == model.evaluate(_file(make, RAW))["perplexity"]


def _file(make, lines):
    path = next(iter(make.known.values())).parent / f"{hash(lines[0])}.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("tokens", ["word", "bpe"])
def test_a_translator_of_tokenized_text_reads_raw_text(make, tokens):
    model = make("translate", list(zip(TOKENIZED, TOKENIZED, strict=True)), tokens=tokens, min_frequency=1)
    tokenized, raw = model.translate(TOKENIZED[:3]), model.translate(RAW[:3])
    assert [one.ids for one in tokenized] == [one.ids for one in raw]
    form = model.assets.target_form
    assert [one.text for one in raw] == [form.restore(one.text) for one in tokenized]
    assert [one.source for one in raw] == RAW[:3] and raw[0].source_tokens == tokenized[0].source_tokens
    same = [carousel.evaluate(model, list(zip(texts, texts, strict=True))) for texts in (TOKENIZED[:6], RAW[:6])]
    assert same[0]["bleu"] == same[1]["bleu"] and same[0]["chrf"] == same[1]["chrf"]
    assert "".join(model.stream(RAW[0], num_beams=1)) == model.translate(RAW[0], num_beams=1).text
    assert model.translate(TOKENIZED[0], tokenized=True).text == tokenized[0].text


def test_a_translator_of_raw_words_gives_readable_text(make):
    model = make("translate", list(zip(RAW, RAW, strict=True)), tokens="word", min_frequency=1)
    one = model.translate(RAW[0], prefix="I saw Rome, but")
    assert one.tokens[:5] == ["I", "saw", "Rome", ",", "but"] and one.text.startswith("I saw Rome, but")


def test_a_bilm_of_words(make):
    model = make("bilm", TOKENIZED, hidden=8, embedding=8)
    assert model.embed("I saw Rome.").shape == model.embed("i saw rome .").shape == (3, 4, 16)
    assert (model.embed("I saw Rome.") == model.embed([["i", "saw", "rome", "."]])[0]).all()
    beside, _, _ = model.table(["I saw Rome."])
    assert beside["word"] == ["I", "saw", "Rome", "."]


def test_text_unlike_the_training_text_is_reported(make, tmp_path, capsys):
    make("classify", labelled(TOKENIZED))
    run = make.known[repr(("classify", labelled(TOKENIZED)[0], {}))]
    (tmp_path / "german.txt").write_text("Der alte Mann sah den Hund auf der Straße, und der Hund lief weg.\n" * 3)
    (tmp_path / "raw.txt").write_text("\n".join(RAW) + "\n")

    def said(file, *options):
        with pytest.raises(SystemExit) as end:
            main(["predict", str(run), str(tmp_path / file), *options])
        assert end.value.code == 0
        return capsys.readouterr().err

    assert said("raw.txt") == ""
    line = said("german.txt")
    assert line.count("\n") == 1 and "german.txt: " in line and "the text is unlike the training text; check" in line
    assert "% of the tokens are unknown to the model, where 0% are usual" in line
    assert "unlike the training text" in said("raw.txt", "--tokenized")


GERMAN = ["i Der alte Mann sah den Hund auf der Straße, und der Hund lief weg."] * 3


@pytest.mark.parametrize(
    ("task", "train", "given"),
    [
        ("lm", TOKENIZED, GERMAN),
        ("lm", RAW, GERMAN),
        ("bilm", TOKENIZED, GERMAN),
        ("classify", labelled(TOKENIZED), labelled(GERMAN)),
        ("encode", [(text, text, "ab"[k % 2]) for k, text in enumerate(TOKENIZED)], [(*GERMAN[:2], "a")]),
        ("tag", [[(word, word[0]) for word in text.split()] for text in TOKENIZED],
         [[(word, "s") for word in GERMAN[0].split()]]),
        ("translate", list(zip(TOKENIZED, TOKENIZED, strict=True)), [(text, TOKENIZED[0]) for text in GERMAN]),
    ],
)  # fmt: skip
def test_an_evaluation_says_that_text_is_unlike_the_training_text(make, task, train, given):
    options = {"tokens": "word"} if task in ("lm", "translate") else {}
    model = make(task, train, **options)
    carousel.evaluate(model, train[:9])
    assert model.unlike is None
    fresh = make(task, train, **options)
    carousel.evaluate(fresh, given)
    assert "of the tokens are unknown to the model" in fresh.unlike


def test_the_command_eval_warns_of_text_unlike_the_training_text(make, tmp_path, capsys):
    make("lm", TOKENIZED, tokens="word")
    (tmp_path / "german.txt").write_text("\n".join(GERMAN) + "\n")
    with pytest.raises(SystemExit):
        main(["eval", str(make.known[repr(("lm", TOKENIZED[0], {"tokens": "word"}))]), str(tmp_path / "german.txt")])
    assert "german.txt: " in (line := capsys.readouterr().err) and "the text is unlike the training text" in line


def test_vectors_of_tokenized_text(make, tmp_path, capsys):
    """`tokenized` splits at spaces only, for vectors as for predictions; by the command, too."""
    bilm = make("bilm", TOKENIZED)
    text = "I saw Rome."
    assert bilm.table([text])[0]["word"] == ["I", "saw", "Rome", "."]
    assert bilm.table([text], tokenized=True)[0]["word"] == ["I", "saw", "Rome."]
    assert bilm.embed(text, tokenized=True).shape[1] == 3
    encoder = make("encode", [(a, b, "xy"[k % 2]) for k, (a, b) in enumerate(pairwise(TOKENIZED))])
    assert (encoder.embed(text) == encoder.embed("i saw rome .", tokenized=True)).all()
    assert (encoder.embed(text, tokenized=True) != encoder.embed(text)).any()
    nearest = encoder.similar("i saw rome .", [text, "i saw rome ."], tokenized=True)
    assert nearest[0] == (pytest.approx(1), "i saw rome .") and nearest[1][0] < 0.9999
    (tmp_path / "text.txt").write_text(text + "\n")
    run = next(folder for key, folder in make.known.items() if "bilm" in key)
    for given, count in (([], 4), (["--tokenized"], 3)):
        with pytest.raises(SystemExit) as end:
            main(["embed", str(run), str(tmp_path / "text.txt"), "--out", str(tmp_path / "v.npy"), *given])
        assert end.value.code == 0
        assert f": {count} vectors of" in capsys.readouterr().out
