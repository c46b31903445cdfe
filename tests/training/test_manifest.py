"""Damage to the files of a run is noticed."""

import hashlib
import json
import shutil

import pytest
import torch

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
    write_manifest(tmp_path)
    known = json.loads((tmp_path / NAME).read_text())
    assert known == {
        name: hashlib.blake2b(name.encode(), digest_size=16).hexdigest() for name in ("a.json", "deep/b.txt")
    }
    check_manifest(tmp_path)
    (tmp_path / "new.txt").write_text("written later")
    (tmp_path / "a.json").unlink()  # what reads it says that it is missing
    check_manifest(tmp_path)
    (tmp_path / "deep/b.txt").write_text("other")
    with pytest.raises(RunError, match=r"b\.txt: damaged or changed"):
        check_manifest(tmp_path)


@pytest.mark.parametrize(("text", "said"), [(None, "missing"), ("{", "damaged"), ("[]", "damaged .a list instead of")])
def test_a_manifest_that_is_none(tmp_path, text, said):
    if text is not None:
        (tmp_path / NAME).write_text(text)
    with pytest.raises(RunError, match=rf"manifest\.json: {said}"):
        check_manifest(tmp_path)


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
