"""What can be seen of a translation: its attention, the search, the decoder's gates; and the command that draws it."""

import io
import os
from types import SimpleNamespace

import pytest
import torch
from helpers.pages import rows
from helpers.translators import untrained

import carousel
from carousel.cli.main import main
from carousel.data import START
from carousel.report import Page
from carousel.tasks.translate.pairs import Pair
from carousel.tasks.translate.report import gates_picture, show_attention, show_errors
from carousel.tasks.translate.settings import TranslateSettings
from carousel.tasks.translate.task import Translate
from carousel.training import trainer

SMALL = {"tokens": "character", "hidden": 6, "embedding": 5, "dropout": 0.0}


def make(**given):
    return untrained(1, **SMALL, **given)


@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn"])
def test_the_trace_is_what_the_decoder_goes_through(cell):
    model = make(cell=cell, layers=2)
    made = model.translate("abcde", max_length=7)
    trace = model.trace_decoder([made])
    assert list(trace.tokens[0]) == ["[START]", *made.tokens[:-1]]
    ids, _ = model.encode_line("abcde")
    _, state = model.network.encode(torch.tensor(ids.tolist())[:, None], torch.tensor([5]))
    for t, token in enumerate([START, *made.ids[:-1]]):
        y, state = model.network.decoder.layers.step(model.network.target_embedder(torch.tensor([token])), state)
        torch.testing.assert_close(trace.output[t], y)
    drawn = gates_picture(model, made)
    shown = {"lstm": "f", "gru": "z", "rnn": "h"}[cell]
    values = {**dict(trace.gates.items()), **dict(trace.states.items())}[shown]
    assert sorted(map(tuple, drawn.data[0].z)) == sorted(map(tuple, values[1, :, 0].T.tolist()))  # the top layer's


@pytest.mark.parametrize(
    "given", [{"input_feeding": True}, {"decoder": "bahdanau"}, {"decoder": "bahdanau", "layers": 2}], ids=str
)
def test_the_trace_of_a_decoder_that_reads_what_attention_found(given):
    model = make(**given)
    [made] = model.translate(["abcde"], attention=True, max_length=7)
    trace = model.trace_decoder([made])
    network, ids = model.network, model.encode_line("abcde")[0]
    memory, state = network.encode(torch.tensor(ids.tolist())[:, None], torch.tensor([5]))
    carried, states = network.decoder.begin(state, 1), [state]
    for t, token in enumerate([START, *made.ids[:-1]]):
        outputs = []

        def run_layers(x, outputs=outputs):
            y, after = network.decoder.layers.step(x, states[-1])
            outputs.append(y)
            return y, after

        x = network.target_embedder(torch.tensor([token]))
        _, weights, carried, after = network.decoder.step(x, carried, memory, torch.tensor([1]), run_layers)
        states.append(after)
        torch.testing.assert_close(trace.output[t], outputs[0])
        torch.testing.assert_close(torch.as_tensor(made.attention[t]).float(), weights[0].float())
    page = Page("t")
    show_attention(model, page, [made])
    assert page.figures == 2 and len(trace.tokens[0]) == len(made.tokens)


@pytest.mark.parametrize("given", [{}, {"input_feeding": True}, {"decoder": "bahdanau", "layers": 2}], ids=str)
def test_what_is_held_in_the_decoder_changes_what_follows(given):
    """Against single steps, of which the third alone is held; of the longer of two lines."""
    model = make(**given)
    clamp = carousel.Clamp("f", 0.25, steps=2, layer=0, units=[0, 3])
    trace = model.intervene(["ab", "abcde"], clamp, part="decoder")
    made = model.translate("abcde")
    assert list(trace.tokens[1]) == ["[START]", *made.tokens[:-1]]
    network, ids = model.network, model.encode_line("abcde")[0]
    memory, state = network.encode(torch.tensor(ids.tolist())[:, None], torch.tensor([5]))
    carried, decoder = network.decoder.begin(state, 1), network.decoder
    for t, token in enumerate([START, *made.ids[:-1]]):

        def run_layers(x, t=t, state=state):
            held = [carousel.Clamp("f", 0.25, layer=0, units=[0, 3])] if t == 2 else []
            one = decoder.layers.intervene(x[None], *held, hx=state)
            return one.output[0], one

        x = network.target_embedder(torch.tensor([token]))
        _, _, carried, one = decoder.step(x, carried, memory, torch.tensor([1]), run_layers)
        state = one.state
        for name in "fc":
            values = {**trace.gates, **trace.states}[name], {**one.gates, **one.states}[name]
            torch.testing.assert_close(values[0][:, t, 1], values[1][:, 0, 0])
    plain = model.trace(["ab", "abcde"], part="decoder")
    torch.testing.assert_close(plain.c[:, :2], trace.c[:, :2])
    assert not torch.allclose(plain.c[:, 2:], trace.c[:, 2:])


def test_the_parts_of_a_translator_are_traced_apart():
    model = make()
    assert model.trace("abc").tokens == (("a", "b", "c"),) == model.trace("abc", part="encoder").tokens
    both = model.trace(["abc", ""], part="decoder")
    assert both.tokens[1] == () and not both.c[:, :, 1].any() and both.c[:, :, 0].all()
    torch.testing.assert_close(both.c[:, :, :1], model.trace("abc", part="decoder").c)
    with pytest.raises(carousel.CarouselError, match="part: a translator has encoder and decoder, got 'layers'"):
        model.trace("abc", part="layers")
    with pytest.raises(carousel.CarouselError, match="there is nothing to read"):
        model.trace("", part="decoder")


def test_without_attention_there_is_none_to_show():
    model = make(attention="none")
    made = model.translate(["abc", ""], attention=True)
    with pytest.raises(ValueError, match="no attention to show"):
        made[0].attention_picture()
    page = Page("t")
    show_attention(model, page, made)
    assert page.figures == 1  # the gates


def test_the_tree_has_every_translation_and_the_search_is_the_same():
    model = make()
    lines = ["abc", "fedcba", "", "aa"]
    plain = model.translate(lines, num_beams=3, num_return_sequences=3)
    seen = model.translate(lines, num_beams=3, num_return_sequences=3, tree=True)
    for one, other in zip(plain, seen, strict=True):
        assert [t.text for t in one.sequences] == [t.text for t in other.sequences]
        assert [t.score for t in one.sequences] == pytest.approx([t.score for t in other.sequences])
        assert one.tree is None
    assert seen[2].tree is None  # nothing was searched
    for made in (seen[0], seen[1], seen[3]):
        tree = made.tree
        nodes = tree.record.nodes[tree.item]
        complete = {
            tuple(tree.record.path(tree.item, k)): node.total
            for k, node in enumerate(nodes)
            if node.fate == "completed"
        }
        for one in made.sequences:
            if one.finished:
                assert complete[one.ids] == pytest.approx(one.log_prob, abs=1e-5)
        assert f"[END] {made.log_prob:.2f} ■" in str(tree)
        assert tree.best == made.ids
        assert len(tree.picture().data) > 2


def test_the_worst_and_the_best_translations_beside_the_references():
    model, page = make(), Page("t")
    texts = ["abcdef", "xx", "abc", "<b>"]
    pairs = [Pair(k, "a<i>b", right) for k, right in enumerate(["abcdef", "abcdef", "abcdef", "<b> and so on"], 1)]
    show_errors(model, page, pairs, texts)
    html = page.html()
    worst, best = html.split("Best translations")
    assert [row[1] for row in rows(worst, "source", "translation", "reference", "chrF")] == ["xx", "&lt;b&gt;"]
    assert [row[1] for row in rows(best, "source", "translation", "reference", "chrF")] == ["abcdef", "abc"]
    assert rows(best, "source")[0] == ["a&lt;i&gt;b", "abcdef", "abcdef", "100.0"]


def test_the_log_names_the_search_of_its_bleu():
    assert make().network.metric().label("bleu") == "BLEU (greedy)"
    assert make(dev_beam=3).network.metric().label("bleu") == "BLEU (beam 3)"


# ---------------------------------------------------------------- the command


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("letters")
    (folder / "train.tsv").write_text("abc\tcba\nad\tda\nbcd\tdcb\n" * 8, "utf-8")
    files = {"train": folder / "train.tsv", "dev": folder / "train.tsv", "cache": folder / "cache"}
    trainer.train(Translate, TranslateSettings.read({**files, **SMALL, "epochs": 1}), folder / "run", quiet=True)
    return folder / "run"


@pytest.fixture
def command(run, capsys, monkeypatch):
    def call(text, *args):
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(text.encode()), isatty=lambda: False))
        with pytest.raises(SystemExit) as end:
            main(["translate", str(run), *map(str, args)])
        return end.value.code, *capsys.readouterr()

    return call


def test_a_run_s_report_shows_attention_and_gates(run):
    page = (run / "report.html").read_text("utf-8")
    for title in (
        "Worst translations",
        "Best translations",
        "Attention, 1 of 3",
        "Attention, 3 of 3",
        "Gates of the decoder",
    ):
        assert f"<h2>{title}</h2>" in page


def test_pictures_of_each_line(command, run, tmp_path):
    code, out, _ = command("abc\n\ndd\n", "--attention", tmp_path / "a.svg", "--tree", tmp_path / "t.png")
    assert code == 0
    assert len(out.splitlines()) == 3
    assert {p.name for p in tmp_path.iterdir()} == {"a.svg", "a-3.svg", "t.png", "t-3.png"}
    made = carousel.load(run).translate("abc")
    svg = (tmp_path / "a.svg").read_text("utf-8")
    assert all(f">{letter}</text>" in svg for letter in [*"abc", *made.text])


def test_the_tree_in_words(command, run):
    code, out, _ = command("abc\n", "--tree", "-", "--num-beams", 3)
    assert code == 0
    made = carousel.load(run).translate("abc", num_beams=3, tree=True)
    assert out == f"{made.text}\n{made.tree}\n"


def test_pictures_that_cannot_be(command, tmp_path):
    for option in ("--attention", "--tree"):
        code, out, err = command("abc\n", option, tmp_path / "a.gif")
        assert (code, out) == (2, "")
        assert f"{option}: {tmp_path}/a.gif: a picture's name must end in .png, .svg or .pdf" in err
    code, _, err = command("ab\n" * 51, "--attention", tmp_path / "a.png", "--out", tmp_path / "said.txt")
    assert code == 1
    assert err == "error: --attention is for at most 50 lines at a time; give fewer\n"
    assert not list(tmp_path.iterdir())
    many = tmp_path / "many.txt"
    many.write_text("ab\n\n" * 51)
    for option in ("--attention", "--tree"):  # of a file, before anything is translated
        code, out, err = command("", many, option, tmp_path / "a.png")
        assert (code, out, err) == (1, "", f"error: {option} is for at most 50 lines at a time; give fewer\n")


@pytest.mark.parametrize(("to", "bar"), [("pipe", False), ("file", True), ("--out", True)])
def test_a_progress_bar_never_shares_a_line_with_output(command, tmp_path, monkeypatch, to, bar):
    """On a terminal's stderr it is shown only while translations go to a file."""
    shown = []
    monkeypatch.setattr("rich.progress.track", lambda items, *_, **__: (shown.append(1), items)[1])
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    (tmp_path / "in.txt").write_text("abc\n")
    with (tmp_path / "stdout").open("w") as file:
        descriptor = {"file": file.fileno(), "pipe": os.pipe()[1]}.get(to, os.pipe()[1])
        monkeypatch.setattr("sys.stdout.fileno", lambda: descriptor, raising=False)
        options = ["--out", tmp_path / "out.txt"] if to == "--out" else []
        code, out, _ = command("", tmp_path / "in.txt", *options)
    assert code == 0 and bool(shown) is bar and (to == "--out") is (out == "")
