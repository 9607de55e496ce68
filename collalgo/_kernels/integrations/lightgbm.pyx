# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The functions by which LightGBM communicates: allgather and reduce-scatter.

LightGBM is C++ and its functions return nothing, so a failed call leaves them by an
exception of C++: LightGBM turns it into an error of its own, and ends the training.
"""

cimport numpy as cnp
from libc.stdint cimport int32_t, int64_t, uintptr_t
from libc.string cimport memcpy, memmove

import numpy as np

from collalgo._kernels.comm.reducing cimport Reducing, runner_of
from collalgo._kernels.engine.reduction.reduce cimport Reduction, float8_tables

cnp.import_array()

cdef extern from *:
    """
    /* Combines elements of two buffers: target = target op source. */
    typedef void (*lightgbm_reducer)(const char *source, char *target, int itemsize,
                                     int32_t nbytes);

    /* LightGBM passes its functions no context, but keeps them by thread, too. */
    static __thread void *lightgbm_network;
    """
    ctypedef void (*lightgbm_reducer)(
        const char *source, char *target, int itemsize, int32_t nbytes
    ) noexcept nogil
    void *lightgbm_network

cdef struct reducer_of_elements:
    lightgbm_reducer combine
    int itemsize

#: Throws ``std::runtime_error``: C cannot, and LightGBM does not load C.
ctypedef void (*thrower)(const char *message) noexcept nogil

cdef thrower throw = NULL
cdef object BYTES = np.dtype(np.uint8)
cdef enum:
    BLOCK_BYTES = 8192  # that a reducer combines at once


cdef class ReducerReduction(Reduction):
    """A reducer of LightGBM, called without the GIL.

    Parameters
    ----------
    address : int
        Its address.
    itemsize : int
        Bytes of one element.
    """

    cdef reducer_of_elements reducer

    def __init__(self, uintptr_t address, int64_t itemsize):
        self.reducer.combine = <lightgbm_reducer>address
        self.reducer.itemsize = self.itemsize = itemsize
        self.function = combine
        self.tables = <const float8_tables *>&self.reducer


cdef void combine(
    void *dst, const void *const *inputs, int64_t n, int64_t count,
    int64_t divisor, const float8_tables *context
) noexcept nogil:
    """The kernel of a reducer, block by block, as ``dst`` may be one of the inputs."""
    cdef const reducer_of_elements *reducer = <const reducer_of_elements *>context
    cdef char block[BLOCK_BYTES]
    cdef int64_t nbytes = count * reducer.itemsize, at = 0, length, i
    cdef int64_t most = BLOCK_BYTES // reducer.itemsize * reducer.itemsize
    while at < nbytes:
        length = min(most, nbytes - at)
        memcpy(block, <const char *>inputs[0] + at, length)
        for i in range(1, n):
            reducer.combine(
                <const char *>inputs[i] + at, block, reducer.itemsize, length
            )
        memcpy(<char *>dst + at, block, length)
        at += length


cdef class Network:
    """The network of one rank, for the thread that trains.

    Parameters
    ----------
    comm : Communicator
        The communicator.
    op_of : callable
        Returns the op of a reducer by its address and the bytes of an element.
    reproducible : bool
        Whether contributions are combined in the order of the ranks.
    throwing : int
        The address of ``std::__throw_runtime_error`` of the C++ library that LightGBM
        has loaded.

    Attributes
    ----------
    failure : BaseException or None
        The error of the call that has ended the training.
    functions : tuple of int
        The addresses of the functions: reduce-scatter, allgather.
    """

    cdef Reducing runner
    cdef object op_of
    cdef dict ops
    cdef bint reproducible
    cdef readonly object failure
    cdef readonly tuple functions

    def __init__(self, comm, op_of, bint reproducible, uintptr_t throwing):
        global throw
        throw = <thrower>throwing
        self.runner, self.op_of, self.ops = runner_of(comm), op_of, {}
        self.reproducible = reproducible
        self.functions = <uintptr_t>&reduce_scatter, <uintptr_t>&allgather

    def __enter__(self):
        global lightgbm_network
        if lightgbm_network != NULL:
            raise RuntimeError(
                "network: this thread is in the network of another communicator; leave "
                "that first"
            )
        lightgbm_network = <void *>self
        return self

    def __exit__(self, _kind, _error, _place):
        global lightgbm_network
        lightgbm_network = NULL

    cdef tuple counts_of(
        self, const int32_t *starts, const int32_t *lengths, int count, int itemsize
    ):
        """The elements of the blocks of all ranks, which are adjacent."""
        cdef int64_t at = 0
        cdef int i
        counts = []
        for i in range(count):
            if starts[i] != at or lengths[i] % itemsize or count != self.runner.size:
                raise RuntimeError(
                    f"network: LightGBM passes block {i} of {count} from byte "
                    f"{starts[i]}, of {lengths[i]} bytes, but {self.runner.size} "
                    f"adjacent blocks of elements of {itemsize} bytes were expected; "
                    "please report its version"
                )
            counts.append(lengths[i] // itemsize)
            at += lengths[i]
        return tuple(counts)

    cdef int gather(
        self, char *mine, const int32_t *starts, const int32_t *lengths, int count,
        char *output
    ) except -1:
        """Gather the blocks of all ranks; ``mine`` may lie anywhere in the output."""
        counts = self.counts_of(starts, lengths, count, 1)
        cdef int64_t total = sum(counts), length = lengths[self.runner.rank]
        if mine < output + total and output < mine + length:
            memmove(output + starts[self.runner.rank], mine, length)
            mine = output + starts[self.runner.rank]
        source = elements(mine, length, BYTES)
        target = elements(output, total, BYTES)
        return self.runner.call(
            "allgather", source, target, None, None, source, None, 0, -1,
            None if are_equal(counts) else counts,
        )

    cdef int scatter(
        self, char *blocks, int itemsize, const int32_t *starts,
        const int32_t *lengths, int count, char *output, uintptr_t reducer
    ) except -1:
        """Reduce the blocks of all ranks, and keep that of this rank."""
        counts = self.counts_of(starts, lengths, count, itemsize)
        cdef int64_t total = sum(counts), length = lengths[self.runner.rank]
        op = self.ops.get((reducer, itemsize))
        if op is None:
            op = self.ops[reducer, itemsize] = self.op_of(reducer, itemsize)
        source = elements(blocks, total, op.dtype)
        if output < blocks + total * itemsize and blocks < output + length:
            source = source.copy()
        target = elements(output, counts[self.runner.rank], op.dtype)
        return self.runner.combine(
            "reduce_scatter", source, target, None, None, op, 0,
            None if are_equal(counts) else counts, self.reproducible,
        )


cdef bint are_equal(tuple counts):
    """Whether all ranks have equal blocks."""
    return counts.count(counts[0]) == len(counts)


cdef cnp.ndarray elements(char *first, int64_t count, object dtype):
    """A NumPy array on memory of LightGBM, that must not outlive the call."""
    cdef cnp.npy_intp nbytes = count * <int64_t>dtype.itemsize
    cdef cnp.ndarray found
    found = cnp.PyArray_SimpleNewFromData(1, &nbytes, cnp.NPY_UINT8, first)
    return found if dtype is BYTES else (<object>found).view(dtype)


cdef int gather_with_gil(
    char *mine, const int32_t *starts, const int32_t *lengths, int count,
    char *output
) noexcept with gil:
    """Gather blocks for LightGBM: -1, and the failure of the network, on an error."""
    network = <Network>lightgbm_network
    try:
        return network.gather(mine, starts, lengths, count, output)
    except BaseException as error:
        network.failure = error
        return -1


cdef int scatter_with_gil(
    char *blocks, int itemsize, const int32_t *starts, const int32_t *lengths,
    int count, char *output, uintptr_t reducer
) noexcept with gil:
    """Reduce and scatter blocks for LightGBM, with the result of the above."""
    network = <Network>lightgbm_network
    try:
        return network.scatter(
            blocks, itemsize, starts, lengths, count, output, reducer
        )
    except BaseException as error:
        network.failure = error
        return -1


cdef void allgather(
    char *mine, int32_t length, const int32_t *starts, const int32_t *lengths,
    int count, char *output, int32_t output_bytes
) noexcept nogil:
    """The function of LightGBM; it holds nothing that an exception would lose."""
    if gather_with_gil(mine, starts, lengths, count, output):
        throw(b"allgather failed")


cdef void reduce_scatter(
    char *blocks, int32_t nbytes, int itemsize, const int32_t *starts,
    const int32_t *lengths, int count, char *output, int32_t output_bytes,
    const lightgbm_reducer *reducer
) noexcept nogil:
    """The function of LightGBM, like :func:`allgather`."""
    if scatter_with_gil(
        blocks, itemsize, starts, lengths, count, output, <uintptr_t>reducer[0]
    ):
        throw(b"reduce-scatter failed")
