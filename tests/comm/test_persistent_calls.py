"""Persistent calls are started again and again."""

import numpy as np
import pytest

import collalgo
from collalgo import threads


def test_persistent_calls_are_started_again():
    def on_each_rank(comm):
        x = np.ones(5)
        total = comm.persistent_allreduce(x)
        for times in range(1, 4):
            assert total.start() is total
            assert total.wait() is x
            assert (x == comm.size**times).all()
        assert total() is x
        assert (x == comm.size**4).all()

    threads(on_each_rank, 2, timeout=60)


def test_arrays_of_persistent_calls_are_packed_at_each_start():
    def on_each_rank(comm):
        table = np.zeros((2, 6))
        packed = comm.persistent_allreduce(table[:, ::2])
        for value in (1, 2):
            table[:, ::2] = value
            packed.start().wait()
            assert (table[:, ::2] == value * comm.size).all()
        source = np.zeros((3, 4))
        rows = np.zeros((comm.size, 3, 2)) if comm.rank == 0 else None
        gathered = comm.persistent_gather(source[:, ::2], out=rows)
        for value in (1, 2):  # where only the source has to be packed
            source[:] = value
            gathered.start().wait()
            assert rows is None or (rows == value).all()

    threads(on_each_rank, 2, timeout=60)


def test_a_persistent_call_is_not_started_while_it_is_under_way():
    def on_each_rank(comm):
        total = comm.persistent_allreduce(np.ones(5))
        if comm.rank == 0:
            total.start()
            with pytest.raises(collalgo.CollalgoError, match="still under way"):
                total.start()
        comm.group(range(comm.size)).barrier()
        if comm.rank:
            total.start()
        total.wait()

    threads(on_each_rank, 2, timeout=60)


def test_a_persistent_call_of_a_closed_communicator_is_refused_at_its_start():
    def on_each_rank(comm):
        total = comm.persistent_allreduce(np.ones(2))
        comm.close()
        for begin in (total.start, total):
            with pytest.raises(collalgo.CommunicatorClosed, match="is closed"):
                begin()

    threads(on_each_rank, 1, timeout=60)
