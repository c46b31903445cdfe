"""The setting `nonlinearity` in every task with recurrent layers, and the cells that only a registered name gives."""

import pytest
import torch

import carousel
from carousel.tasks.registry import find, names


@pytest.mark.parametrize("name", [name for name in names() if "cell" in find(name).Settings.model_fields])
def test_every_task_has_the_nonlinearities_of_an_rnn(name):
    field = find(name).Settings.model_fields["nonlinearity"]
    assert field.default == "tanh" and field.json_schema_extra["needs"] == {"cell": ("rnn",)}


def test_training_with_a_sigmoid(tmp_path):
    lines = ["ab" * 5, "ba" * 5] * 4
    small = {"tokens": "character", "hidden": 6, "embedding": 4, "epochs": 1, "quiet": True, "report": False}
    model = carousel.train("lm", lines, out=tmp_path / "run", cell="rnn", nonlinearity="sigmoid", **small)
    assert model.network.layers.cell.nonlinearity == "sigmoid"
    again = carousel.load(tmp_path / "run").network.layers
    assert again.cell.nonlinearity == "sigmoid" and (again(torch.randn(3, 1, 4))[0] > 0).all()
