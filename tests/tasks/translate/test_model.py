"""The translator: its network step by step, searches against one another, use, runs end to end, and bad input."""

import json
import random
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

import carousel
from carousel.cells import registry
from carousel.data import END, PAD, START, UNK, Vocabulary
from carousel.data.stores.examples import Column
from carousel.decoding import Beam, Exhaustive, GenerationConfig, Greedy, OptionError, search
from carousel.errors import SettingsError
from carousel.tasks.translate.model import TranslateSettings, Translator
from carousel.tasks.translate.pairs import collate_pairs
from carousel.training import trainer

LETTERS = "abcdef"
ATTENTIONS = ["additive", "dot", "scaled-dot", "general", "content", "location", "none"]


def write_reversed(path, count, seed):
    """Pairs of one to four letters and the same backwards in upper case, which a small network learns completely."""
    draw = random.Random(seed)
    lines = []
    for _ in range(count):
        letters = [draw.choice(LETTERS) for _ in range(draw.randint(1, 4))]
        lines.append(f"{' '.join(letters)}\t{' '.join(reversed(letters)).upper()}\n")
    path.write_text("".join(lines), "utf-8")


@pytest.fixture(scope="session")
def pairs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    write_reversed(folder / "train.tsv", 400, seed=1)
    write_reversed(folder / "dev.tsv", 40, seed=2)
    return folder


SMALL = {"tokens": "word", "hidden": 6, "embedding": 5, "batch_size": 16, "bleu_tokenize": "none", "log_steps": 3}


@pytest.fixture
def settings(pairs, tmp_path):
    def make(**given):
        files = {"train": pairs / "train.tsv", "dev": pairs / "dev.tsv", "cache": tmp_path / "cache"}
        return TranslateSettings.read({**files, **SMALL, **given})

    return make


@pytest.fixture(scope="session")
def run(pairs, tmp_path_factory):
    """A run that has learned to reverse words.

    One epoch: of several with the same metric the first is kept, before the learning is complete.
    """
    folder = tmp_path_factory.mktemp("runs")
    write_reversed(folder / "train.tsv", 8000, seed=1)
    given = {"hidden": 32, "embedding": 24, "epochs": 1, "batch_size": 32, "lr": 0.02, "schedule": "linear",
             "dropout": 0.0, "label_smoothing": 0.0}  # fmt: skip
    files = {"train": folder / "train.tsv", "dev": pairs / "dev.tsv", "cache": folder / "cache"}
    settings = TranslateSettings.read({**files, **SMALL, **given})
    trainer.train(Translator, settings, folder / "run", quiet=True, report=False)
    return folder / "run"


@pytest.fixture(scope="session")
def trained(run):
    return carousel.load(run)


def untrained(seed=0, words=LETTERS, **given):
    """A model with random weights, sharp enough to have opinions."""
    torch.manual_seed(seed)
    known = Vocabulary.from_tokens(words, "word")
    model = Translator(TranslateSettings.read({"train": "a.tsv", **SMALL, **given}), known, known).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.5)
    return model


def batch_of(*pairs):
    sides = list(zip(*pairs, strict=True))
    columns = [
        Column(np.array([i for ids in side for i in ids], np.int64), np.array([len(ids) for ids in side], np.int64))
        for side in sides
    ]
    return collate_pairs(*columns)


def spread(batch, vectors):
    """Vectors of the real steps, (N, H), sequence by sequence, where they belong, (T, B, H)."""
    real = torch.arange(len(batch.inputs)) < batch.lengths.unsqueeze(1)
    whole = vectors.new_zeros(*real.shape, vectors.shape[1])
    whole[real] = vectors
    return whole.transpose(0, 1)


def write(model, batch):
    vectors, _, weights = model.write(batch)
    return spread(batch, vectors), weights


BATCH = [([4, 5, 6], [7, 8]), ([9], [4, 4, 4, 5]), ([5, 5], [])]

# ---------------------------------------------------------------- the network


def one_by_one(model, batch):
    """Vectors and weights of each step, all sequences at every one, by the layers' own step."""
    sight, state = model.read(batch.source, batch.source_lengths)
    fed = torch.zeros(batch.inputs.shape[1], model.decoder.size).double()
    for tokens in batch.inputs:
        x = model.target_embedder(tokens)
        y, state = model.decoder.layers.step(torch.cat((x, fed), 1) if model.decoder.feeding else x, state)
        fed, seen = model.decoder.look(y, sight, torch.ones_like(tokens))
        yield fed, seen


STEPPED = [
    {}, {"cell": "gru", "layers": 2, "init": "last"}, {"bidirectional": False}, {"input_feeding": True},
    {"input_feeding": True, "cell": "gru", "layers": 2}, {"input_feeding": True, "cell": "layernorm", "init": "zeros"},
]  # fmt: skip


@pytest.mark.parametrize(
    ("attention", "given"),
    [(kind, given) for kind in ATTENTIONS for given in STEPPED if kind != "none" or "input_feeding" not in given],
)
def test_all_steps_at_once_are_the_steps_one_by_one(attention, given):
    model = untrained(attention=attention, **given).double()
    batch = batch_of(*BATCH)
    vectors, weights = write(model, batch)
    losses = [vectors.new_zeros(()), vectors.new_zeros(())]
    for t, (vector, seen) in enumerate(one_by_one(model, batch)):
        real = t < batch.lengths
        mine, right = vectors[t, real], model._finish(vector)[real]
        torch.testing.assert_close(mine, right)
        assert (seen is None) == (attention == "none")
        if seen is not None:
            torch.testing.assert_close(weights[t, real], seen[real])
        factor = torch.randn_like(mine)
        losses = [loss + (found * factor).sum() for loss, found in zip(losses, (mine, right), strict=True)]
    parameters = list(model.parameters())
    found, right = (torch.autograd.grad(loss, parameters, allow_unused=True) for loss in losses)
    for a, b in zip(found, right, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize(
    "given",
    [
        *({"cell": cell, "input_feeding": feeding} for cell in sorted(registry()) for feeding in (False, True)),
        *({"attention": attention} for attention in ATTENTIONS),
    ],
    ids=lambda given: " ".join(map(str, given.values())),
)
@pytest.mark.parametrize("copies", [1, 7])
def test_the_search_sees_what_training_sees(given, copies):
    """Log-probabilities of a pair by the stepper, token by token, and by the loss."""
    model = untrained(**given, tied="none")
    for one in BATCH:
        batch = batch_of(one)
        stepper = model.stepper(batch.source, batch.source_lengths)
        rows, found = stepper.select(stepper.start(1), torch.zeros(copies, dtype=torch.int64)), []
        for token, target in zip(batch.inputs[:, 0], batch.targets[:, 0], strict=True):
            log_probs, rows = stepper.step(token.expand(copies), rows)
            found.append(log_probs[copies // 2, target])
            rows = stepper.select(rows, torch.arange(copies) // 2)
        assert model.train(False).settings.label_smoothing == 0.1
        vectors, _ = write(model, batch)
        logits = F.linear(vectors[:, 0], model.output_weight, model.bias)
        expected = -F.cross_entropy(logits, batch.targets[:, 0], reduction="none")
        torch.testing.assert_close(torch.stack(found), expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("feeding", [False, True])
def test_teachers_and_the_model_itself(feeding):
    model = untrained(input_feeding=feeding).double()
    batch = batch_of(*BATCH)
    torch.testing.assert_close(model.write_freely(batch, 1.0)[0], model.write(batch)[0])
    # without a teacher, a step reads the most probable token: the same as the true ones being those
    free, targets = model.write_freely(batch, 0.0)
    said = spread(batch, F.linear(free, model.output_weight, model.bias)).argmax(2)
    told = replace(batch, inputs=torch.cat((batch.inputs[:1], said[:-1])))
    torch.testing.assert_close(model.write(told)[0], free)
    assert targets.tolist() == [target for row in batch.targets.T.tolist() for target in row if target != PAD]


def test_the_teacher_leaves_by_and_by():
    settings = untrained(teacher_forcing=0.9, teacher_forcing_end=0.5).settings
    assert [round(settings.teacher_share(p), 6) for p in (0, 0.5, 1)] == [0.9, 0.7, 0.5]
    assert untrained(teacher_forcing=0.9).settings.teacher_share(1) == 0.9


@pytest.mark.parametrize("tied", ["none", "output", "all"])
def test_the_loss_is_cross_entropy(tied):
    model = untrained(tied=tied, shared=True, label_smoothing=0.2)
    batch = batch_of(*BATCH)
    loss = model.loss(batch)
    vectors, _ = write(model, batch)
    logits = F.linear(vectors, model.output_weight, model.bias).flatten(0, 1)
    expected = F.cross_entropy(logits, batch.targets.flatten(), ignore_index=PAD, label_smoothing=0.2)
    torch.testing.assert_close(loss.mean, expected)
    assert loss.weight == batch.tokens == 9
    one_matrix = model.source_embedder.weight is model.target_embedder.weight
    assert (one_matrix, model.output_weight is model.target_embedder.weight) == (tied == "all", tied != "none")


@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("feeding", [False, True])
def test_every_parameter_learns(attention, feeding):
    if attention == "none" and feeding:
        pytest.skip("nothing to feed")
    model = untrained(attention=attention, input_feeding=feeding, teacher_forcing=0.5 if feeding else 1.0)
    model.loss(batch_of(*BATCH)).mean.backward()
    still = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert still == []


def test_neighbours_do_not_matter_in_training():
    model = untrained().double()
    vectors, weights = write(model, batch_of(*BATCH))
    for k, one in enumerate(BATCH):
        alone, seen = write(model, batch_of(one))
        torch.testing.assert_close(vectors[: len(alone), k], alone[:, 0])
        torch.testing.assert_close(weights[: len(alone), k, : seen.shape[2]], seen[:, 0])


# ---------------------------------------------------------------- searches


lines_of_letters = st.lists(
    st.lists(st.sampled_from(LETTERS), min_size=1, max_size=6).map(" ".join), min_size=1, max_size=6
)


@given(lines_of_letters, st.integers(1, 4), st.booleans(), st.sampled_from(["additive", "none", "dot"]))
def test_a_translation_does_not_depend_on_its_neighbours(lines, beam, feeding, attention):
    model = untrained(attention=attention, input_feeding=feeding and attention != "none")
    options = {"num_beams": beam, "num_return_sequences": beam, "attention": True}
    together = model.translate(lines, batch_size=4, **options)
    for line, found in zip(lines, together, strict=True):
        alone = model.translate(line, **options)
        assert [one.tokens for one in found.sequences] == [one.tokens for one in alone.sequences]
        np.testing.assert_allclose(
            [one.log_prob for one in found.sequences], [one.log_prob for one in alone.sequences], atol=1e-4
        )
        if attention != "none":
            torch.testing.assert_close(found.attention, alone.attention, atol=1e-5, rtol=1e-4)


@given(lines_of_letters, st.integers(0, 3))
def test_a_beam_of_one_is_greedy(lines, seed):
    model = untrained(seed)
    for line in lines:
        ids = model.source_vocabulary.encode(line).astype(np.int64)
        stepper = model.stepper(torch.from_numpy(ids).unsqueeze(1), torch.tensor([len(ids)]))
        [[greedy]], [[beam]] = (
            search(stepper, 1, strategy, start=START, end=END, max_length=12) for strategy in (Greedy(), Beam(1))
        )
        assert greedy.tokens == beam.tokens


@pytest.mark.parametrize("length", ["mean", "none", "gnmt"])
def test_a_wide_beam_finds_what_is_best(length):
    model = untrained(3, words="ab")
    sources = [np.array([4, 5]), np.array([5])]
    norm = GenerationConfig(num_beams=5, length_normalization=length).length_norm()
    for ids in sources:
        steppers = [model.stepper(torch.from_numpy(ids).unsqueeze(1), torch.tensor([len(ids)])) for _ in range(2)]
        common = {"start": START, "end": END, "max_length": 4}
        every = search(steppers[0], 1, Exhaustive(n_best=3, length=norm), **common)
        wide = search(steppers[1], 1, Beam(6**4, n_best=3, length=norm, completed=10**6, wide=True), **common)
        assert [one.tokens for one in every[0]] == [one.tokens for one in wide[0]]


@pytest.mark.learning
def test_scores_are_the_model_s_own(trained):
    made = trained.translate("a b c", num_return_sequences=3, attention=True)
    assert made.score >= made.others[0].score >= made.others[1].score
    for one in made.sequences:
        target = trained.target_vocabulary.encode(one.text)
        assert one.finished and one.tokens[-1] == "[END]"
        batch = batch_of((trained.source_vocabulary.encode("a b c"), target))
        vectors, weights = write(trained, batch)
        log_probs = F.linear(vectors, trained.output_weight, trained.bias).log_softmax(2)
        expected = log_probs.gather(2, batch.targets.unsqueeze(2)).sum()
        assert one.log_prob == pytest.approx(float(expected.detach()), abs=1e-4)
        assert one.score == pytest.approx(one.log_prob / len(one.tokens))
        torch.testing.assert_close(one.attention, weights[:, 0], atol=1e-5, rtol=1e-4)


# ---------------------------------------------------------------- use


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
        model.bias[UNK] += 100
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
    logs = [m.stepper(*source).step(torch.tensor([START]), m.stepper(*source).start(1))[0] for m in (first, second)]
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


# ---------------------------------------------------------------- settings and runs


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"tied": "all"}, "tied: all needs one vocabulary for both languages"),
        ({"attention": "none", "input_feeding": True}, "input_feeding: it feeds what attention found"),
        ({"attention": "none", "init": "zeros"}, "leaves the decoder blind"),
        ({"attention": "dot", "decoder_hidden": 7}, "dot needs decoder_hidden to be 12"),
        ({"init": "last", "decoder_hidden": 7}, "init: last needs decoder_hidden to be 12"),
        ({"init": "last", "decoder_layers": 2}, "init: last needs a decoder with no more layers"),
        ({"attention": "cosine"}, "attention: .*'none'"),
        ({"train": ["a", "b", "c"]}, "train: .*two files of as many lines, or one TSV, got "),
        ({"source_column": 2}, "target_column: 2 is the source_column too"),
    ],
)
def test_settings_that_cannot_be(settings, given, said):
    with pytest.raises(SettingsError, match=said):
        settings(**given)


@pytest.mark.parametrize("feeding", [False, True])
def test_a_run_goes_on_where_it_was_killed(settings, goes_on, feeding):
    noisy = settings(
        dropout=0.3, average=0.9, schedule="cosine", epochs=2, batch_size=64, input_feeding=feeding,
        teacher_forcing=1.0, teacher_forcing_end=0.5 if feeding else 1.0,
    )  # fmt: skip
    goes_on(Translator, noisy)


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


def test_check(command, pairs, tmp_path):
    files = (pairs / "train.tsv", "--dev", pairs / "dev.tsv")
    code, out, _ = command("check", *files, "--task", "translate", "--set", "tokens=word", "--json")
    found = json.loads(out)
    assert code == 0 and found["source"]["train"]["lines"] == 400 and found["long"] == 0


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
        (["--json", "--tree", "-"], "a tree as text is not JSON"),
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
    other = trainer.train(Translator, settings(epochs=1, tokens="character", batch_size=300), tmp_path / "other",
                         quiet=True, report=False)  # fmt: skip
    code, out, err = command("translate", run, "--with", other.folder, given="a b")
    assert (code != 0, out) == (True, "")
    assert err.count("\n") == 1 and "model 2 of the ensemble has another source vocabulary (11 tokens)" in err


def test_files_that_do_not_fit(command, run, tmp_path):
    source, target = tmp_path / "a.en", tmp_path / "a.de"
    source.write_text("a\nb\nc\n"), target.write_text("A\nB\n")
    for words in (["eval", run], ["check", "--task", "translate"], ["train", "translate", "--out", tmp_path / "run2"]):
        code, out, err = command(*words, source, target)
        assert (code != 0, out) == (True, "") and err.count("\n") == 1
        assert f"{source}: 3 lines, but {target} has 2" in err
    source.write_text("a\n\n")
    code, _, err = command("train", "translate", source, target, "--out", tmp_path / "run2")
    assert code and f"{source}:2: the source is empty" in err and not (tmp_path / "run2").exists()
