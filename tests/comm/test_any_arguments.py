"""Calls with random arguments: they work, or an error of ours says why not."""

import random
import re
from contextlib import suppress

import numpy as np
import pytest

from collalgo import BootstrapError, CollectiveTimeout, MismatchError, threads
from tests.support.any_arguments import ALLOWED, METHODS, arguments

#: Calls that need other arrays or counts on some ranks than on others. Their mismatch
#: may be found in a later call: ``broadcast(x, like={})`` moves nothing from the root.
UNLIKE = re.compile("(persistent_)?(broadcast|reduce|gather|scatter)|.*v(_async)?$")

#: Errors after which the ranks of a world, if it has several, may be out of step.
LAST = (MismatchError, CollectiveTimeout, BootstrapError)


#: What an operation of the user may raise: ``numpy.add`` of long integers of Python.
OF_OPERATION = {"reduce_objects": (OverflowError,)}


def failed_call(error, name):
    """The call that failed: by a mismatch maybe an earlier one."""
    return (isinstance(error, MismatchError) and error.collective) or name


def calls(comm, seed, number):
    """Make random calls; what came of each, up to the first that ends the world."""
    draw, outcomes = random.Random(seed), []
    for _ in range(number):
        name = draw.choice(METHODS)
        drawn = arguments(getattr(comm, name), draw)
        try:
            made = getattr(comm, name)(**drawn)
            if name.startswith("persistent"):
                made = made()
            if hasattr(made, "wait"):
                made.wait(5)
            outcomes.append((name, "done"))
        except (*ALLOWED, *OF_OPERATION.get(name, ())) as error:
            assert str(error), (name, drawn)
            outcomes.append((failed_call(error, name), type(error).__name__))
            if isinstance(error, LAST) and comm.size > 1:
                return outcomes
    with suppress(*LAST):
        assert comm.allreduce(np.ones(2)).tolist() == [comm.size] * 2
    return outcomes


def number_done(outcomes):
    return sum(outcome == "done" for _, outcome in outcomes)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("number", [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_one_rank(seed, number):
    (outcomes,) = threads(lambda comm: calls(comm, seed, number), 1, timeout=5)
    assert len(outcomes) == number
    assert number_done(outcomes) > number / 50


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("worlds", [5, pytest.param(300, marks=pytest.mark.slow)])
def test_three_ranks_that_pass_the_same(seed, worlds):
    done = 0
    for world in range(worlds):
        draws = f"{seed} {world}"
        each = threads(lambda comm, draws=draws: calls(comm, draws, 40), 3, timeout=5)
        for outcomes in zip(*each, strict=False):
            if len(set(outcomes)) > 1:
                assert any(UNLIKE.match(name) for name, _ in outcomes), outcomes
                break
        done += sum(map(number_done, each))
    assert done
