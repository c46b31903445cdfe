"""Prepare a large corpus: time, processor time, memory, progress, Ctrl-C; beside Hugging Face datasets + tokenizers.

    python evaluation/big_corpus.py FOLDER --tokens word bpe --megabytes 2000
    python evaluation/big_corpus.py FOLDER --tokens word bpe --megabytes 200 --hugging-face    (needs datasets)

The text is generated: words of syllables, whose frequencies follow Zipf's law (900,000 distinct), in lines of 20.
Delete FOLDER afterwards. Processor time is that of `carousel train` until the first step, less that of the same command
on a few lines (imports, network). Linux only: memory is read from /proc.
"""

import argparse
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

DISTINCT, LINE = 900_000, 20
SETTINGS = {
    "word": ["--tokens", "word", "--vocabulary-size", "50000", "--output", "adaptive", "--no-tied"],
    "bpe": ["--tokens", "bpe", "--vocabulary-size", "8000"],
}
COMMON = ["--layout", "sentences", "--embedding", "128", "--hidden", "128", "--batch-size", "64", "--no-baseline"]
TOKENS_PER_STEP = 64 * 35
CLOCK = os.sysconf("SC_CLK_TCK")


def make_text(path, megabytes, seed=0):
    """Write about so many megabytes."""
    draw = np.random.default_rng(seed)
    syllables = [a + b for a in "bcdfghjklmnprstvwz" for b in ("a", "e", "i", "o", "u", "an", "er", "is")]
    several = np.array(syllables, object)
    parts = [several]  # short words first, so that they are the frequent ones
    while sum(map(len, parts)) < DISTINCT:
        parts.append(np.add.outer(parts[-1], several).ravel())
    words = pa.array(np.concatenate(parts)[:DISTINCT])
    weights = 1 / np.arange(2, DISTINCT + 2)
    slots = np.repeat(np.arange(DISTINCT), np.maximum(1, weights / weights.sum() * (1 << 25)).astype(int))
    written = 0
    with path.open("wb") as file:
        while written < megabytes * 1e6:
            chosen = words.take(pa.array(slots[draw.integers(0, len(slots), LINE * 50_000)]))
            lines = pa.ListArray.from_arrays(np.arange(0, len(chosen) + 1, LINE, np.int32), chosen)
            written += file.write("\n".join(pc.binary_join(lines, " ").to_pylist()).encode() + b"\n")


def processor_time(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / CLOCK


def memory(pid):
    """The most memory so far, and what of it now is the process's own, in MB: the rest are pages of files."""
    status = Path(f"/proc/{pid}/status").read_text()
    return [int(re.search(rf"{name}:\s+(\d+)", status)[1]) / 1000 for name in ("VmHWM", "RssAnon")]


class Training:
    """`carousel train lm` on a text, watched from outside."""

    def __init__(self, folder, text, tokens):
        self.log, out = folder / "log", folder / "run"
        words = [
            str(text),
            "--dev",
            str(folder / "dev.txt"),
            "--out",
            str(out),
            "--force",
            "--cache",
            str(folder / "c"),
        ]
        command = [
            sys.executable,
            "-m",
            "carousel",
            "train",
            "lm",
            *words,
            *SETTINGS[tokens],
            *COMMON,
            "--threads",
            "1",
        ]
        shutil.rmtree(out, ignore_errors=True)
        self.begun = time.time()
        self.process = subprocess.Popen(
            command, stdout=self.log.open("w"), stderr=subprocess.STDOUT,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a background job may ignore it
        )  # fmt: skip
        self.own = 0.0

    def until(self, pattern, seconds=3600):
        """Wait for a line; seconds since the beginning, processor seconds, the most memory."""
        end = time.time() + seconds
        while time.time() < end and self.process.poll() is None:
            try:
                figures = time.time() - self.begun, processor_time(self.process.pid), memory(self.process.pid)
            except (OSError, TypeError):  # it has just ended
                continue
            self.own = max(self.own, figures[2][1])
            if re.search(pattern, self.log.read_text()):
                return figures[0], figures[1], figures[2][0]
            time.sleep(0.05)
        self.stop()
        raise SystemExit(f"no line {pattern!r}: {self.log.read_text()[-500:]}")

    def stop(self):
        """Ctrl-C; seconds until the process has ended."""
        begun = time.time()
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(120)
        except subprocess.TimeoutExpired:
            self.process.kill()
        return time.time() - begun


def prepare(folder, text, tokens, training=10):
    megabytes = text.stat().st_size / 1e6
    few = folder / "few.txt"
    few.write_text((folder / "dev.txt").read_text())
    start = Training(folder, few, tokens)
    _, processor, memory_before = start.until("per epoch")
    start.stop()

    run = Training(folder, text, tokens)
    first, *_ = run.until("MB|per epoch")
    seconds, spent, most = run.until("per epoch")
    own = run.own
    spent -= processor
    print(f"{tokens}: {megabytes:,.0f} MB prepared in {seconds / 60:.1f} min, {spent:.1f} s of processor time: "
          f"{megabytes / spent:.1f} MB per processor second; most memory {most:,.0f} MB, of it its own {own:,.0f} MB "
          f"({memory_before:,.0f} MB on a few lines); first line after {first:.1f} s", flush=True)  # fmt: skip
    time.sleep(training)
    run.until("per epoch")
    most = memory(run.process.pid)[0]
    ended = run.stop()
    step = int(re.search(r"step (\d+)", run.log.read_text())[1])
    rate = step * TOKENS_PER_STEP / (time.time() - run.begun - seconds - ended)
    print(f"{tokens}: trained with {rate:,.0f} tokens/s; most memory {most:,.0f} MB, its own {run.own:,.0f} MB; "
          f"Ctrl-C took {ended:.1f} s", flush=True)  # fmt: skip


def interrupt(folder, text, tokens, moments=(1, 5, 12)):
    """Ctrl-C at some moments of the preparation, by the seconds since its first line."""
    for moment in moments:
        for file in (folder / "c").glob(f"{text.stem}-*"):
            file.unlink()
        run = Training(folder, text, tokens)
        run.until("MB|per epoch")
        time.sleep(moment)
        line = run.log.read_text().splitlines()[-1]
        print(f"{tokens}: Ctrl-C {moment} s after the first line took {run.stop():.2f} s ({line})", flush=True)


def hugging_face(folder, text, tokens):
    """The same preparation with datasets and tokenizers, in this process."""
    os.environ.update(HF_HOME=str(folder / "hf"), TOKENIZERS_PARALLELISM="false", HF_HUB_OFFLINE="1")
    import datasets
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    datasets.disable_progress_bars()
    begun, before = time.time(), time.process_time()
    data = datasets.load_dataset("text", data_files=str(text), split="train")
    special = ["[PAD]", "[START]", "[END]", "[UNK]"]
    if tokens == "word":
        tokenizer = Tokenizer(models.WordLevel(unk_token="[UNK]"))
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        trainer = trainers.WordLevelTrainer(vocab_size=50_000, special_tokens=special, show_progress=False)
        sample = data
    else:
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = trainers.BpeTrainer(vocab_size=8000, special_tokens=special, show_progress=False,
                                      initial_alphabet=pre_tokenizers.ByteLevel.alphabet())  # fmt: skip
        sample = data.shard(max(1, text.stat().st_size // 16_000_000), 0, contiguous=False)
    tokenizer.train_from_iterator((batch["text"] for batch in sample.iter(1000)), trainer)

    def encode(batch):
        return {"ids": [one.ids for one in tokenizer.encode_batch(batch["text"], add_special_tokens=False)]}

    data.map(
        encode, batched=True, remove_columns="text", features=datasets.Features({"ids": [datasets.Value("uint16")]})
    )
    spent, megabytes = time.process_time() - before, text.stat().st_size / 1e6
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    print(f"{tokens}, Hugging Face: {megabytes:,.0f} MB in {(time.time() - begun) / 60:.1f} min, {spent:.1f} s of "
          f"processor time: {megabytes / spent:.1f} MB per processor second; most memory {most:,.0f} MB")  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tokens", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--megabytes", type=int, default=2000)
    parser.add_argument("--hugging-face", action="store_true")
    parser.add_argument("--interrupt", action="store_true")
    given = parser.parse_args()
    folder = given.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    text = folder / f"text-{given.megabytes}.txt"
    if not text.exists():
        make_text(folder / "part.txt", given.megabytes)
        (folder / "part.txt").rename(text)
        make_text(folder / "dev.txt", 1, seed=1)
    for tokens in given.tokens:
        (hugging_face if given.hugging_face else interrupt if given.interrupt else prepare)(folder, text, tokens)
