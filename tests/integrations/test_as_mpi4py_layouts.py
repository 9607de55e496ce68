"""The layouts of datatypes of mpi4py, the buffers of its programs, and topologies."""

import numpy as np
import pytest

from collalgo.integrations.as_mpi4py import (
    arrangements,
    datatypes,
    layouts,
    memory,
    parts,
    specs,
    topologies,
)
from collalgo.integrations.as_mpi4py.constants import NUMBERS, PROC_NULL
from collalgo.integrations.as_mpi4py.errors import MpiException


def bytes_of(layout, count, nbytes=60):
    """The places of the bytes that are packed, which unpacking writes again."""
    source = np.arange(nbytes, dtype=np.uint8)
    packed = layout.pack(source, 0, count)
    target = np.zeros_like(source)
    layout.unpack(target, 0, packed)
    assert (target[packed] == packed).all()
    assert target.sum(dtype=int) == packed.sum(dtype=int)
    return packed.tolist()


INT = layouts.basic(4)


@pytest.mark.parametrize(
    ("layout", "places"),
    [
        (INT.placed([0], [2]), [0, 4, 8, 12]),
        (INT.placed([0, 8], 1), [0, 8, 12, 20]),
        (INT.placed([8, 0], 1), [8, 0, 20, 12]),
        (INT.placed([4, 12], [1, 2]), [4, 12, 16, 20, 28, 32]),
        (INT.resized(0, 8), [0, 8]),
    ],
)
def test_packed_bytes_are_in_the_order_of_the_type_map(layout, places):
    expected = [place + byte for place in places for byte in range(4)]
    assert bytes_of(layout, 2) == expected


def test_a_struct_of_other_elements_has_their_blocks():
    struct = layouts.joined([layouts.basic(1).placed([0], [1]), INT.placed([4], [2])])
    assert bytes_of(struct, 1) == [0, *range(4, 12)]
    assert struct.elements_in(struct.size) == 3
    assert struct.elements_in(6) == 2  # a byte, an integer and a part of one


def test_a_part_of_a_message_fills_a_part_of_an_element():
    layout, target = INT.placed([0, 8], 1), np.zeros(12, np.uint8)
    layout.unpack(target, 0, np.arange(1, 6, dtype=np.uint8))
    assert target.tolist() == [1, 2, 3, 4, 0, 0, 0, 0, 5, 0, 0, 0]


def test_elements_outside_of_the_buffer_are_refused():
    with pytest.raises(MpiException, match="exceed the 7 bytes") as error:
        INT.pack(np.zeros(7, np.uint8), 0, 2)
    assert error.value.Get_error_class() == NUMBERS["ERR_BUFFER"]


@pytest.mark.parametrize("order", ["ORDER_C", "ORDER_FORTRAN"])
def test_a_subarray_has_the_bytes_that_numpy_slices(order):
    layout = arrangements.subarray(
        layouts.basic(1), [3, 5], [2, 3], [1, 1], NUMBERS[order]
    )
    whole = np.arange(15, dtype=np.uint8).reshape(3, 5, order=order[6])
    flat = whole.ravel(order=order[6])
    expected = whole[1:3, 1:4].ravel(order=order[6])
    assert layout.pack(flat, 0, 1).tolist() == expected.tolist()
    assert layout.extent == 15


def test_the_parts_of_a_distributed_array_cover_it():
    how = [NUMBERS["DISTRIBUTE_BLOCK"], NUMBERS["DISTRIBUTE_CYCLIC"]]
    default = [NUMBERS["DISTRIBUTE_DFLT_DARG"]] * 2
    parts = [
        arrangements.darray(
            layouts.basic(1), rank, [5, 7], how, default, [2, 2], NUMBERS["ORDER_C"]
        )
        for rank in range(4)
    ]
    memory_of_all = np.arange(35, dtype=np.uint8)
    covered = np.concatenate([part.pack(memory_of_all, 0, 1) for part in parts])
    assert sorted(covered) == list(range(35))


@pytest.mark.parametrize("count", [1, 2, 5])
def test_datatypes_of_bottom_have_addresses(count):
    sent, received = np.arange(3 * count, dtype="i8"), np.full(3 * count, -1)
    make = datatypes.TYPECODES["q"].Create_hindexed
    of_sent, of_received = (
        make([1], [x.ctypes.data + 8]).Create_resized(0, 24).Commit()
        for x in (sent, received)
    )
    source = specs.simple([memory.BOTTOM, count, of_sent])
    target, finish = specs.simple(
        [memory.BOTTOM, count, of_received], writable=True
    ).target()
    target[:] = source.pack()
    finish()
    assert received[1::3].tolist() == sent[1::3].tolist()
    assert (np.delete(received, np.s_[1::3]) == -1).all()
    wide = specs.vector_of_types([memory.BOTTOM, [of_sent]], 1)
    assert wide.pack().tobytes() == sent[1].tobytes()
    assert specs.vector([memory.BOTTOM, [1], [0], of_sent], 1).sizes == [8]


def test_messages_have_committed_datatypes():
    made = datatypes.TYPECODES["i"].Create_vector(2, 1, 2)
    buf = np.zeros(3, "i4")
    for message in (
        lambda one: specs.simple([buf, 1, one]),
        lambda one: specs.vector([buf, [1], [0], one], 1),
        lambda one: specs.vector_of_types([buf, [one]], 1),
    ):
        for one in (made, made.Dup()):
            with pytest.raises(MpiException, match=r"ERR_TYPE: .* Commit\(\) first"):
                message(one)
        rebuild, arguments = made.__reduce__()  # by pickle, which commits it
        for one in (made.Dup().Commit().Dup(), rebuild(*arguments)):
            message(one)


def test_elements_of_bottom_have_a_count_and_addresses():
    integer = datatypes.TYPECODES["i"]
    assert specs.simple([memory.BOTTOM, integer]).count == 0
    with pytest.raises(KeyError, match=r"elements 'MPI\.BOTTOM'; pass one"):
        specs.simple([memory.BOTTOM, 3])
    displaced = integer.Create_hindexed([1], [4]).Commit()
    for place, datatype in ((memory.BOTTOM, integer), (b"12345678", displaced)):
        with pytest.raises(MpiException):
            specs.simple([place, 1, datatype]).elements()
    with pytest.raises(MpiException, match="exceed"):
        specs.simple([memory.BOTTOM, 1, integer]).pack()


def test_parts_of_other_buffers_do_not_count_as_adjoining():
    byte, target = datatypes.BYTE, np.zeros(4, np.uint8)
    blocks = parts.Blocks([parts.NOTHING, parts.Part(target, byte, 2, 1)])
    array, finish = blocks.target()
    assert finish is None
    array[:] = 7
    assert target.tolist() == [0, 7, 7, 0]
    apart = parts.Blocks([parts.Part(np.ones(2, np.uint8), byte, 2), blocks.parts[1]])
    assert apart.pack().tolist() == [1, 1, 7, 7]


# ---- buffers and topologies


def test_the_bytes_of_any_buffer_are_shared():
    for obj in (np.zeros(2, "i4"), bytearray(8), np.zeros((2, 1), "i4", order="F")):
        found, _ = memory.memory_of(obj, writable=True)
        found[:] = 1
        assert memoryview(obj).tobytes(order="A") == b"\1" * 8


@pytest.mark.parametrize(
    ("obj", "error"),
    [
        (b"abc", BufferError),
        (np.zeros(4)[::2], BufferError),
        ([1, 2], TypeError),
        (memory.IN_PLACE, TypeError),
    ],
)
def test_what_is_no_buffer_for_a_result_is_refused(obj, error):
    with pytest.raises(error):
        memory.memory_of(obj, writable=True)


def test_a_message_of_types_has_counts_or_one_of_each():
    integer, array = datatypes.TYPECODES["i"], np.zeros(4, "i4")
    for message in ([array, [integer]], [array, None, None, [integer]]):
        assert specs.vector_of_types(message, 1).sizes == [4]
    for counts in ((None, [0]), ([1], None)):
        for buffer in (array, memory.BOTTOM):
            with pytest.raises(ValueError, match="are missing"):
                specs.vector_of_types([buffer, *counts, [integer]], 1)


def test_a_grid_knows_its_neighbors():
    grid = topologies.Cart([2, 3], [False, True])
    assert grid.neighbors(0)[0] == [PROC_NULL, 3, 2, 1]
    assert [grid.rank(grid.coords(rank)) for rank in range(6)] == list(range(6))


@pytest.mark.parametrize(
    ("ranks", "dims", "expected"),
    [
        (12, 2, [4, 3]),
        (12, [0, 2, 0], [3, 2, 2]),
        (7, 3, [7, 1, 1]),
        (64, 3, [4, 4, 4]),
    ],
)
def test_grids_are_as_square_as_possible(ranks, dims, expected):
    assert topologies.compute_dims(ranks, dims) == expected


def test_a_struct_may_have_members_without_elements():
    empty = datatypes.TYPECODES["i"].Create_contiguous(0)
    made = type(empty).Create_struct([1], [0], [empty])
    assert (made.size, made.extent) == (0, 0)
