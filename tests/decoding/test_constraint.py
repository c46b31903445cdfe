"""A constraint from a user's own file: loaded, or one line that names the file and what is wrong."""

import pytest

from carousel.decoding import Constraint, load_constraint
from carousel.errors import ArgumentError

OWN = """
from carousel.decoding import Constraint

class Rhyme(Constraint):
    def apply(self, log_probs, state):
        return log_probs

class Needy(Rhyme):
    def __init__(self, table):
        self.table = table

made, other = Rhyme(), 3
"""


@pytest.mark.parametrize("name", ["Rhyme", "made"])
def test_a_class_or_an_object_is_loaded(tmp_path, name):
    (tmp_path / "own.py").write_text(OWN)
    constraint = load_constraint(f"{tmp_path / 'own.py'}:{name}")
    assert isinstance(constraint, Constraint) and type(constraint).__name__ == "Rhyme"


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        (OWN, "Rime", "own.py: it defines no Rime; did you mean Rhyme?"),
        (OWN, "zzz", "own.py: it defines no zzz"),
        (OWN, "Needy", "own.py:Needy: it cannot be made without arguments (missing a required argument: 'table')"),
        (OWN, "other", "own.py:other: not a carousel.decoding.Constraint, but of type int"),
        ("import no_such_module", "A", "own.py: it cannot be imported (ModuleNotFoundError: No module named"),
        ("def (", "A", "own.py: it cannot be imported (SyntaxError: "),
        ("1 / 0", "A", "own.py: it cannot be imported (ZeroDivisionError: division by zero)"),
    ],
)
def test_what_is_wrong_with_a_file_is_an_argument_error(tmp_path, monkeypatch, text, name, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(text)
    with pytest.raises(ArgumentError) as caught:
        load_constraint(f"own.py:{name}")
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("place", ["own.py", "own:Rhyme", "own.py:", ":Rhyme"])
def test_a_place_that_cannot_be_read(place):
    with pytest.raises(ArgumentError, match=r"a constraint is named FILE\.py:CLASS"):
        load_constraint(place)
