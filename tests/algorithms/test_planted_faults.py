"""A fault planted in one step of one rank of a family is found, and named."""

import pytest

from collalgo import ALGORITHMS, ScheduleError, recv_reduce, send, verify
from collalgo.schedule import Kind, Transfer, as_step


def planted(collective, name, size, faults):
    """The schedule of the table, with other steps for some ranks."""
    (row,) = (r for r in ALGORITHMS if (r.collective, r.name) == (collective, name))

    def faulty(group):
        steps = list(map(as_step, row.schedule(group)))
        return faults(group, steps) or steps

    verify(row.schedule, size=size, collective=collective)
    with pytest.raises(ScheduleError) as found:
        verify(faulty, size=size, collective=collective)
    return str(found.value), found.value.rank


def replaced(step, kind, /, **changes):
    return tuple(t._replace(**changes) if t.kind is kind else t for t in step)


def test_a_ring_that_sends_the_wrong_chunk():
    def faults(group, steps):
        if group.rank == 2:
            steps[1] = replaced(steps[1], Kind.SEND, chunks=group.chunk(3))

    message, rank = planted("allreduce", "ring", 5, faults)
    assert "step 1 of rank 3 expects chunk 0 of 5 from rank 2" in message
    assert "whose step 1 sends chunk 3 of 5" in message
    assert rank == 3


def test_a_tree_that_sends_before_it_has_received():
    def faults(group, steps):
        if group.rank == 4:
            steps[0], steps[1] = steps[1], steps[0]

    message, rank = planted("broadcast", "binomial", 8, faults)
    assert "step 0 of rank 4: send to 6" in message
    assert "sends data that rank 4 does not have" in message
    assert rank == 4


def test_a_bruck_that_forgets_to_receive():
    def faults(group, steps):
        if group.rank == 2:
            steps[1] = tuple(t for t in steps[1] if t.kind is Kind.SEND)

    message, rank = planted("allgather", "bruck", 6, faults)
    assert "step 1 of rank 4 sends data that rank 2 never takes" in message
    assert "chunks 4 to 5 of 6" in message
    assert rank == 4


def test_a_recursive_doubling_that_meets_the_same_peer_again():
    def faults(group, steps):
        if group.rank in (4, 5):
            steps.insert(1, steps[0])

    message, rank = planted("allreduce", "recursive_doubling", 8, faults)
    assert "step 1 of rank 4: recv_reduce from 5" in message
    assert "counts the contribution of rank 4 twice" in message
    assert rank == 4


def test_a_halving_that_overwrites_instead_of_adding():
    def faults(group, steps):
        if group.rank == 3:
            steps[2] = replaced(steps[2], Kind.RECV_REDUCE, kind=Kind.RECV)

    message, rank = planted("reduce_scatter", "recursive_halving", 8, faults)
    assert "rank 3 ends, after 3 steps, with chunk 3 made of" in message
    assert "ranks [0, 2, 4, 6] instead of ranks [0, 1, 2, 3, 4, 5, 6, 7]" in message
    assert rank == 3


def test_a_direct_sum_that_takes_more_from_one_peer():
    def faults(group, steps):
        if group.rank == 0:
            extra = recv_reduce(2, group.chunk(1))
            steps[0] = (*steps[0], extra)
        if group.rank == 2:
            steps[0] = (*steps[0], send(0, group.chunk(1)))

    message, rank = planted("allreduce", "two_shot", 4, faults)
    assert "step 0 of rank 0: recv_reduce from 2: chunk 0 of 4" in message
    assert "differs from data that another rank sends" in message
    assert rank == 0


def test_an_alltoall_that_swaps_the_wrong_block():
    def faults(group, steps):
        wrong = (group.block(0, 2),)
        if group.rank == 0:
            steps[0] = replaced(steps[0], Kind.SEND, chunks=wrong)
        if group.rank == 1:
            steps[0] = replaced(steps[0], Kind.RECV, chunks=wrong)

    message, rank = planted("alltoall", "pairwise", 4, faults)
    assert "rank 1 ends, after 3 steps, with chunk 1 made of" in message
    assert "of ranks [] instead of ranks [0]" in message
    assert rank == 1


def test_a_scan_that_forgets_a_distance():
    def faults(group, steps):
        if group.rank == 1:
            steps[2] = ()
        if group.rank == 5:
            steps[2] = ()

    message, rank = planted("scan", "recursive_doubling", 6, faults)
    assert "rank 5 ends, after 3 steps" in message
    assert "of ranks [2, 3, 4, 5] instead of ranks [0, 1, 2, 3, 4, 5]" in message
    assert rank == 5


def test_a_gather_that_hands_on_what_has_not_come():
    def faults(group, steps):
        if group.rank == 2:
            steps[0], steps[1] = steps[1], steps[0]

    message, rank = planted("gather", "binomial", 4, faults)
    assert "step 0 of rank 2: send to 0: chunks 2 to 3 of 4" in message
    assert "sends data that rank 2 does not have (in block 3)" in message
    assert rank == 2


def test_a_barrier_without_its_last_round():
    def faults(group, steps):
        del steps[-1]

    message, rank = planted("barrier", "dissemination", 8, faults)
    assert "rank 0 ends without a message path from ranks [1, 2, 3, 4]" in message
    assert rank == 0


def test_a_circulant_that_takes_its_steps_in_another_order():
    def faults(group, steps):
        if group.rank == 3:
            steps[1], steps[2] = steps[2], steps[1]

    message, rank = planted("allgather", "circulant", 8, faults)
    assert "step 1 of rank 3: send to 7: chunks 3 to 6 of 8" in message
    assert "sends data that rank 3 does not have (in block 5)" in message
    assert rank == 3


def test_a_pipeline_that_is_ahead_of_its_data():
    def faults(group, steps):
        early = group.shares(8)[5].whole
        if group.rank == 1:
            steps[2] = (*steps[2], Transfer(Kind.SEND, 2, early, lane=5))
        if group.rank == 2:
            steps[2] = (*steps[2], Transfer(Kind.RECV, 1, early, lane=5))

    message, rank = planted("broadcast", "pipeline", 4, faults)
    assert "step 2 of rank 1: send to 2: chunk" in message
    assert "on lane 5 sends data that rank 1 does not have" in message
    assert rank == 1


def test_a_neighbor_exchange_in_which_everyone_receives_first():
    def faults(group, steps):
        return [tuple(t for t in steps[0] if t.kind is kind) for kind in Kind][1::-1]

    message, _ = planted("allgather", "neighbor_exchange", 2, faults)
    assert "wait for each other in a cycle" in message
    assert "step 0 of rank 0 ((recv from 1: chunk 1 of 2,)) waits for rank 1" in message


def test_a_one_shot_in_which_two_overwrite_each_other():
    def faults(group, steps):
        if group.rank == 1:
            steps[0] = replaced(steps[0], Kind.RECV_REDUCE, kind=Kind.RECV)

    message, rank = planted("allreduce", "one_shot", 3, faults)
    assert "step 0 of rank 1: recv from 2: chunks 0 to 2 of 3" in message
    assert "is one of two that overwrite it" in message
    assert rank == 1


def test_a_spare_buffer_that_was_never_filled():
    def faults(group, steps):
        if group.rank == 0:
            steps[0] = tuple(t for t in steps[0] if t.peer != group.me)

    message, rank = planted("exscan", "123_doubling", 5, faults)
    assert "step 2 of rank 0: send to 2: chunks 0 to 4 of 5 of spare 1" in message
    assert "sends data that rank 0 does not have" in message
    assert rank == 0
