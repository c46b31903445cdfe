"""Where there is no terminal, a long epoch prints a line a minute."""

import io
from types import SimpleNamespace

from rich.console import Console

import carousel
from carousel.training.progress import Bar


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


def run(seconds_per_batch, batches=600, epochs=2, quiet=False, terminal=False, resumed=0):
    """The lines of a run whose batches of 100 tokens take so long."""
    clock = Clock()
    bar = Bar(quiet, clock)
    bar.console = Console(file=io.StringIO(), force_terminal=terminal, quiet=quiet, width=200)
    bar.bar.disable = not terminal
    network = SimpleNamespace(unit="tokens", describe_loss=lambda: lambda loss: f"loss {loss:.2f}")
    module = SimpleNamespace(last=SimpleNamespace(weight=100), recent=2.5, network=network)
    loop = SimpleNamespace(epoch_loop=SimpleNamespace(total_batch_idx=resumed - 1))
    trainer = SimpleNamespace(num_training_batches=batches, max_epochs=epochs, current_epoch=0, fit_loop=loop)
    bar.on_train_start(trainer, module)
    for epoch in range(epochs):
        trainer.current_epoch = epoch
        for index in range(resumed if epoch == 0 else 0, batches):
            clock.now += seconds_per_batch
            bar.on_train_batch_end(trainer, module, None, None, index)
        bar.on_validation_start(trainer, module)
        clock.now += 5
        bar.on_validation_end(trainer, module)
    bar.on_train_end(trainer, module)
    return bar.console.file.getvalue().splitlines()


def test_a_line_a_minute():
    lines = run(0.5)
    assert len(lines) == 10  # 600 seconds of training and 5 of validation between
    assert lines[0] == "epoch 1/2  step 120/1,200  loss 2.50  200 tokens/s  9 min left"
    assert lines[-1].startswith("epoch 2/2  step 1,1")


def test_the_time_left_is_that_of_a_resumed_run():
    lines = run(1.0, resumed=300)
    assert lines[0] == "epoch 1/2  step 360/1,200  loss 2.50  100 tokens/s  14 min left"


def test_a_resumed_run_counts_the_batches_before_it(tmp_path, monkeypatch):
    begun, start = [], Bar.on_train_start

    def note(self, trainer, module):
        start(self, trainer, module)
        begun.append((self.first, self.total))

    monkeypatch.setattr(Bar, "on_train_start", note)
    options = {"out": tmp_path / "run", "hidden": 4, "embedding": 4, "batch_size": 2, "baseline": False, "quiet": True}
    for epochs in (1, 3):
        carousel.train("lm", ["a cat sat"] * 20, dev_split="none", epochs=epochs, resume=epochs > 1, **options)
    assert begun == [(0, 10), (10, 30)]


def test_short_epochs_and_quiet_runs_print_nothing_between():
    assert run(0.01) == []
    assert run(0.5, quiet=True) == []
