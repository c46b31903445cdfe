"""The translator in use: options, ensembles, unusual lines, evaluation, and the command line."""

import json
import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from helpers.translators import untrained

import carousel
from carousel.data import PAD, START, UNK
from carousel.decoding import OptionError
from carousel.tasks.translate.task import Translate
from carousel.training import trainer


@pytest.mark.learning
def test_it_has_learnt(trained, pairs, reached):
    found = trained.evaluate(pairs / "dev.tsv")
    reached("BLEU", found["bleu"], above=80)
    reached("exact", found["exact"], above=0.8)
    made = trained.translate("a b c d")
    assert made.text == "D C B A"
    assert (made.source_tokens, made.tokens) == (list("abcd"), [*"DCBA", "[END]"])


def test_alignment_and_attention(trained):
    """The alignment is the largest weight of each row. Which one that is, a right translation does not determine, since
    the encoder's states know their neighbours: so not a learned alignment, but one by hand."""
    made = trained.translate("a b c d", attention=True)
    assert made.attention.shape == (len(made.tokens), 4)
    torch.testing.assert_close(made.attention.sum(1), torch.ones(len(made.tokens)))
    weights = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.6, 0.2, 0.1, 0.1], [0.3, 0.3, 0.4, 0.0], [0.1, 0.5, 0.2, 0.2]])
    by_hand = replace(made, tokens=["D", "C", "B", "[END]"], attention=weights, finished=True)
    assert by_hand.alignment() == [(3, 0), (0, 1), (2, 2)]
    assert replace(by_hand, finished=False).alignment() == [(3, 0), (0, 1), (2, 2), (1, 3)]
    assert trained.translate("a b").attention is None


@pytest.mark.learning
def test_one_line_or_many(trained):
    one = trained.translate("a b")
    assert str(one) == one.text == "B A" and repr(one).startswith("a b → B A  -0.")
    assert [str(t) for t in trained.translate(["a b", "c"])] == ["B A", "C"]
    assert one.sequences == (one,)


def test_a_translation_that_is_forced_to_begin_so(trained):
    made = trained.translate(["a b", "c d"], prefix="F F")
    assert all(one.text.startswith("F F") for one in made)
    assert [one.text[:1] for one in trained.translate(["a b", "c d"], prefix=["E", "F"])] == ["E", "F"]
    with pytest.raises(ValueError, match="give one text, or one for each"):
        trained.translate(["a b", "c d"], prefix=["E"])


def test_a_translation_has_no_space_around_it():
    """A token of BPE, or of characters, can be a space or begin with one."""
    model = untrained(words=[*"abcdef "], tokens="character")
    for prefix in (" a b", "  ", "a  "):
        options = {"prefix": prefix, "num_beams": 1, "max_length": 7}
        made = model.translate("abc", **options)
        letters = "".join(token.replace("␣", " ") for token in made.tokens if token != "[END]")
        assert letters.startswith(prefix) and made.text == letters.strip()
        assert "".join(model.stream("abc", **options)) == made.text


def test_drawing_depends_on_seed_and_line_alone(trained):
    options = {"temperature": 100.0, "num_return_sequences": 3, "seed": 5}  # so hot that weights matter little
    together = trained.translate(["a b c", "d e f", "a b c"], **options)
    again = trained.translate(["a b c", "d e f", "a b c"], batch_size=1, **options)
    assert [[x.text for x in t.sequences] for t in together] == [[x.text for x in t.sequences] for t in again]
    assert len({x.text for t in together for x in t.sequences}) > 3
    assert trained.translate("a b c", temperature=100.0, seed=6).text != together[0].text


def test_unknown_words_are_replaced_by_what_was_looked_at(trained):
    model = untrained(words="ab")
    with torch.no_grad():
        model.network.bias[UNK] += 100
    made = model.translate("a zebra b", unknown="replace", max_length=3, attention=True)
    places = made.attention.argmax(1).tolist()
    assert made.tokens[:2] == ["[UNK]", "[UNK]"]
    assert made.text == " ".join(made.source_tokens[place] for place in places[:2])
    assert made.source_tokens == ["a", "zebra", "b"]
    assert model.translate("a zebra b", unknown="allow", max_length=3).text == "[UNK] [UNK]"
    assert "[UNK]" not in model.translate("a zebra b", max_length=3).text


def test_an_ensemble_is_the_mean(trained):
    alone = trained.translate("a b c", num_beams=2)
    same = trained.translate("a b c", num_beams=2, ensemble=[trained])
    assert same.tokens == alone.tokens and same.log_prob == pytest.approx(alone.log_prob, abs=1e-5)
    first, second = untrained(1), untrained(2, attention="dot")
    both = first.translate("a b", num_beams=1, ensemble=[second], attention=True)
    source = torch.tensor([[4], [5]]), torch.tensor([2])
    steppers = [model.network.stepper(*source) for model in (first, second)]
    logs = [stepper.step(torch.tensor([START]), stepper.start(1))[0] for stepper in steppers]
    mean = (logs[0].exp() + logs[1].exp()) / 2
    mean[:, [PAD, START, UNK]] = 0
    assert both.tokens[0] == first.target_vocabulary.token(int(mean.argmax()))
    same = {"num_beams": 1, "prefix": " ".join(both.tokens[:-1]), "attention": True}
    seen = [m.translate("a b", **same).attention for m in (first, second)]
    torch.testing.assert_close(both.attention, (seen[0] + seen[1]) / 2, atol=1e-5, rtol=1e-4)


def test_an_ensemble_of_strangers(trained):
    with pytest.raises(ValueError, match="model 2 of the ensemble has another source vocabulary"):
        trained.translate("a", ensemble=[untrained()])


def test_odd_lines(trained):
    empty, blank, long, strange = trained.translate(["", "  ", "a " * 5000, "x y"])
    assert (empty.text, empty.note) == ("", "the line is empty, and so is its translation")
    assert (blank.text, blank.tokens, blank.alignment()) == ("", [], [])
    assert long.note == "cut off after 200 of 5,000 tokens (max_length of the run)"
    assert len(long.source_tokens) == 200 and long.tokens
    assert strange.note == "none of its 2 tokens is known to the model" and strange.tokens


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_return_sequences": 6}, "num_return_sequences: at most as many as num_beams, 5, got 6"),
        ({"num_beams": 1000}, "num_beams: must be at most 10, the size of the vocabulary, got 1000"),
        ({"num_beams": 1, "early_stopping": False}, "early_stopping: it is for beam search; give num_beams above 1"),
        ({"prefix": "zz"}, "prefix: the model does not know 'zz'; choose another, or set unknown to allow"),
        ({"prefix": "A B C", "max_length": 3}, "prefix: 3 tokens leave no room below max_length, 3"),
        ({"form": "五言律詩"}, "form: it needs a character model; this one generates words"),
        ({"beam": 3}, "beam: there is no such option; did you mean num_beams?"),
    ],
)
def test_options_that_do_not_fit_the_model(trained, options, message):
    with pytest.raises(OptionError, match=message):
        trained.translate(["a b"], **options)


# ---------------------------------------------------------------- the command line


@pytest.fixture
def texts(tmp_path):
    file = tmp_path / "texts.txt"
    file.write_text("a b c\n\nx y\nf e\n")
    return file


@pytest.mark.learning
def test_translate_a_file(command, run, texts, tmp_path):
    links = tmp_path / "links.txt"
    code, out, err = command("translate", run, texts, "--alignment", links)
    assert code == 0
    lines = out.splitlines()
    assert (lines[0], lines[1], lines[3]) == ("C B A", "", "E F") and len(lines) == 4
    assert err.splitlines() == [
        f"{texts}:2: the line is empty, and so is its translation",
        f"{texts}:3: none of its 2 tokens is known to the model",
    ]
    aligned = links.read_text().splitlines()
    assert aligned[0] == " ".join(
        f"{i}-{j}" for i, j in carousel.load(run).translate("a b c", attention=True).alignment()
    )
    assert aligned[0].count("-") == 3 and aligned[1] == ""
    assert command("translate", run, texts, "--quiet")[1:] == (out, "")
    printed = command("translate", run, texts, "--alignment", "-", "--out", "-")[1].splitlines()
    assert (printed[::2], printed[1::2]) == (lines, aligned) and not Path("-").exists()
    assert command("translate", run, "-", "--quiet", given=texts.read_text())[1] == out
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(texts.read_bytes(),))
    writer.start()
    assert command("translate", run, tmp_path / "pipe", "--quiet")[1] == out
    writer.join()
    again = tmp_path / "out.txt"
    assert command("translate", run, "--out", again, "--batch-size", 1, given=texts.read_text())[1] == ""
    assert again.read_text() == out


@pytest.mark.learning
def test_translate_several_ways(command, run):
    code, out, _ = command("translate", run, "-n", 3, "--num-beams", 4, "--length-normalization", "gnmt",
                           "--length-penalty", 0.8, given="a b\nc\n")  # fmt: skip
    rows = [line.split("\t") for line in out.splitlines()]
    assert code == 0 and [row[0] for row in rows] == ["1", "1", "1", "2", "2", "2"]
    assert rows[0][2] == "B A" and float(rows[0][1]) > float(rows[1][1]) > float(rows[2][1])
    assert command("translate", run, "--num-beams", 1, given="a b")[1] == "B A\n"
    assert command("translate", run, "--prefix", "F", given="a b")[1].startswith("F")
    drawn = [command("translate", run, "--temperature", 100, "--seed", k, given="a b c d")[1] for k in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert command("translate", run, "--with", run, given="a b")[1] == "B A\n"


@pytest.mark.learning
def test_translate_json(command, run, tmp_path):
    begin = tmp_path / "begin.txt"
    begin.write_text("F\n\n")
    _, out, _ = command("translate", run, "--json", "-n", 2, "--prefixes", begin, given="a b\nc d\n")
    first, second = map(json.loads, out.splitlines())
    assert first["tokens"][0] == "F" and second["text"] == "D C"
    assert second["alignment"] == [
        f"{i}-{j}" for i, j in carousel.load(run).translate("c d", attention=True).alignment()
    ]
    assert second["source_tokens"] == ["c", "d"] and second["finished"] and len(second["others"]) == 1
    assert second["score"] == pytest.approx(second["log_prob"] / 3, abs=1e-5)


@pytest.mark.learning
def test_eval(command, run, pairs, tmp_path):
    sides = [line.split("\t") for line in (pairs / "dev.tsv").read_text().splitlines()]
    two = [tmp_path / "dev.src", tmp_path / "dev.tgt"]
    for k, file in enumerate(two):
        file.write_text("".join(f"{side[k]}\n" for side in sides))
    code, out, _ = command("eval", run, pairs / "dev.tsv", "--worst", 2)
    assert code == 0 and "nrefs:1" in out and out.count("reference") == 2
    found = json.loads(command("eval", run, *two, "--num-beams", 1, "--json")[1])
    assert found["bleu"] > 80 and len(found["scores"]) == found["sentences"] == 40
    said = [line.split() for line in command("translate", run, two[0], "--num-beams", 1)[1].splitlines()]
    right = [target.split() for _, target in sides]
    assert found["exact"] == sum(a == b for a, b in zip(said, right, strict=True)) / 40
    assert found["worst"][0]["chrf"] == min(score["chrf"] for score in found["scores"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--num-beams", "1000"], "--num-beams: must be at most 10, the size of the vocabulary, got 1000"),
        (["--num-beams", "2", "--top-k", "3"], "--num-beams and --top-k: beam search does not sample; give one of"),
        (["--no-do-sample", "--top-k", "3"], "--do-sample false and --top-k: the second is for sampling"),
        (["--top-k", "3", "--random-k", "3"], "--random-k and --top-k: --random-k samples uniformly"),
        (["--length-penalty", "-1"], "--length-penalty: must be a number of at least 0, got -1"),
        (["--early-stopping", "soon"], "--early-stopping: must be true, false or a whole number"),
        (["-n", "6"], "--num-return-sequences: at most as many as --num-beams, 5, got 6"),
        (["--prefix", "zz"], "--prefix: the model does not know 'zz'; choose another, or set --unknown to allow"),
        (["--prefix", "A B C", "--max-length", "3"], "--prefix: 3 tokens leave no room below --max-length, 3"),
        (["--prefix", "A", "--prefixes", "{texts}"], "one for all lines, or one for each; give one of the two"),
        (["--beam", "3"], "--num-beams"),
        (["--unknown", "show"], "--unknown: must be one of ban, allow, replace, got 'show'"),
        (["--json", "--tree", "-"], "--tree: text is not JSON"),
        (["--json", "--alignment", "-"], "--alignment: text is not JSON"),
        (["--attention", "a.png", "--tree", "./a.png"], "a.png is also that of --attention"),
    ],
)
def test_options_that_are_refused(command, run, texts, tmp_path, options, said):
    out = tmp_path / "kept.txt"
    out.write_text("kept")
    code, shown, err = command("translate", run, texts, "--out", out, *(o.format(texts=texts) for o in options))
    assert code and not shown and said in " ".join(err.split())
    assert out.read_text() == "kept"


def test_one_file_for_two_things(command, run, texts, tmp_path):
    code, shown, err = command("translate", run, texts, "--out", tmp_path / "a", "--alignment", tmp_path / "a")
    assert (code, shown) == (2, "") and "is also that of --out; give another name" in " ".join(err.split())


@pytest.mark.parametrize(
    ("prefixes", "said"), [("A\n", "there are 1 for more inputs"), ("A\n" * 9, "there are 9 for 4")]
)
def test_prefixes_of_another_count(command, run, texts, tmp_path, prefixes, said):
    (tmp_path / "begin").write_text(prefixes)
    code, shown, err = command("translate", run, texts, "--prefixes", tmp_path / "begin", "--out", tmp_path / "out")
    assert code and not shown and said in " ".join(err.split()) and not (tmp_path / "out").exists()


def test_a_tsv_has_its_column_translated(command, run, texts, tmp_path):
    table = tmp_path / "texts.tsv"
    table.write_text("".join(f"{line}\tX\n" if line else "\n" for line in texts.read_text().splitlines()))
    assert command("translate", run, table, "--quiet") == command("translate", run, texts, "--quiet")


@pytest.mark.parametrize("option", ["--out", "--alignment"])
def test_what_is_read_is_not_replaced(command, run, texts, option):
    before = texts.read_bytes()
    code, shown, err = command("translate", run, texts, option, texts)
    assert (code, shown) == (2, "")
    assert f"{option}: {texts} is read from; give another name" in " ".join(err.split())
    assert command("translate", run, "--prefixes", texts, option, texts, given="a")[0] == 2
    assert texts.read_bytes() == before


def test_a_source_that_is_too_long_is_cut_off(command, run):
    code, out, err = command("translate", run, given="a " * 5000)
    assert code == 0 and out.strip() and "1: cut off after 200 of 5,000 tokens" in err


def test_an_ensemble_of_other_vocabularies(command, run, settings, tmp_path):
    other = trainer.train(Translate, settings(epochs=1, tokens="character", batch_size=300), tmp_path / "other",
                         quiet=True, report=False)  # fmt: skip
    code, out, err = command("translate", run, "--with", other.folder, given="a b")
    assert (code != 0, out) == (True, "")
    assert err.count("\n") == 1 and "model 2 of the ensemble has another source vocabulary (11 tokens)" in err
