"""Small sweeps of a language model."""

import carousel
from carousel.sweeps import sweep as sweeps

TEXT = "the cat sat on the mat\na dog ran to the cat\nthe mat was flat\n" * 4
VARY = {"lr": "1e-4..1e-1", "hidden": [4, 6]}
TINY = {"embedding": 4, "epochs": 2, "threads": 1, "batch_size": 4, "tokens": "word", "quiet": True}


def run(text, out, trials=3, **options):
    return carousel.sweep("lm", text, dev=text, out=out, vary=VARY, trials=trials, **{**TINY, **options})


def worker(text, out, trials, vary=VARY, sampler="tpe"):
    from carousel.tasks import find
    from carousel.training.progress import Bar

    values = {**{key: value for key, value in TINY.items() if key != "quiet"}, "train": text, "dev": text}
    task = find("lm")
    space = sweeps.parse_space(task.Settings, values, vary)
    checked = task.Settings.check(values, {})
    own = sweeps._Worker(task, checked, values, space, out, trials, sampler, True, Bar(True), [])
    own.begin()
    return own
