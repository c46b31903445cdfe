"""Trained models show their inside: gates and states while the layers read an item, and interventions in them."""

import pytest
import torch

import carousel
from carousel import Clamp


def test_a_trace_has_the_tokens_of_the_item(small_model):
    model, item, tokens = small_model
    trace = model.trace(item)
    assert len(trace.tokens) == 1 and [token.strip() or "▁" for token in trace.tokens[0]] == tokens
    assert set(trace.gates) >= {"f", "i", "o"}
    assert trace.c.shape[1:] == (len(tokens), 1, 4)


def test_what_is_no_item_is_one_line(small_model):
    model, item, _ = small_model
    wrongs = [(5, "5"), (None, "None"), ([item, 2.5], "2.5"), (b"x", "b'x'"), ({"a": 1}, r"\{'a': 1\}")]
    for wrong, shown in [*wrongs, ([item, object], "<class 'object'>")]:
        with pytest.raises(carousel.CarouselError, match=rf"item: give one such as \w+ takes, .*, got {shown}$"):
            model.trace(wrong)


def test_a_notebook_shows_what_print_shows(small_model):
    model, _, _ = small_model
    page = model._repr_html_()
    assert page.startswith("<table") and f"<caption>{repr(model).splitlines()[0]}</caption>" in page
    assert page.count("<tr>") == len(repr(model).splitlines()) - 1


def test_several_items_are_as_each_alone(small_model):
    model, item, _ = small_model
    both = model.trace([item, "dull"])
    alone = model.trace(item)
    steps = len(alone.tokens[0])
    torch.testing.assert_close(both.c[:, :steps, :1], alone.c)
    assert len(both.tokens) == 2


def test_the_mode_is_as_before_and_dropout_is_off(small_model):
    model, item, _ = small_model
    quiet = model.trace(item)
    model.network.train()
    torch.testing.assert_close(model.trace(item).c, quiet.c)
    assert model.network.training
    model.network.eval()


def test_an_unknown_token_is_named_and_marked(small_model):
    model, item, tokens = small_model
    if model.name == "lm":
        unknown = model.trace(["zebras sit", "a zebra"])
        assert unknown.tokens == (("[START]", "zebras [UNK]", "sit [UNK]"), ("[START]", "a", "zebra [UNK]"))
    elif model.name == "translate":
        assert model.trace("aZd").tokens == (("a", "Z [UNK]", "d"),)
    else:
        trace = model.trace([item, "a Zebra"])
        assert trace.tokens == (tuple(tokens), (*tokens[:-2], "Zebra [UNK]"))


def test_a_model_of_one_part_has_no_other(small_model):
    model, item, _ = small_model
    if len(model.parts) == 1:
        with pytest.raises(carousel.CarouselError, match="has layers, got 'decoder'"):
            model.trace(item, part="decoder")


def test_an_empty_list_is_nothing_to_read(small_model):
    with pytest.raises(carousel.CarouselError, match="item: the list is empty; give at least one"):
        small_model[0].trace([])


def test_gradients_are_those_of_the_layer(small_model):
    model, item, _ = small_model
    if len(model.parts) > 1:
        with pytest.raises(carousel.CarouselError, match=r"gradients_of: not for a .*; call trace of a layer in"):
            model.trace(item, gradients_of=torch.sum)
        return
    read = model.layer_input(model.batch_of([item])) if model.name != "lm" else model._read_items([item])
    theirs = read.layer.trace(read.x, lengths=read.lengths, gradients_of=torch.sum)
    own = model.trace(item, gradients_of=torch.sum)
    torch.testing.assert_close(own.gradients["h"], theirs.gradients["h"])
    assert own.tokens == model.trace(item).tokens and own.gradients["h"].abs().max() > 0


def test_an_intervention_changes_what_follows(small_model):
    model, item, _ = small_model
    plain = model.trace(item)
    changed = model.intervene(item, Clamp("f", 0.0), Clamp("i", 0.0))
    assert (changed.gates["f"] == 0).all() and (changed.c == 0).all()
    assert not (plain.c == 0).all()


def test_a_forecaster_reads_the_end_of_a_series(tmp_path):
    series = [float(k % 12) for k in range(60)]
    settings = {"epochs": 1, "threads": 1, "quiet": True, "report": False, "hidden": 4, "horizon": 2, "context": 6}
    model = carousel.train("forecast", series, out=tmp_path / "run", **settings)
    trace = model.trace(series)
    assert trace.c.shape[2:] == (1, 4)
    later = model.trace(series[6:])
    torch.testing.assert_close(later.c, trace.c)  # only the window before the end is read
    assert not torch.equal(model.trace(series[:-1]).c, trace.c)


def test_a_forecaster_reads_files_or_numbers_with_their_start(tmp_path):
    files = [tmp_path / "a.csv", tmp_path / "b.csv"]
    values = [[float((k + n) % 5) for k in range(40)] for n in (0, 2)]
    for file, series in zip(files, values, strict=True):
        rows = (f"{2000 + k // 12}-{k % 12 + 1:02},{value}\n" for k, value in enumerate(series))
        file.write_text("month,sold\n" + "".join(rows))
    settings = {"epochs": 1, "threads": 1, "quiet": True, "report": False, "hidden": 4, "horizon": 2, "context": 6}
    model = carousel.train("forecast", files[0], out=tmp_path / "run", **settings)
    both, alone = model.trace(files), [model.trace(file) for file in files]
    assert both.tokens == (*alone[0].tokens, *alone[1].tokens) and both.tokens[0][-1] == "2003-04"
    torch.testing.assert_close(both.c, torch.cat([one.c for one in alone], 2))
    numbers = model.trace(values[1], start="2000-01")
    assert numbers.tokens == alone[1].tokens
    torch.testing.assert_close(numbers.c, alone[1].c)
    held = model.intervene(values[1], Clamp("c", 0.5, steps=-1), start="2000-01")
    assert (held.c[:, -1] == 0.5).all() and held.tokens == alone[1].tokens
    with pytest.raises(carousel.CarouselError, match="numbers have no times; give start"):
        model.trace(values[1])


def test_a_method_of_other_models_is_one_line_that_names_those_there_are(small_model):
    model, _, _ = small_model
    with pytest.raises(AttributeError) as error:
        model.forecast("a fine day")
    line = str(error.value)
    assert "has no forecast; call " in line and line.endswith(" or intervene")
    named = line.partition("call ")[2].replace(" or ", ", ").split(", ")
    assert {"evaluate", "trace"} < set(named) and all(callable(getattr(model, name)) for name in named)
    with pytest.raises(AttributeError, match=r"has no evaluat; did you mean evaluate\?"):
        model.evaluat("dev.txt")
    assert not hasattr(model, "__deepcopy__") and not hasattr(model, "forecast")


def test_an_error_within_a_property_is_not_taken_for_its_absence(small_model, monkeypatch):
    model, _, _ = small_model
    monkeypatch.setattr(type(model), "info", property(lambda self: self.network.nothing_of_the_kind))
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        model.info  # noqa: B018


def test_the_steps_of_a_forecaster_have_their_times(tmp_path):
    days = [f"2024-01-{day:02}" for day in range(1, 32)]
    table = tmp_path / "two.csv"
    rows = [
        f"{day},{name},{k % 7 + (name == 'b')}" for name in "ab" for k, day in enumerate(days[: 31 - 2 * (name == "b")])
    ]
    table.write_text("\n".join(["date,shop,sold", *rows]) + "\n")
    settings = {"epochs": 1, "threads": 1, "quiet": True, "report": False, "hidden": 4, "horizon": 2, "context": 6}
    model = carousel.train("forecast", table, out=tmp_path / "run", series_id="shop", season=7, **settings)
    trace = model.trace(table)
    steps = trace.c.shape[1]
    assert trace.tokens == (tuple(days[31 - steps :]), tuple(days[29 - steps : 29]))
    assert trace.c.shape[2] == 2  # both series
    alone = tmp_path / "b.csv"
    alone.write_text("\n".join(["date,shop,sold", *rows[31:]]) + "\n")
    torch.testing.assert_close(model.trace(alone).c, trace.c[:, :, 1:])
    held = model.intervene(table, Clamp("c", 0.5, steps=trace.tokens[0].index("2024-01-30"), sequences=0))
    assert (held.c[:, -2, 0] == 0.5).all()
    torch.testing.assert_close(held.c[:, :, 1], trace.c[:, :, 1])
