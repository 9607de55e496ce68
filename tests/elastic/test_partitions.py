"""Networks that are cut in two: at most one side goes on, and all come back."""

import signal
from contextlib import closing

import pytest
from collalgo.bench.disturbances.etcd import QUICK
from collalgo.bench.disturbances.partitions import (
    TWO_AND_TWO,
    goes_on,
    partition,
    three_against_two,
    two_against_two,
)

from tests.support.clusters import needs_root, skip_without_etcd

pytestmark = [needs_root, pytest.mark.deadline]


@pytest.fixture(autouse=True)
def _etcd():
    skip_without_etcd()


def test_the_side_with_most_stores_goes_on_and_the_other_commits_nothing():
    with closing(three_against_two(QUICK)) as trials:
        assert len(next(trials)) == 2


@pytest.mark.slow
def test_of_two_halves_that_with_most_stores_goes_on():
    with closing(two_against_two(QUICK)) as trials:
        assert len(next(trials)) == 2


@pytest.mark.slow
def test_no_half_goes_on_if_none_has_most_stores():
    with partition(TWO_AND_TWO, least=2, stores=4, options=QUICK) as job:
        before = job.epoch
        job.cut()
        assert not any(goes_on(each, 2, before, 2.0) for each in job.members)
        job.heal()
        for each in job.members:
            each.process.send_signal(signal.SIGUSR1)  # nobody was lost meanwhile
        assert {each.size for each in job.joined(job.members, 4)} == {4}
