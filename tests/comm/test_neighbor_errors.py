"""Errors of calls among neighbors: which call they name, and which ranks raise them."""

import numpy as np
import pytest

from collalgo import MismatchError, cartesian, threads
from tests.support.leisure import at_leisure

SIZES = at_leisure((2, 3, 5, 7, 8, 12, 16, 17, 33), (2, 5, 12))


def rows_of(near, dtype=float, length=3):
    """Two rows for each neighbor of a ring."""
    return np.zeros((2 * len(near.targets), length), dtype)


def blocks_of(near, dtype=float, length=3):
    return np.zeros((len(near.targets), length), dtype)


def counts_of(near):
    return [2] * len(near.targets)


#: By form, the name of the call and a call with an array that may be wrong.
EXCHANGING = {
    "allgatherv": lambda near, *wrong: near.allgatherv(rows_of(near, *wrong)),
    "alltoallv": lambda near, *wrong: near.alltoallv(
        rows_of(near, *wrong), counts_of(near)
    ),
    "alltoallv given both": lambda near, *wrong: near.alltoallv(
        rows_of(near, *wrong), counts_of(near), counts_of(near)
    ),
    "allgatherv in the background": lambda near, *wrong: near.allgatherv_async(
        rows_of(near, *wrong)
    ).wait(),
    "allgatherv prepared": lambda near, *wrong: near.persistent_allgatherv(
        rows_of(near, *wrong)
    ),
    "alltoallv prepared": lambda near, *wrong: near.persistent_alltoallv(
        rows_of(near, *wrong), counts_of(near)
    ),
}

OTHER = {
    "allgather": lambda near, *wrong: near.allgather(blocks_of(near, *wrong)),
    "alltoall": lambda near, *wrong: near.alltoall(blocks_of(near, *wrong)),
    "allgather prepared": lambda near, *wrong: near.persistent_allgather(
        blocks_of(near, *wrong)
    )(),
    "alltoall prepared": lambda near, *wrong: near.persistent_alltoall(
        blocks_of(near, *wrong)
    )(),
    "alltoall in the background": lambda near, *wrong: near.alltoall_async(
        blocks_of(near, *wrong)
    ).wait(),
}


def ring(comm):
    return comm.neighbors(cartesian([comm.size], periodic=True))


@pytest.mark.parametrize("form", EXCHANGING)
@pytest.mark.parametrize("size", SIZES)
def test_every_rank_raises_the_same_error_if_counts_are_exchanged(form, size):
    wrong_rank = max(1, size - 2)

    def on_each_rank(comm):
        near, call, errors = ring(comm), EXCHANGING[form], []
        for wrong in [(np.float32,), (float, 4)]:
            with pytest.raises(MismatchError) as failed:
                call(near, *(wrong if comm.rank == wrong_rank else ()))
            errors.append(str(failed.value))
        call(near)  # as no message was lost
        return tuple(errors)

    (errors,) = set(threads(on_each_rank, size, timeout=60))
    who = f"{form.split()[0]} #2: rank {wrong_rank}"
    assert errors[0].startswith(
        f"{who} passed float32 but rank 0 passed float64; every rank must"
    )
    assert "passed rows of 4 elements but rank 0 passed rows of 3 elements" in errors[1]


@pytest.mark.parametrize("form", OTHER)
@pytest.mark.parametrize("wrong", [(np.float32,), (float, 4)], ids=["dtype", "length"])
@pytest.mark.parametrize("size", SIZES)
def test_neighbors_of_a_wrong_rank_raise_and_the_others_at_the_next_barrier(
    form, wrong, size
):
    name = form.split()[0]

    def on_each_rank(comm):
        near, raised = ring(comm), ""
        try:
            OTHER[form](near, *(wrong if comm.rank == 1 else ()))
        except MismatchError as error:
            raised = str(error)
        assert raised or 1 not in (comm.rank, *near.sources)
        with pytest.raises(MismatchError) as failed:
            comm.barrier()
        assert raised in ("", str(failed.value))
        return str(failed.value)

    (error,) = set(threads(on_each_rank, size, timeout=60))
    assert error.startswith(f"{name} #2: ")


def test_the_lengths_of_blocks_are_named_as_such():
    def on_each_rank(comm):
        near = ring(comm)
        near.alltoall(blocks_of(near, float, 3 + comm.rank))

    with pytest.raises(
        MismatchError, match=r"^alltoall #2: .* pass blocks of the same"
    ):
        threads(on_each_rank, 2, timeout=60)


def test_an_adjacency_matrix_is_no_list_of_neighbors():
    matrix = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])

    def on_each_rank(comm):
        for graph in (matrix, matrix.tolist(), matrix[comm.rank]):
            with pytest.raises(ValueError, match=r"matrix of 3 ranks; pass the neigh"):
                comm.neighbors(graph)
        lists = [np.flatnonzero(row) for row in matrix]
        assert comm.neighbors(lists).graph == ((1,), (0, 2), (1,))
        assert comm.neighbors([[1, 1], [2], [0]]).graph == ((1,), (2,), (0,))

    threads(on_each_rank, 3, timeout=60)


@pytest.mark.parametrize("size", SIZES)
def test_calls_of_different_names_are_told_apart(size):
    def on_each_rank(comm):
        near = ring(comm)
        if comm.rank:
            near.alltoallv(rows_of(near), counts_of(near))
        else:
            near.alltoall(blocks_of(near))

    with pytest.raises(MismatchError, match=r"rank 0 called alltoall( |;)"):
        threads(on_each_rank, size, timeout=60)
