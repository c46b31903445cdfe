"""The device to train on: what is there, and one line where it is not."""

import pytest
import torch

import carousel
from carousel.errors import SettingsError
from carousel.training import trainer
from carousel.training.settings import Settings


def settings(**given):
    return type("Own", (Settings,), {"__annotations__": {}}).read(given)


def there(monkeypatch, *devices):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: "cuda" in devices)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: "mps" in devices)


def test_the_default_is_the_processor(monkeypatch):
    there(monkeypatch, "cuda")
    assert trainer.placement(settings()) == {"accelerator": "cpu", "precision": "32-true", "devices": 1}


@pytest.mark.parametrize(("devices", "expected"), [((), "cpu"), (("cuda",), "cuda"), (("mps",), "mps")])
def test_auto_takes_a_gpu_if_there_is_one(monkeypatch, devices, expected):
    there(monkeypatch, *devices)
    assert trainer.find_device("auto") == expected


def test_a_missing_device_is_one_line(monkeypatch):
    there(monkeypatch, "mps")
    with pytest.raises(SettingsError, match="device: there is no cuda on this machine, only cpu, mps; choose"):
        trainer.find_device("cuda")


def test_mixed_precision_is_for_a_gpu(monkeypatch):
    there(monkeypatch, "cuda")
    assert trainer.placement(settings(device="cuda", precision="bf16"))["precision"] == "bf16-mixed"
    with pytest.raises(SettingsError, match="precision: bf16 is for a GPU"):
        trainer.placement(settings(precision="bf16"))


def test_nothing_is_written_without_the_device(monkeypatch, tmp_path):
    there(monkeypatch)
    (tmp_path / "text.txt").write_text("to be or not\n" * 30)
    with pytest.raises(SettingsError, match="there is no cuda"):
        carousel.train("lm", tmp_path / "text.txt", out=tmp_path / "run", device="cuda", quiet=True)
    assert not (tmp_path / "run").exists()
