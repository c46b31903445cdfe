"""What is read as sequences of numbers."""

import pytest
from helpers.waves import SMALL, waves

import carousel
from carousel.errors import ArgumentError, DataError


def test_steps_by_id_with_missing_numbers_and_chunks(tmp_path):
    lines = ["id,x,y,label"]
    for k, (x, label) in enumerate(waves(40)):
        lines += [f"s{k},{'' if t == 2 else value},1,{label}" for t, value in enumerate(x.round(4).tolist())]
    (tmp_path / "train.csv").write_text("\n".join(lines) + "\n")
    options = {"id_column": "id", "label_column": "label", "dev_split": "none", "chunk": 4, "baseline": False}
    model = carousel.train("sequences", tmp_path / "train.csv", out=tmp_path / "run", **options, **SMALL)
    assert model.assets.scale.missing and model.network.layers.input_size == 4
    assert carousel.evaluate(model, tmp_path / "train.csv")["accuracy"] > 0.9
    with pytest.raises(
        DataError, match="1 variable, where the training data has 2; give sequences of 2 variables: x, y"
    ):
        model.predict([1.0, 2.0])
    facts = carousel.check(tmp_path / "train.csv", task="sequences", **{k: options[k] for k in ("id_column", "chunk")})
    assert facts.train.chunked == 40 and facts.train.missing == 40 and facts.train.constant == ["y"]
    assert "y is always the same; leave it out with columns" in facts.warnings[0]


@pytest.mark.parametrize("bad", [[(["a"], "x")], [("text", "good")], 5])
def test_what_is_not_numbers_is_refused(tmp_path, bad):
    with pytest.raises(ArgumentError, match="data: "):
        carousel.train("sequences", bad, out=tmp_path / "run", **SMALL)
    assert not (tmp_path / "run").exists()
