"""The communicators of a host, and of one local rank on all hosts."""

import numpy as np
import pytest

import collalgo
from collalgo.comm.host_groups import cross_ranks, local_ranks
from collalgo.launch.hosts import positions_by_host


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 8, 12, 16, 17, 33])
@pytest.mark.parametrize("slots", [1, 2, 3, 8])
def test_each_rank_is_in_one_group_of_each_kind(size, slots):
    hosts = [rank // slots for rank in range(size)]
    for rank in range(size):
        local, cross = local_ranks(hosts, rank), cross_ranks(hosts, rank)
        assert set(local) & set(cross) == {rank}
        assert local[rank % slots] == rank
        assert cross[hosts[rank]] == rank
        assert {hosts[each] for each in local} == {hosts[rank]}
        assert len({hosts[each] for each in cross}) == len(cross)


@pytest.mark.parametrize("counts", [[3], [3, 1, 2], [1, 2, 3, 4], [5, 5], [1] * 17])
def test_they_agree_with_the_variables_of_a_launcher(counts):
    hosts = [host for host, count in enumerate(counts) for _ in range(count)]
    for p in positions_by_host(counts):
        local, cross = local_ranks(hosts, p.rank), cross_ranks(hosts, p.rank)
        assert (local.index(p.rank), len(local)) == (p.local_rank, p.local_size)
        assert (cross.index(p.rank), len(cross)) == (p.cross_rank, p.cross_size)


def test_hosts_that_alternate_keep_the_order_of_ranks():
    assert local_ranks([0, 1, 0, 1, 0], 2) == (0, 2, 4)
    assert cross_ranks([0, 1, 0, 1, 0], 4) == (4,)
    assert cross_ranks([0, 1, 0, 1, 0], 3) == (2, 3)


def test_they_are_made_once_and_again_after_they_were_closed():
    def member(comm):
        local, cross = comm.local, comm.cross
        assert (local.rank, local.size) == (comm.rank, comm.size)
        assert cross.size == 1
        assert comm.local is local
        local.close()
        again = comm.local
        return again is not local and int(again.allreduce(np.ones(1))[0])

    assert collalgo.threads(member, size=3) == [3, 3, 3]
