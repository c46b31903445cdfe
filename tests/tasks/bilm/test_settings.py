"""Settings that cannot be."""

import pytest

from carousel.errors import SettingsError

WRONG = {
    "too few units": ({"hidden": 4}, "hidden: 4 units are fewer than embedding, 6; give at least as many"),
    "a cell that does not project": (
        {"hidden": 9, "cell": "gru"}, "hidden: the cell gru does not project; give hidden=6, the size of the embedding"
    ),
    "an option of other tasks": ({"bidirectional": True}, "bidirectional: there is no such key"),
}  # fmt: skip


@pytest.mark.parametrize(("given", "told"), WRONG.values(), ids=WRONG)
def test_settings_that_cannot_be(settings, given, told):
    with pytest.raises(SettingsError) as error:
        settings(**given)
    assert str(error.value).startswith(told)
