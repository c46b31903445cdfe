"""What a network takes of the memory is known before it is made."""

import pytest
import torch
from helpers.tiny import fit, language, new_model

import carousel
from carousel.errors import RunError, SettingsError
from carousel.tasks import find
from carousel.tasks.lm.task import LanguageTask
from carousel.tasks.registry import BUILT_IN
from carousel.training import memory
from carousel.training.optimizers import make_optimizer


@pytest.fixture
def small_machine(monkeypatch):
    monkeypatch.setattr(memory, "machine_memory", lambda: 8_000_000_000)


def test_a_network_that_cannot_fit_is_refused_before_it_is_made(tmp_path, small_machine):
    said = r"hidden 40000, layers 1: training takes 102 GB of memory \(weights 25\.\d GB, gradients 25\.\d GB, "
    said += r"optimizer state 51\.\d GB\), and this machine has 8\.0 GB; choose smaller sizes"
    with pytest.raises(SettingsError, match=said):
        fit(language(tmp_path, hidden=40000), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_size_beyond_64_bits(tmp_path):
    with pytest.raises(SettingsError, match="hidden 2000000000, layers 1: no machine has the memory"):
        fit(language(tmp_path, hidden=2_000_000_000), tmp_path / "run")


@pytest.mark.parametrize("name", [name for name in BUILT_IN if "layers" in find(name).Settings.model_fields])
def test_layers_are_bounded_by_the_settings(name, tmp_path):
    with pytest.raises(SettingsError, match=r"layers: should be less than or equal to 1000, got 100000000"):
        carousel.train(name, tmp_path / "train.txt", out=tmp_path / "run", layers=100_000_000)


def test_the_config_of_a_run_asks_for_more_than_its_weights_have(tmp_path, monkeypatch):
    run = fit(language(tmp_path, epochs=1), tmp_path / "run")
    for file, old, new in (
        (run.config, "hidden: 6", "hidden: 40000"),
        (run.folder / "manifest.json", '"hidden": 6', '"hidden": 40000'),
    ):
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new))
    monkeypatch.setattr(LanguageTask, "make_network", only_on_meta(LanguageTask.make_network))
    with pytest.raises(RunError, match=r"not of this config\.yaml \(\S+ is \(.*\) in it, \S+ is \(160000,.*\) by that"):
        carousel.load(run.folder)


def only_on_meta(make):
    def checked(settings, assets):
        assert torch.empty(0).device.type == "meta"
        return make(settings, assets)

    return checked


@pytest.mark.parametrize(
    "given",
    [{"optimizer": name} for name in memory.STATES]
    + [{"optimizer": "sgd", "momentum": 0.5}, {"optimizer": "rmsprop", "momentum": 0.5}, {"average": 0.9}],
)
def test_the_memory_is_what_torch_uses(tmp_path, monkeypatch, given):
    settings = language(tmp_path, hidden=50, **given)
    model, _ = new_model(settings)
    optimizer = make_optimizer(settings, model.network.parameters())
    for parameter in model.network.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    kept = [*model.network.parameters(), *(parameter.grad for parameter in model.network.parameters())]
    kept += [value for state in optimizer.state.values() for value in state.values() if torch.is_tensor(value)]
    kept += list(model.network.parameters()) * bool(settings.average)
    used = sum(tensor.numel() * 4 for tensor in kept if tensor.dim())
    monkeypatch.setattr(memory, "machine_memory", lambda: used)
    memory.check_memory(model.network, training=True)
    monkeypatch.setattr(memory, "machine_memory", lambda: used - 1)
    with pytest.raises(SettingsError, match=r"training takes 0\.0 GB"):
        memory.check_memory(model.network, training=True)


def test_an_outline_draws_no_random_numbers(tmp_path):
    settings = language(tmp_path)
    assets, _ = LanguageTask.prepare(settings)
    before = torch.get_rng_state()
    assert all(parameter.is_meta for parameter in memory.outline(LanguageTask, settings, assets).parameters())
    assert torch.equal(torch.get_rng_state(), before)


def test_a_task_that_computes_with_its_weights_is_not_checked():
    class Own:
        @staticmethod
        def make_network(settings, assets):
            return torch.ones(1).item()

    assert memory.outline(Own, None, None) is None


def test_the_limit_of_a_container_counts(tmp_path, monkeypatch):
    limit = tmp_path / "memory.max"
    limit.write_text("1000000\n")
    monkeypatch.setattr(memory, "LIMITS", (limit, tmp_path / "none"))
    assert memory.machine_memory() == 1_000_000
    limit.write_text("max\n")
    assert memory.machine_memory() > 100_000_000
