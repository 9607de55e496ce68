"""Transfers are grouped by their keys."""

from itertools import pairwise

import numpy as np
import pytest

from collalgo._kernels.synthesis.sorting import grouped


@pytest.mark.parametrize("keys", [0, 1, 2, 7, 33])
@pytest.mark.parametrize("length", [0, 1, 5, 200])
def test_the_places_of_each_key_are_in_order(length, keys):
    rng = np.random.default_rng([length, keys])
    given = rng.integers(-1, keys, length) if keys else np.full(length, -1)
    first, places = grouped(given, keys)
    found = [places[a:b].tolist() for a, b in pairwise(first)]
    assert found == [np.flatnonzero(given == key).tolist() for key in range(keys)]
