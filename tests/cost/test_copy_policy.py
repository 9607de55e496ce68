"""The copy policy for long messages on a host, by its profile."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from collalgo.cost.copy_policy import LONG, SOONER, CopyPolicy
from collalgo.cost.host_profile import HostProfile
from collalgo.schedule.collective import COLLECTIVES

KIB, MIB = 1 << 10, 1 << 20


def copy_policy(collective, size=2, fetch=1.0, cores=2):
    """A policy on a host whose kernel takes ``fetch`` times as long as two copies."""
    profile = HostProfile(
        latency=1e-7,
        switch=1e-6,
        message=1e-8,
        copy=1e-10,
        reduce=1e-10,
        cores=cores,
        exchange=1e-10,
        fetch=fetch * 1e-10,
    )
    return CopyPolicy(collective, size, profile)


@pytest.mark.parametrize("collective", ["allgather", "alltoall"])
@pytest.mark.parametrize(
    ("fetch", "first"),
    [(0.9, 2 * LONG), (SOONER - 0.1, 128 * KIB), (SOONER + 0.1, 4 * MIB), (9, 4 * MIB)],
)
def test_the_kernel_exchanges_what_it_copies_faster(collective, fetch, first):
    """The profile is of short arrays; longer ones favour the kernel."""
    sizes = np.array([2 * LONG, 128 * KIB, 1 * MIB, 2 * MIB, 4 * MIB, 64 * MIB])
    by_kernel = copy_policy(collective, fetch=fetch).is_exchanged_by_kernel(sizes)
    assert by_kernel.tolist() == (sizes >= first).tolist()


def test_nothing_else_is_exchanged_by_the_kernel():
    for collective in ("allreduce", "broadcast", "reduce_scatter", "gather"):
        assert not copy_policy(collective, fetch=0.1).is_exchanged_by_kernel(64 * MIB)


@pytest.mark.parametrize("collective", ["broadcast", "gather", "scatter"])
def test_near_a_tie_the_kernel_copies_the_middle_messages_of_a_root(collective):
    """So the noise of a profile does not choose."""
    blocks = 1 if collective == "broadcast" else 2
    sizes = blocks * np.array([32 * KIB, 128 * KIB, 256 * KIB, 2 * MIB])
    for fetch in (0.95, 1.05):
        policy = copy_policy(collective, fetch=fetch)
        by_kernel = policy.is_rooted_copy_by_kernel(sizes)
        assert by_kernel.tolist() == [False, True, True, False]


def test_ranks_that_share_a_core_find_staged_data_in_its_cache():
    sizes = np.array([64 * KIB, 128 * KIB, 2 * MIB, 32 * MIB])
    for fetch, first in ((SOONER - 0.1, 128 * KIB), (SOONER + 0.1, 32 * MIB)):
        by_kernel = copy_policy("alltoall", 4, fetch).is_exchanged_by_kernel(sizes)
        assert by_kernel.tolist() == (sizes >= first).tolist()


def test_long_results_on_shared_cores_are_written_in_order():
    sizes = np.array([64 * KIB, 512 * KIB, 1 * MIB, 32 * MIB])
    abreast = copy_policy("allreduce", 4).is_interleaved(sizes)
    assert abreast.tolist() == [True, True, False, False]
    assert copy_policy("allreduce", 4, cores=4).is_interleaved(sizes).all()


def test_few_ranks_that_share_cores_allgather_by_the_kernel():
    sizes = np.array([128 * KIB, 256 * KIB, 16 * MIB])
    by_kernel = copy_policy("allgather", 4, SOONER - 0.1).is_exchanged_by_kernel(sizes)
    assert by_kernel.tolist() == [False, True, True]
    for size, fetch, cores in ((8, 0.5, 2), (4, SOONER + 0.1, 2), (4, 0.5, 4)):
        policy = copy_policy("allgather", size, fetch, cores)
        assert not policy.is_exchanged_by_kernel(64 * MIB)


@pytest.mark.parametrize(("collective", "first"), [("gather", 256), ("scatter", 4096)])
def test_a_root_of_many_ranks_that_share_cores_uses_the_kernel(collective, first):
    sizes = np.array([128, 256, 2048, 4096, 65536]) * KIB
    policy = copy_policy(collective, 4, SOONER - 0.1)
    assert policy.held(4096 * KIB) == policy.profile.cache
    by_kernel = policy.is_rooted_copy_by_kernel(sizes)
    assert by_kernel.tolist() == (sizes >= first * KIB).tolist()
    for other in (
        copy_policy(collective, 4, SOONER + 0.1),
        copy_policy("broadcast", 4, 0.5),
    ):
        assert not np.any(other.is_rooted_copy_by_kernel(sizes))


def test_the_kernel_does_not_copy_short_messages_of_a_long_scatter():
    sizes = np.array([256 * KIB, 64 * LONG - 64, 64 * LONG])
    policy = copy_policy("scatter", 64, 0.5)
    assert np.all(policy.held(sizes) >= policy.profile.cache)
    assert policy.is_rooted_copy_by_kernel(sizes).tolist() == [False, False, True]


@given(
    collective=st.sampled_from(sorted(COLLECTIVES)),
    size=st.integers(1, 70),
    fetch=st.floats(0.5, 2),
    cores=st.sampled_from([1, 2, 8, 64]),
    cache=st.integers(1 << 18, 1 << 28),
    nbytes=st.integers(0, 1 << 40),
)
def test_the_method_changes_at_the_borders_only(
    collective, size, fetch, cores, cache, nbytes
):
    policy = copy_policy(collective, size, fetch, cores)
    policy = policy._replace(profile=policy.profile._replace(cache=cache))
    borders = policy.borders
    assert borders[0] == 0
    for one in (nbytes, *(max(border - 1, 0) for border in borders)):
        assert policy.by_size().at(one)[0] == policy.method(one)
