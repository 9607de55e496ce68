# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The calls of an MPI program in C, which the library preloaded into it takes to the engine."""

cimport numpy as cnp
from cpython.object cimport PyTypeObject
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.stdint cimport int64_t, intptr_t, uintptr_t
from libc.string cimport strncpy

import sys
import traceback

import numpy as np

from collalgo._kernels.comm.reducing cimport Reducing, runner_of
from collalgo._kernels.engine.transport.wire cimport set_poll
from collalgo.bootstrap.gathered_texts import gathered_texts
from collalgo.errors import BootstrapError

cnp.import_array()

cdef extern from "mpi_preload.h" nogil:
    enum:
        PRELOAD_ALLREDUCE
        PRELOAD_BROADCAST
        PRELOAD_REDUCE_SCATTER
        PRELOAD_ALLGATHER
        PRELOAD_ALLTOALL
    ctypedef struct preload_call:
        int collective, dtype, op, root
        int64_t count
        const void *source
        void *target
        const int64_t *counts
    ctypedef struct preload_interface:
        int (*allgather)(intptr_t comm, const void *mine, int nbytes, void *all) noexcept nogil
        unsigned (*poll)(void *) noexcept nogil
        void *(*connect)(intptr_t comm, int rank, int size, int earlier) noexcept nogil
        int (*call)(void *connection, const preload_call *call) noexcept nogil
        void (*disconnect)(void *connection) noexcept nogil
        char *sentence
    enum:
        PRELOAD_SENTENCE
    const char *PRELOAD_DTYPES
    const char *PRELOAD_OPS
    const char *PRELOAD_NAMES

cdef extern from "numpy/arrayobject.h":
    object PyArray_NewFromDescr(
        PyTypeObject *kind, cnp.PyArray_Descr *dtype, int axes, const cnp.npy_intp *shape,
        const cnp.npy_intp *strides, void *data, int flags, PyObject *owner
    )

#: The collectives that the library can take.
TAKEN = tuple(PRELOAD_NAMES.decode().split())

#: Said by a rank that cannot connect, instead of the length of a text or of READY.
cdef int64_t FAILED = -1, READY = 0

cdef preload_interface *library = NULL
cdef object communicator_of = None  # of ranks that exchange texts; None: not on one host
cdef tuple DTYPES = tuple(np.dtype(name) for name in PRELOAD_DTYPES.decode().split())
cdef tuple OPS = tuple(PRELOAD_OPS.decode().split())
cdef object BYTES = np.dtype(np.uint8)


def provide(uintptr_t address, connecting):
    """Give the library that started this interpreter its calls.

    Parameters
    ----------
    address : int
        The address of its interface.
    connecting : callable
        Returns the communicator of an exchange group, or None to leave its calls to MPI.
    """
    global library, communicator_of
    library, communicator_of = <preload_interface *>address, connecting
    library.call, library.disconnect = make_with_gil, disconnect_with_gil
    library.connect = connect_with_gil
    set_poll(library.poll, NULL)


cdef class MpiRanks:
    """An exchange group over the ranks of a communicator of MPI.

    Attributes
    ----------
    rank, size : int
        The rank of this process, and their number.
    """

    cdef readonly int rank, size
    cdef intptr_t comm
    cdef bint has_failed  # as all ranks know

    def allgather(self, str text):
        """The texts of all ranks, by rank."""
        return gathered_texts(text, self.gather_numbers, self.gather)

    def broadcast(self, str text):
        """The text of rank 0."""
        return self.allgather(text if self.rank == 0 else "")[0]

    def gather_numbers(self, int64_t mine):
        """A length, FAILED or READY of each rank; an error on all ranks if one failed."""
        numbers = self.gather(np.array([mine], np.int64))
        if numbers.min() == FAILED:
            self.has_failed = True
            failed = int(numbers.argmin())
            raise BootstrapError(f"rank {failed} cannot connect", rank=failed)
        return numbers

    cdef object agreed(self, Connection made):
        """A connection, or None on all ranks if one of them has none."""
        if not self.has_failed:
            try:
                self.gather_numbers(FAILED if made is None else READY)
            except BootstrapError:
                if made is not None:
                    report("MPI makes the calls of a communicator")
                    made.comm.close()
        return None if self.has_failed else made

    def gather(self, cnp.ndarray mine):
        """Join arrays of one length of all ranks."""
        cdef cnp.ndarray found = np.empty(len(mine) * self.size, mine.dtype)
        cdef const void *data = cnp.PyArray_DATA(mine)
        cdef void *rows = cnp.PyArray_DATA(found)
        cdef int nbytes = <int>cnp.PyArray_NBYTES(mine), status
        with nogil:
            status = library.allgather(self.comm, data, nbytes, rows)
        if status:
            raise RuntimeError(f"MPI_Allgather failed with error {status}")
        return found


cdef class Connection:
    """The communicator for the calls on one of MPI."""

    cdef Reducing runner
    cdef object comm

    cdef int make(self, const preload_call *call) except -1:
        cdef Reducing runner = self.runner
        cdef int64_t own = call.count, whole = call.count
        cdef int collective = call.collective
        if collective == PRELOAD_ALLREDUCE or collective == PRELOAD_REDUCE_SCATTER:
            return self.reduce(call)
        if collective == PRELOAD_BROADCAST:
            source = elements(call.target, call.count, BYTES)
            target = None if call.root == runner.rank else source
            return runner.move("broadcast", source, target, None, None, call.root)
        if collective == PRELOAD_ALLGATHER or collective == PRELOAD_ALLTOALL:
            name = "allgather" if collective == PRELOAD_ALLGATHER else "alltoall"
            whole = own * runner.size if collective == PRELOAD_ALLGATHER else own
            source = elements(call.source, own, BYTES)
            target = elements(call.target, whole, BYTES)
            return runner.move(name, source, target, None, None, 0)
        return runner.barrier(None, None)

    cdef int reduce(self, const preload_call *call) except -1:
        """Make a call that combines elements."""
        cdef Reducing runner = self.runner
        cdef int64_t own = call.count // runner.size, i
        source = elements(call.source, call.count, DTYPES[call.dtype])
        op = OPS[call.op]
        if call.collective == PRELOAD_ALLREDUCE:
            target = None
            if call.target != call.source:
                target = elements(call.target, call.count, DTYPES[call.dtype])
            runner.allreduce(source, op, target, None, False, None)
            return 0
        counts = None
        if call.counts != NULL:
            counts = [call.counts[i] for i in range(runner.size)]
            own = counts[runner.rank]
        target = elements(call.target, own, DTYPES[call.dtype])
        runner.reduce_scatter(source, op, counts, target, None, False, None)
        return 0


cdef cnp.ndarray elements(const void *first, int64_t count, object dtype):
    """A NumPy array on memory of the program, that must not outlive the call."""
    cdef cnp.npy_intp length = count
    if first == NULL:  # for which NumPy would take memory of its own
        raise ValueError(f"the buffer of {count} elements is NULL")
    Py_INCREF(dtype)  # which the array takes
    return <cnp.ndarray>PyArray_NewFromDescr(
        <PyTypeObject *>cnp.ndarray, <cnp.PyArray_Descr *>dtype, 1, &length, NULL,
        <void *>first, cnp.NPY_ARRAY_CARRAY, NULL,
    )


cdef void report(str what) noexcept:
    """Write the error that is handled, if that is possible."""
    error = sys.exc_info()[1]
    try:
        sys.stderr.write(f"collalgo: {what}: {type(error).__name__}: {error}\n")
        if not isinstance(error, Exception) or isinstance(error, TypeError):
            traceback.print_exc()
    except BaseException:  # the program has closed it, or its reader has ended
        pass


cdef void keep_sentence(object error) noexcept:
    """Give the library the text of an error, for MPI_Error_string."""
    cdef bytes text = f"{error}".encode()[:PRELOAD_SENTENCE - 1]
    text = text.decode(errors="ignore").encode()  # without a part of a character at its end
    strncpy(library.sentence, text, PRELOAD_SENTENCE)


cdef object connected(MpiRanks ranks, int earlier):
    """The connection of ranks after some calls that MPI has made.

    None where they are on several hosts, or if this one fails.
    """
    cdef Connection made = None
    try:
        found = communicator_of(ranks)
        if found is not None:
            made = Connection.__new__(Connection)
            made.comm, made.runner = found, runner_of(found)
            made.runner.recorder.calls += earlier
            made.runner.transport.number += earlier
    except BaseException:
        report("MPI makes the calls of a communicator")
        return None
    return made


cdef void *connect_with_gil(intptr_t comm, int rank, int size, int earlier) noexcept with gil:
    """Connect the ranks of a communicator of MPI, with a reference; NULL if not."""
    cdef MpiRanks ranks = MpiRanks.__new__(MpiRanks)
    ranks.comm, ranks.rank, ranks.size = comm, rank, size
    try:
        made = ranks.agreed(connected(ranks, earlier))
    except BaseException:
        report("MPI makes the calls of a communicator")
        return NULL
    if made is None:
        return NULL
    Py_INCREF(made)
    return <void *>made


cdef int make_with_gil(void *connection, const preload_call *call) noexcept with gil:
    """Make a call: -1, and its error on the standard error, if it fails."""
    try:
        return (<Connection>connection).make(call)
    except BaseException:
        report("a call failed")
        keep_sentence(sys.exc_info()[1])
        return -1


cdef void disconnect_with_gil(void *connection) noexcept with gil:
    """Close a connection."""
    mine = <Connection>connection
    try:
        mine.comm.close()
    except BaseException:
        report("the end of a communicator")
    Py_DECREF(mine)
