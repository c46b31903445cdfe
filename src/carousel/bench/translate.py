"""The translator against Joey NMT: `carousel bench translate`.

Both sides have the same network and the same weights: a bidirectional LSTM encoder, an LSTM decoder with additive
attention. There are two races:

* Of random words, 11.5 million weights: both sides have the same batches. Training is measured in whole steps
  (forward, backward, clipping, optimizer) over a few batches, translation in whole searches of a fixed number of
  steps. Lengths are distributed like those of Multi30k.
* Of a run, as both are used: they train on its text in batches of 64 pairs, each in the batches that it draws, and
  translate its dev text with its weights, which is when translations end by themselves.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..data import END, PAD, START, UNK, Vocabulary
from ..data.stores.examples import Column, ExampleStore, rows_of
from ..decoding import Ban, Beam, Mean, search
from ..errors import CarouselError, RunError
from ..ops import backend
from ..tasks.runs import load_run, settings_of
from ..tasks.translate.data import TranslateAssets, open_pairs, store_pairs
from ..tasks.translate.network import TranslatorNetwork
from ..tasks.translate.pairs import PairBatch, PairBatches, collate_pairs
from ..tasks.translate.predictor import Translator
from ..tasks.translate.settings import TranslateSettings
from ..training.optimizers import clip_norm, make_optimizer
from ..training.run import Run
from .claims import measured, print_claims
from .joey import joey_batch, joey_trainer, joey_translations, make_joey, need_joey, need_like
from .layers import race

PLAIN: dict[str, Any] = {"embedding": 256, "hidden": 256, "decoder_hidden": 512, "attention": "additive",
                         "input_feeding": False, "tied": "none", "dropout": 0.3, "label_smoothing": 0.1}  # fmt: skip
SETUPS: dict[str, tuple[int, dict[str, Any]]] = {  # words and settings; both have 11.5 million weights
    "plain": (7400, PLAIN),
    "input feeding": (6350, {**PLAIN, "input_feeding": True}),
}
PAIRS, BEAM, STEPS = 64, 5, 15  # sentences in a batch; width and length of a search of random words
BATCHES = 6  # of random words, to train on: they differ in how much of them is padding
LINES = 512  # lines of a run's dev text
LEAST = 4.0


# ---------------------------------------------------------------- what both do


def our_trainer(network: TranslatorNetwork) -> Callable[[PairBatch], None]:
    """A step of training on a batch, by Adam, whatever the run was trained by."""
    optimizer = make_optimizer(network.settings.model_copy(update={"optimizer": "adam"}), network.parameters())

    def step(batch: PairBatch) -> None:
        network.train()
        optimizer.zero_grad()
        network.loss(batch).mean.backward()
        clip_norm(network.parameters(), 5.0)
        optimizer.step()

    return step


def train_on(step: Callable[[Any], None], batches: Iterable[Any]) -> None:
    for batch in batches:
        step(batch)


def our_search(network: TranslatorNetwork, batch: PairBatch, steps: int = STEPS) -> Callable[[], list[list[int]]]:
    """A beam search of `steps` steps; the end token is banned, so that neither side has less to do. Weights are packed
    once, as for a file of many batches."""
    decoder = network.eval().search_decoder()

    def run() -> list[list[int]]:
        stepper = network.stepper(batch.source, batch.source_lengths, decoder)
        rules = [Ban([PAD, START, UNK, END])]
        beam = Beam(BEAM, length=Mean())
        hypotheses = search(
            stepper, batch.source.shape[1], beam, start=START, end=END, max_length=steps, constraints=rules
        )
        return [list(best.tokens) for [best] in hypotheses]

    return run


def joey_search(joey: Any, batch: PairBatch, steps: int = STEPS) -> Callable[[], list[list[int]]]:
    own = joey_batch(batch)  # the longest source comes first, so that sorting changes nothing
    return lambda: list(joey_translations(joey, [own], BEAM, steps, beam_alpha=0, min_output_length=steps))


# ---------------------------------------------------------------- random words


def make_batch(words: int, pairs: int = PAIRS, alike: bool = False, seed: int = 0) -> PairBatch:
    """A batch as it is drawn at random, as Joey NMT draws it, or of pairs that are `alike` in length, as ours is.

    Lengths are as in Multi30k's English and German: the logarithms have means 2.52 and 2.47, deviations 0.30 and 0.32
    and a correlation of 0.85. Longer sources come first, as Joey NMT wants them.
    """
    draw = np.random.default_rng(seed)
    covariance = [[0.30**2, 0.85 * 0.30 * 0.32], [0.85 * 0.30 * 0.32, 0.32**2]]
    many = 100 if alike else 1
    lengths = np.exp(draw.multivariate_normal([2.52, 2.47], covariance, pairs * many)).round().astype(int).clip(1)
    middle = np.argsort(lengths.max(1), kind="stable")[(many // 2) * pairs :][:pairs]
    lengths = lengths[middle]
    lengths = lengths[np.argsort(-lengths[:, 0], kind="stable")]
    source, target = (Column(draw.integers(4, words, n.sum()), n) for n in lengths.T)
    return collate_pairs(source, target)


def make_network(words: int, settings: Mapping[str, Any]) -> TranslatorNetwork:
    vocabulary = Vocabulary.from_tokens([f"w{k}" for k in range(words - 4)], "word")
    files = Path("source"), Path("target")
    return TranslatorNetwork(TranslateSettings(train=files, **settings), TranslateAssets(vocabulary, vocabulary))


def race_words(seconds: float) -> Iterator[dict[str, Any]]:
    """Target tokens a second in training, sentences a second in translation; best of several."""
    for name, (words, settings) in SETUPS.items():
        torch.manual_seed(0)
        ours = make_network(words, settings)
        joey = make_joey(ours)
        weights = {"joey weights": sum(p.numel() for p in joey.parameters()), "weights": ours.size}
        batch = make_batch(words)
        times = race({"joey": joey_search(joey, batch), "carousel": our_search(ours, batch)}, seconds, 3)
        rates = {side: PAIRS / time for side, time in times.items()}
        yield {"what": f"beam of {BEAM}, {name}", "unit": "sentences/s", **rates, "claimed": name == "plain"}
        for kind in ("mixed", "alike"):
            batches = [make_batch(words, alike=kind == "alike", seed=seed) for seed in range(BATCHES)]
            tokens = sum(batch.tokens for batch in batches)
            sides = {
                "joey": partial(train_on, joey_trainer(joey), [joey_batch(batch) for batch in batches]),
                "carousel": partial(train_on, our_trainer(ours), batches),
            }
            rates = {side: tokens / time for side, time in race(sides, seconds, 3).items()}
            yield {"what": f"training {name}, lengths {kind}", "unit": "target tokens/s", "tokens": tokens,
                   **rates, **weights, "claimed": (name, kind) == ("plain", "mixed")}  # fmt: skip


# ---------------------------------------------------------------- a run


def take_turns(contenders: Mapping[str, Callable[[], int]], seconds: float, least: int) -> dict[str, float]:
    """How much each does a second, all turns but the first together: a turn returns how much it has done."""
    for turn in contenders.values():
        turn()
    done, took = dict.fromkeys(contenders, 0), dict.fromkeys(contenders, 0.0)
    end = time.perf_counter() + seconds
    turns = 0
    while turns < least or time.perf_counter() < end:
        turns += 1
        for name, turn in contenders.items():
            start = time.perf_counter()
            done[name] += turn()
            took[name] += time.perf_counter() - start
    return {name: done[name] / took[name] for name in contenders}


def drawn(store: ExampleStore, order: np.ndarray) -> Iterator[PairBatch]:
    """The pairs of a store in this order, again and again."""
    while True:
        for at in range(0, len(order), PAIRS):
            chosen = order[at : at + PAIRS]
            yield collate_pairs(rows_of(store["tokens"], chosen), rows_of(store["targets"], chosen), chosen)


def again(batches: PairBatches) -> Iterator[PairBatch]:
    while True:
        yield from batches


def open_run(folder: Path) -> Translator:
    """The translator of a run, if Joey NMT can be the same."""
    run = Run(folder)
    task, settings = settings_of(run)
    if not isinstance(settings, TranslateSettings):
        raise RunError(f"{folder}: a run of train {task.name}; give one of train translate")
    try:
        need_like(settings)
    except ValueError as error:
        raise RunError(f"{folder}: {error}") from None
    if settings.dev is None:
        raise RunError(f"{folder}: it has no dev text to translate; give a run that was trained with --dev")
    for files in (settings.train, settings.dev):
        open_pairs(settings, files)  # a missing file is reported before the first race
    model: Translator = load_run(folder)
    return model


def race_run(ours: Translator, seconds: float) -> Iterator[dict[str, Any]]:
    """The same of a run: on its text, with its weights, over all turns."""
    joey = make_joey(ours.network)
    yield race_file(ours, joey, seconds)
    yield from race_text(ours, joey, seconds)


def race_file(ours: Translator, joey: Any, seconds: float) -> dict[str, Any]:
    """Sentences a second of the dev text; Joey NMT has them as ids already."""
    s = ours.settings
    lines = [pair.source for pair in open_pairs(s, s.dev)][:LINES]
    store = store_pairs(s, ours.assets, open_pairs(s, s.dev))
    batches = drawn(store, np.arange(len(lines)))
    own = [next(batches) for _ in range(0, len(lines), PAIRS)]
    outputs: dict[str, list[list[int]]] = {}

    def by_joey() -> int:
        outputs["joey"] = list(joey_translations(joey, map(joey_batch, own), BEAM, beam_alpha=1))
        return len(lines)

    def by_carousel() -> int:
        translations = ours.translate(
            lines, num_beams=BEAM, batch_size=PAIRS, length_normalization="gnmt", length_penalty=1.0
        )
        outputs["carousel"] = [[token for token in one.ids if token != END] for one in translations]
        return len(lines)

    rates = take_turns({"joey": by_joey, "carousel": by_carousel}, seconds, 2)
    alike = np.mean([a == b for a, b in zip(outputs["joey"], outputs["carousel"], strict=True)])
    return {"what": f"beam of {BEAM}, {len(lines)} lines", "unit": "sentences/s", **rates, "claimed": True,
            "same translations": float(alike)}  # fmt: skip


def race_text(ours: Translator, joey: Any, seconds: float) -> Iterator[dict[str, Any]]:
    """Target tokens a second of the training text, in the batches that each draws, and in those of Joey NMT."""
    s = ours.settings
    store = store_pairs(s, ours.assets, open_pairs(s, s.train), s.max_length)
    train_joey, train_ours = joey_trainer(joey), our_trainer(ours.network)
    mixed = np.random.default_rng(0).permutation(len(store))

    def turn(step: Callable[[Any], None], batches: Iterator[PairBatch], own: Callable[[PairBatch], Any]) -> int:
        chosen = [next(batches) for _ in range(4)]
        train_on(step, map(own, chosen))
        return sum(batch.tokens for batch in chosen)

    sides = {
        "joey": (train_joey, drawn(store, mixed), joey_batch),
        "carousel": (train_ours, again(PairBatches(store, sequences=PAIRS)), lambda batch: batch),
        "in its batches": (train_ours, drawn(store, mixed), lambda batch: batch),
    }
    rates = take_turns({name: lambda side=side: turn(*side) for name, side in sides.items()}, seconds, 2)  # type: ignore
    for batches, side in (("each draws", "carousel"), ("Joey NMT draws", "in its batches")):
        yield {"what": f"training, batches as {batches}", "unit": "target tokens/s", "joey": rates["joey"],
               "carousel": rates[side], "claimed": side == "carousel"}  # fmt: skip


# ---------------------------------------------------------------- the command


def claims(result: dict[str, Any]) -> list[dict[str, Any]]:
    """What the project holds itself to, of the network without input feeding."""
    ratios = [(row["what"], row["carousel"] / row["joey"]) for row in result["rows"] if row["claimed"]]
    return [
        {"what": f"{what}: ratio to Joey NMT", "found": ratio, "must": f"≥ {LEAST:g}", "holds": ratio >= LEAST}
        for what, ratio in ratios
    ]


def main(out: Path, seconds: float = 5.0, run: Path | None = None) -> dict[str, Any]:
    """Measure, print the table, write translate.json."""
    from rich.console import Console
    from rich.table import Table

    if not backend.available():
        raise CarouselError(f"bench translate: {backend.why_not()}")
    need_joey()
    rows = race_words(seconds) if run is None else race_run(open_run(run), seconds)
    result = measured(out / "translate.json", lambda: {"rows": list(rows)}, claims)
    table = Table(title=f"translation, batches of {PAIRS}, 2 threads")
    for column in ("", "Joey NMT", "carousel", "ratio"):
        table.add_column(column, justify="left" if not column else "right")
    for row in result["rows"]:
        rates = (f"{row[side]:,.1f}" if row[side] < 1000 else f"{row[side]:,.0f}" for side in ("joey", "carousel"))
        table.add_row(f"{row['what']}, {row['unit']}", *rates, f"{row['carousel'] / row['joey']:.2f}")
    console = Console()
    console.print(table)
    for row in result["rows"]:
        if "same translations" in row:
            console.print(f"{row['same translations']:.0%} of the translations are the same on both sides")
    print_claims(console, result["claims"])
    return result
