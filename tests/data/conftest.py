import pytest


@pytest.fixture
def text_file(tmp_path):
    """Write text to a file and return its path."""

    def write(text, name="text.txt"):
        path = tmp_path / name
        path.write_text(text, "utf-8")
        return path

    return write
