"""The proof finds what is wrong, and says where."""

from fractions import Fraction

import pytest

from collalgo import (
    AlgorithmNotApplicable,
    ScheduleError,
    recv,
    recv_reduce,
    send,
    together,
    verify,
)
from collalgo.algorithms import ring


def test_a_correct_schedule_gets_its_figures():
    proof = verify("ring", size=5, collective="allreduce")
    assert (proof.steps, proof.volume, proof.links) == (8, Fraction(8, 5), 5)
    assert proof.consistent


def wrong_chunk(group):
    """The ring, but the second round is off by one."""
    for step in range(1, group.size):
        yield (
            send(group.right, group.chunk(group.rank - step - 1)),
            recv_reduce(group.left, group.chunk(group.rank - step - 2)),
        )


def test_a_wrong_chunk_is_found():
    with pytest.raises(ScheduleError, match=r"rank 0 ends.*chunk 0.*instead of") as e:
        verify(wrong_chunk, size=4, collective="reduce_scatter")
    assert e.value.rank == 0


def test_sender_and_receiver_that_mean_different_chunks_are_found():
    def schedule(group):
        if group.rank == 0:
            yield send(1, group.chunk(0))
        else:
            yield recv(0, group.chunk(1))

    with pytest.raises(
        ScheduleError,
        match=r"step 0 of rank 1 expects chunk 1 of 2 from rank 0, whose step 0 sends "
        r"chunk 0 of 2",
    ):
        verify(schedule, size=2, collective="broadcast")


def test_a_missing_phase_is_found():
    with pytest.raises(ScheduleError, match=r"rank 0 ends, after 2 steps, with chunk"):
        verify(ring.reduce_scatter, size=3, collective="allreduce")


def test_a_wrong_chunk_is_named_as_a_schedule_names_chunks():
    def allreduce(group):
        yield (
            send(group.right, group.chunks(0, 4)),
            recv(group.left, group.chunks(0, 4)),
        )

    with pytest.raises(
        ScheduleError,
        match=r"after 1 step, with chunks 0 to 3 of 4 made of .* chunks 0 to 3 of 4",
    ):
        verify(allreduce, size=4)


def test_an_unmatched_message_names_the_number_of_ranks():
    def fly(group):
        yield from butterfly_step(group, 1)
        yield from butterfly_step(group, 2)

    def butterfly_step(group, distance):
        peer = group.rank ^ distance
        if peer < group.size:
            yield send(peer, group.whole), recv_reduce(peer, group.whole)
        else:
            yield recv_reduce(0, group.whole)

    with pytest.raises(ScheduleError, match=r"fly: allreduce of 3 ranks: step"):
        verify(fly, size=3, collective="allreduce")


def test_a_contribution_that_counts_twice_is_found():
    def allreduce(group):
        for _ in range(2):
            yield (
                send(group.right, group.whole),
                recv_reduce(group.left, group.whole),
            )

    with pytest.raises(
        ScheduleError, match=r"step 1 of rank 0.*recv_reduce from 1.*rank 0 twice"
    ):
        verify(allreduce, size=2)


def test_an_unmatched_send_is_found():
    def allgather(group):
        yield from ring.allgather(group)
        if group.rank == 1:
            yield send(group.right, group.chunk(0))

    with pytest.raises(
        ScheduleError,
        match=r"step 2 of rank 1 sends data that rank 2 never takes",
    ):
        verify(allgather, size=3)


def test_an_unmatched_receive_is_found():
    def allgather(group):
        yield from ring.allgather(group)
        if group.rank == 1:
            yield recv(group.right, group.chunk(0))

    with pytest.raises(
        ScheduleError, match=r"step 2 of rank 1 awaits data that rank 2 never sends"
    ):
        verify(allgather, size=3)


def test_a_cyclic_wait_is_found():
    def allgather(group):
        for step in range(group.size - 1):
            yield recv(group.left, group.chunk(group.rank - step - 1))
            yield send(group.right, group.chunk(group.rank - step))

    with pytest.raises(
        ScheduleError, match=r"in a cycle: step 0 of rank 0.*waits for rank 2; "
    ):
        verify(allgather, size=3)


def test_a_send_that_waits_for_its_receive_needs_no_buffer_to_be_refused():
    def allgather(group):
        yield send(group.right, group.chunk(group.rank))
        yield recv(group.left, group.chunk(group.rank - 1))

    with pytest.raises(ScheduleError, match="cycle"):
        verify(allgather, size=2)


def test_data_that_a_rank_does_not_have_cannot_be_sent():
    def broadcast(group):
        if group.rank == 1:
            yield send(group.peer(0), group.whole)
        else:
            yield recv(group.peer(1), group.whole)

    with pytest.raises(ScheduleError, match=r"step 0 of rank 1.*does not have"):
        verify(broadcast, size=2)


def test_two_receives_that_overwrite_each_other_are_found():
    def allreduce(group):
        if group.rank < 2:
            yield send(2, group.whole)
        else:
            yield recv(0, group.whole), recv(1, group.whole)

    with pytest.raises(ScheduleError, match="one of two that overwrite"):
        verify(allreduce, size=3)


def test_a_transfer_with_nobody_is_found():
    def barrier(group):
        yield send(group.size)

    with pytest.raises(ScheduleError, match="the peer must be one of the 2 ranks"):
        verify(barrier, size=2)


def test_a_barrier_that_forgets_a_rank_is_found():
    def barrier(group):
        yield send(group.right), recv(group.left)

    with pytest.raises(
        ScheduleError,
        match=r"rank 0 ends without a message path from ranks \[1, 2\]",
    ):
        verify(barrier, size=4)


def test_sums_in_different_orders_are_correct_but_not_consistent():
    def allreduce(group):
        """All swap with all, but rank 2 adds one vector after the other."""
        peers = [rank for rank in range(3) if rank != group.rank]
        sends = [send(peer, group.whole) for peer in peers]
        if group.rank < 2:
            yield (*sends, *(recv_reduce(peer, group.whole) for peer in peers))
        else:
            yield (*sends, recv_reduce(0, group.whole))
            yield recv_reduce(1, group.whole)

    assert not verify(allreduce, size=3).consistent
    assert verify("one_shot", size=3, collective="allreduce").consistent


def test_lanes_match_on_their_own():
    def allreduce(group):
        """Half of the data goes around the ring, the other half goes back."""
        there, back = group.shares(2)
        yield from together(ring.allreduce(there), ring.allreduce(back.reversed))

    for size in (2, 3, 5, 8):
        proof = verify(allreduce, size=size)
        assert proof.links == (2 if size == 2 else 2 * size)
        assert proof.volume == Fraction(2 * (size - 1), size)


def test_an_unknown_name_lists_the_choices():
    with pytest.raises(
        AlgorithmNotApplicable,
        match=r"did you mean 'ring'\? There are one_shot, two_shot, ring",
    ):
        verify("rings", size=2, collective="allreduce")


def test_a_function_whose_collective_is_unclear_is_refused():
    with pytest.raises(ValueError, match="the collective of wrong_chunk is unknown"):
        verify(wrong_chunk, size=2)


def test_parameters_reach_the_schedule():
    def allreduce(group, rows, cols):
        row, column = group.grid(rows, cols)
        yield from ring.reduce_scatter(row)
        yield from ring.allreduce(column)
        yield from ring.allgather(row)

    proof = verify(allreduce, size=12, rows=3, cols=4)
    assert (proof.steps, proof.volume) == (10, Fraction(11, 6))


def partly_equal(group):
    """Rank 2 reduces one chunk of rank 0 and two of rank 1 at once."""
    if group.rank == 0:
        yield send(2, group.chunk(0))
    elif group.rank == 1:
        yield send(2, group.chunks(0, 2))
    else:
        yield (
            recv_reduce(0, group.chunk(0)),
            recv_reduce(1, group.chunk(0)),
            recv_reduce(1, group.chunk(1)),
        )


def test_what_is_reduced_at_once_must_be_equal_from_every_peer():
    with pytest.raises(ScheduleError, match=r"step 0 of rank 2.*differs from data"):
        verify(partly_equal, size=3, collective="allreduce")


def star(group):
    if group.rank == group.root:
        yield tuple(send(group.peer(i), group.whole) for i in range(1, group.size))
    else:
        yield recv(group.peer(group.root), group.whole)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8])
def test_the_root_of_a_group_is_its_position_zero(size):
    for root in range(size):
        verify(star, size=size, collective="broadcast", root=root)


def test_a_name_that_no_algorithm_has_is_refused():
    for name in ("my_ring", "my_ring(segments=2)"):
        with pytest.raises(
            AlgorithmNotApplicable,
            match=r"there is no algorithm 'my_ring'.*import the file",
        ):
            verify(name, size=4)
    with pytest.raises(AlgorithmNotApplicable, match="did you mean 'pairwise'"):
        verify("pairwize", size=4)
    with pytest.raises(AlgorithmNotApplicable, match="'qqq'; import the file"):
        verify("qqq", size=4)
