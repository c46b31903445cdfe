"""Classes of trees that are joined."""

import pytest
from helpers.tiny import new_model

from carousel.errors import SettingsError
from carousel.tasks.tree.task import TreeTask


def test_joined_classes(settings, tmp_path):
    path = tmp_path / "five.txt"
    path.write_text("(4 (2 a) (3 b))\n(0 (1 c) (2 d))\n(2 (0 a) (4 b))\n")
    model, data = new_model(settings(train=path, dev=path, classes="negative=0,1; positive=3,4"), TreeTask)
    assert model.network.classes.names == ["negative", "positive"]
    meter = model.network.eval().metric()
    for batch in data.dev:
        meter.add(batch)
    assert (meter.roots.total, meter.nodes.total) == (2, 6)
    for wrong in ("negative", "a=0", "a=0;b=", "a=0;b=0,1"):
        with pytest.raises(SettingsError, match="classes: write, say, negative=0,1;positive=3,4"):
            TreeTask.prepare(settings(train=path, classes=wrong))
    with pytest.raises(SettingsError, match=r"classes: b has '7', but .*five\.txt has only 0, 1, 2, 3, 4"):
        TreeTask.prepare(settings(train=path, classes="a=0;b=7"))
