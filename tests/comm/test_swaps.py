"""Ranks that send and receive at once: sendrecv, and alltoallv with both counts."""

import numpy as np
import pytest

from collalgo import MismatchError, threads

SIZES = [1, 2, 3, 5, 8]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("count", [0, 1, 7, 40_000])
def test_arrays_are_shifted_around_a_ring(size, count):
    def on_each_rank(comm):
        right, left = (comm.rank + 1) % size, (comm.rank - 1) % size
        for tag in (0, 3):
            out = np.empty(count, np.int32)
            mine = np.full(count, comm.rank, np.int32)
            assert comm.sendrecv(mine, right, out, left, tag) is out
            assert (out == left).all()

    threads(on_each_rank, size)


def test_the_two_messages_may_have_tags_and_lengths_of_their_own():
    def on_each_rank(comm):
        sent, other = np.arange(comm.rank + 2), 1 - comm.rank
        out = np.empty(other + 2, sent.dtype)
        tags = (5, 9) if comm.rank else (9, 5)
        comm.sendrecv(sent, other, out, other, tags[0], recv_tag=tags[1])
        assert out.tolist() == list(range(other + 2))

    threads(on_each_rank, 2)


def test_a_message_from_any_rank_is_received_while_one_is_sent():
    def on_each_rank(comm):
        out = np.empty(1, int)
        comm.sendrecv(np.array([comm.rank]), (comm.rank + 1) % 3, out, None)
        assert out == (comm.rank - 1) % 3

    threads(on_each_rank, 3)


def test_the_array_that_is_sent_must_not_be_received_into():
    def on_each_rank(comm):
        x = np.ones(4)
        for out in (x, x[1:]):
            with pytest.raises(ValueError, match="sendrecv: out overlaps buf"):
                comm.sendrecv(x[: len(out)], 0, out, 0)
        with pytest.raises(TypeError, match=r"sendrecv: .*list"):
            comm.sendrecv([1.0], 0, x, 0)

    threads(on_each_rank, 1)


@pytest.mark.parametrize("size", SIZES)
def test_alltoallv_takes_what_each_rank_sends_and_receives(size):
    table = np.random.default_rng(size).integers(0, 4, (size, size))

    def on_each_rank(comm):
        rank = comm.rank
        x = np.repeat(np.arange(size) + 10 * rank, table[rank])
        expected = np.repeat(np.arange(size) * 10 + rank, table[:, rank])
        sent, received = table[rank].tolist(), table[:, rank].tolist()
        for found in (
            comm.alltoallv(x, sent, received),
            comm.alltoallv(x, table[rank], receive_counts=table[:, rank]),
            comm.alltoallv_async(x, sent, received).wait(),
            comm.alltoallv(x, sent),
            comm.alltoallv(x, table),
        ):
            np.testing.assert_array_equal(found, expected, strict=True)

    threads(on_each_rank, size)


@pytest.mark.parametrize("size", [2, 3, 5])
def test_every_rank_learns_of_counts_that_do_not_agree(size):
    def on_each_rank(comm):
        received = [1] * size
        received[0] += comm.rank == size - 1
        words = (
            rf"^alltoallv #1: rank 0 sends 1 rows to rank {size - 1}, which expects 2; "
            "pass counts and receive_counts that agree$"
        )
        with pytest.raises(MismatchError, match=words):
            comm.alltoallv(np.ones(size), [1] * size, received)
        comm.barrier()

    threads(on_each_rank, size)


def test_receive_counts_of_some_ranks_only_are_a_mismatch():
    def on_each_rank(comm):
        received = [1, 1] if comm.rank else None
        with pytest.raises(MismatchError):
            comm.alltoallv(np.ones(2), [1, 1], received)

    threads(on_each_rank, 2)


@pytest.mark.parametrize("bad", [[1], [1, 1, 1], [-1, 1], 2])
def test_receive_counts_are_checked(bad):
    def on_each_rank(comm):
        with pytest.raises((TypeError, ValueError), match=r"alltoallv: .*counts?"):
            comm.alltoallv(np.ones(2), [1, 1], bad)

    threads(on_each_rank, 2)
