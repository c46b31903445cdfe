"""Damage to the files of a run is noticed."""

import hashlib
import json
import shutil

import pytest
import torch
import yaml

import carousel
from carousel.errors import RunError
from carousel.tasks.runs import load_run
from carousel.training import Run
from carousel.training.manifest import NAME, check_manifest, weights_digest, write_manifest


def broken(finished, tmp_path, name, data):
    run = Run(shutil.copytree(finished.folder, tmp_path / "run"))
    if data is None:
        (run.folder / name).unlink()
    else:
        (run.folder / name).write_bytes(data)
    return run


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
@pytest.mark.parametrize("place", range(12))
def test_a_flipped_bit_is_noticed(finished, tmp_path, name, place):
    data = bytearray((finished.folder / name).read_bytes())
    data[len(data) * place // 12 + place] ^= 1 << place % 8
    broken(finished, tmp_path, name, bytes(data))
    with pytest.raises(RunError, match=name) as caught:
        load_run(tmp_path / "run")
    assert "\n" not in str(caught.value)


def test_a_changed_type_in_the_weights_is_noticed(finished, tmp_path):
    data = finished.weights.read_bytes()
    broken(finished, tmp_path, "model.safetensors", data.replace(b'"F32"', b'"I32"', 1))
    with pytest.raises(RunError, match=r"model\.safetensors: damaged"):
        load_run(tmp_path / "run")


def test_every_file_below_is_recorded(tmp_path):
    (tmp_path / "deep").mkdir()
    for name in ("a.json", "deep/b.txt"):
        (tmp_path / name).write_text(name)
    write_manifest(tmp_path, {"hidden": 8})
    known = json.loads((tmp_path / NAME).read_text())
    hashes = {name: hashlib.blake2b(name.encode(), digest_size=16).hexdigest() for name in ("a.json", "deep/b.txt")}
    assert known == {"config.yaml": {"hidden": 8}, **hashes}
    (tmp_path / "new.txt").write_text("written later")
    check_manifest(tmp_path, {"hidden": 8})
    check_manifest(tmp_path, {"hidden": 8, "new_key": 1})  # of a later version
    (tmp_path / "deep/b.txt").write_text("other")
    with pytest.raises(RunError, match=r"b\.txt: damaged or changed"):
        check_manifest(tmp_path, {})
    (tmp_path / "a.json").unlink()
    with pytest.raises(RunError, match=r"a\.json: missing; copy the whole run directory, or train again"):
        check_manifest(tmp_path, {})


@pytest.mark.parametrize(
    "before, after, said",
    [
        ("\nhidden: 6 ", "\nhidden: 9 ", "hidden is 9, but the run was trained with 6; set it back"),
        ("\ntokens: character ", "\ntokens: word ", "tokens is word, but the run was trained with character; "),
        ("\nlr: ", "\n# lr: ", "lr is 0.004, but the run was trained with 0.02; "),
    ],
    ids=["a size", "a choice", "left out"],
)
def test_a_setting_that_was_changed_by_hand_is_noticed(finished, tmp_path, before, after, said):
    config = finished.config.read_text()
    assert before in config
    broken(finished, tmp_path, "config.yaml", config.replace(before, after).encode())
    for use in (load_run, lambda run: carousel.train("lm", out=run, resume=True, epochs=9, quiet=True)):
        with pytest.raises(RunError, match=rf"config\.yaml: {said}"):
            use(tmp_path / "run")


def test_what_may_be_edited(finished, tmp_path):
    """Paths, as of files that were moved, threads, and the form of the file."""
    values = yaml.safe_load(finished.config.read_text())
    moved = {"train": "/elsewhere/poems.txt", "dev": None, "cache": str(tmp_path), "threads": 7, "log_steps": 3}
    broken(finished, tmp_path, "config.yaml", yaml.safe_dump({**values, **moved}, explicit_end=True).encode())
    assert load_run(tmp_path / "run").settings.threads == 7


@pytest.mark.parametrize(("text", "said"), [(None, "missing"), ("{", "damaged"), ("[]", "damaged .a list instead of")])
def test_a_manifest_that_is_none(tmp_path, text, said):
    if text is not None:
        (tmp_path / NAME).write_text(text)
    with pytest.raises(RunError, match=rf"manifest\.json: {said}"):
        check_manifest(tmp_path, {})


def test_the_digest_of_weights_sees_names_types_shapes_and_bits():
    one = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.zeros(2)}
    same = {"b": torch.zeros(2), "a": torch.arange(6.0).reshape(3, 2).reshape(2, 3)}
    assert weights_digest(one) == weights_digest(same)
    others = [
        {**one, "a": one["a"].reshape(3, 2)},
        {**one, "a": one["a"].double()},
        {**one, "a": one["a"].view(torch.int32)},
        {**one, "b": torch.tensor([0.0, -0.0])},
        {"a": one["a"], "c": one["b"]},
        {},
    ]
    digests = [weights_digest(other) for other in (one, *others)]
    assert len({*digests}) == len(digests)
