"""Numbers in memory, as a series that the task reads again."""

import numpy as np
import pytest

from carousel.errors import CarouselError
from carousel.tasks.forecast.task import Forecast


@pytest.mark.parametrize("values", [[1.0, 2.5, -3.0], [[1.0, 2.0], [2.5, 0.5], [-3.0, 4.0]]])
def test_rows_are_read_again(tmp_path, values):
    path = Forecast.write_data(np.array(values), tmp_path / "train", {})
    rows = np.genfromtxt(path, delimiter=",", skip_header=1).reshape(3, -1)
    np.testing.assert_array_equal(rows, np.array(values).reshape(3, -1))


def test_what_is_no_series(tmp_path):
    with pytest.raises(CarouselError, match="data"):
        Forecast.write_data("text", tmp_path / "train", {})
