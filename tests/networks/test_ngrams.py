"""The linear model of n-grams: a damaged file is one line."""

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from carousel.errors import DataError
from carousel.networks.ngrams import NGramClassifier


def test_a_damaged_file_is_one_line(tmp_path):
    file = tmp_path / "ngrams.safetensors"
    made = NGramClassifier(["a", "b"], np.ones(2, np.float32), torch.ones(3, 2), torch.zeros(3))
    made.save(file)
    assert NGramClassifier.load(file).names == ["a", "b"]
    whole = file.read_bytes()
    for data in (b"", whole[:-1], whole.replace(b'"idf"', b'"ifd"'), whole[:8] + b"x" + whole[9:]):
        file.write_bytes(data)
        with pytest.raises(DataError, match=r"ngrams\.safetensors: damaged .*; copy it again"):
            NGramClassifier.load(file)
    save_file({"idf": np.ones(2), "weight": np.ones((3, 2)), "bias": np.ones(3), "names": np.zeros(1, np.uint8)}, file)
    with pytest.raises(DataError, match="1 n-grams"):
        NGramClassifier.load(file)
