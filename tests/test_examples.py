"""The real workload gives the same training on any number of ranks."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from collalgo import threads

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture(scope="module")
def digits():
    pytest.importorskip("sklearn")
    spec = importlib.util.spec_from_file_location("digits", EXAMPLES / "digits.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_training_on_digits_does_not_depend_on_the_number_of_ranks(digits):
    alone, accuracy = threads(digits.train, 1)[0]
    assert accuracy > 0.95
    assert alone[-1] < alone[0] / 5
    for size in (2, 3, 4):
        for losses, same in threads(digits.train, size):
            np.testing.assert_allclose(losses, alone, rtol=1e-9)
            assert same == accuracy
