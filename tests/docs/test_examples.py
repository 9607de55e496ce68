"""The real workload gives the same training on any number of ranks."""

import importlib.util
import sys
from fractions import Fraction

import numpy as np
import pytest

from collalgo import threads, verify
from tests.support.paths import ROOT

EXAMPLES = ROOT / "examples"


def example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def digits():
    return example("digits")


def test_training_on_digits_does_not_depend_on_the_number_of_ranks(digits):
    alone, accuracy = threads(digits.train, 1)[0]
    assert accuracy > 0.95
    assert alone[-1] < alone[0] / 5
    for size in (2, 3):
        for losses, same in threads(digits.train, size):
            np.testing.assert_allclose(losses, alone, rtol=1e-9)
            assert same == accuracy


def test_elastic_training_on_digits_has_the_same_bits_for_any_members(
    digits, monkeypatch
):
    monkeypatch.setitem(sys.modules, "digits", digits)
    training = example("elastic_digits")

    def on_each_rank(comm):
        state = training.elastic.State(
            weights=digits.Network.random(64, 10).parameters,
            batches=training.elastic.Sampler(1797 - training.TESTED, seed=1),
            curve=[],
        )
        _, accuracy = training.train(state, [], 2, comm=comm)
        assert [size for _, size in state.curve] == [comm.size] * 2
        return accuracy, state.weights.tobytes(), state.curve[-1][0]

    ((accuracy, weights, loss),) = threads(on_each_rank, 1)
    assert accuracy > 0.8
    assert set(threads(on_each_rank, 3)) == {(accuracy, weights, loss)}


def test_the_algorithm_from_scratch_is_right():
    module = example("own_algorithm")
    for size in (2, 4, 6, 12):
        proof = verify("mirrored_pairs", size=size)
        assert proof.consistent
        assert proof.volume == 2 - Fraction(2, size)
        assert all(threads(module.on_each_rank, size))
