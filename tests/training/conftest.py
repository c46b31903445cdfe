"""A run with everything in it."""

import pytest
from helpers.tiny import fit, language


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """A run with everything, its report too."""
    folder = tmp_path_factory.mktemp("finished")
    return fit(language(folder, epochs=2), folder / "run", report=True, command=["carousel", "train", "lm", "a b"])
