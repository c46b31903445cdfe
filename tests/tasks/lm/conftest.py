"""Language models of small texts."""

import pytest
import torch
from helpers.language_models import LINES
from helpers.tiny import new_model

from carousel.tasks.lm.settings import LanguageSettings


@pytest.fixture
def make(tmp_path):
    """A model with weights far from zero, so that errors show; its text is in `path`."""
    path = tmp_path / "text.txt"
    path.write_text("\n".join(LINES) + "\n", "utf-8")

    def model(**given):
        small = {"hidden": 7, "embedding": 5, "dropout": 0.0, "batch_size": 3, "bptt": 6, "min_frequency": 2}
        settings = LanguageSettings.read({"train": path, "cache": tmp_path / "cache", **small, **given})
        torch.manual_seed(3)
        made = new_model(settings)[0]
        network = made.network.eval()
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.mul_(2).add_(torch.randn_like(parameter) * 0.3)
            network.embedder.weight[0] = 0
        return made

    model.path = path
    return model
