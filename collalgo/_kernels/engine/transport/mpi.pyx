# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""A wire over MPI: the functions of the library that the process has loaded.

Handles are words as wide as a register; a library with 32-bit handles uses the lower
half. Each request has a word of its own, so its width does not matter either.

Below MPI_THREAD_MULTIPLE the wire observes the thread level that MPI provides: all calls
take turns, or come from one thread only.
"""

from libc.limits cimport INT_MAX
from libc.stdint cimport int64_t, intptr_t, uintptr_t

from collalgo._kernels.engine.transport.wire cimport (
    ARRIVED, LOST, UNDER_WAY, Wire, set_poll,
)

ctypedef int (*isend_type)(
    const void *, int, intptr_t, int, int, intptr_t, void *
) noexcept nogil
ctypedef int (*irecv_type)(
    void *, int, intptr_t, int, int, intptr_t, void *
) noexcept nogil
ctypedef int (*test_type)(void *, int *, void *) noexcept nogil
ctypedef int (*get_count_type)(void *, intptr_t, int *) noexcept nogil
ctypedef int (*cancel_type)(void *) noexcept nogil
ctypedef int (*iprobe_type)(int, int, intptr_t, int *, void *) noexcept nogil
ctypedef int (*finalized_type)(int *) noexcept nogil


cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_mutex_t:
        pass
    ctypedef struct pthread_mutexattr_t:
        pass
    ctypedef unsigned long pthread_t
    enum: PTHREAD_MUTEX_RECURSIVE
    pthread_t pthread_self()
    int pthread_mutexattr_init(pthread_mutexattr_t *)
    int pthread_mutexattr_settype(pthread_mutexattr_t *, int)
    int pthread_mutex_init(pthread_mutex_t *, const pthread_mutexattr_t *)
    int pthread_mutex_lock(pthread_mutex_t *)
    int pthread_mutex_trylock(pthread_mutex_t *)
    int pthread_mutex_unlock(pthread_mutex_t *)

#: The threads that may call MPI, in the order of its levels.
cdef enum:
    ONE_THREAD  # MPI_THREAD_SINGLE or MPI_THREAD_FUNNELED
    IN_TURN     # MPI_THREAD_SERIALIZED
    ANY_THREAD  # MPI_THREAD_MULTIPLE

cdef dict THREADS = {
    "single": ONE_THREAD, "funneled": ONE_THREAD, "serialized": IN_TURN,
    "multiple": ANY_THREAD,
}

# One for the process, as its wires share one MPI. A call of MPI may release objects that
# call MPI again.
cdef pthread_mutex_t turn
cdef pthread_mutexattr_t recursive
pthread_mutexattr_init(&recursive)
pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE)
pthread_mutex_init(&turn, &recursive)


cdef class MpiTurn:
    """A context in which no wire in MPI_THREAD_SERIALIZED calls MPI."""

    def __enter__(self):
        with nogil:
            pthread_mutex_lock(&turn)

    def __exit__(self, *_):
        pthread_mutex_unlock(&turn)


#: The functions that are looked up in the library.
FUNCTIONS = (
    "MPI_Isend", "MPI_Issend", "MPI_Irecv", "MPI_Test", "MPI_Get_count", "MPI_Cancel",
    "MPI_Iprobe", "MPI_Finalized",
)


cdef struct mpi_poll:
    iprobe_type iprobe
    finalized_type finalized
    intptr_t comm  # MPI_COMM_SELF, which is never freed
    int any_source, any_tag, threads
    pthread_t thread

# Of the process: a probe drives the messages of all communicators.
cdef mpi_poll poller


cdef unsigned poll_mpi(void *engine) noexcept nogil:
    """Let MPI make progress on its sends, which it does inside its calls only."""
    cdef const mpi_poll *one = <const mpi_poll *>engine
    cdef int64_t status[8]  # larger than that of any MPI
    cdef int ended = 0, flag = 0
    if one.threads == ONE_THREAD and pthread_self() != one.thread:
        return 0
    if one.threads == IN_TURN and pthread_mutex_trylock(&turn):
        return 0  # another thread is in MPI
    if not one.finalized(&ended) and not ended:
        one.iprobe(one.any_source, one.any_tag, one.comm, &flag, status)
    if one.threads == IN_TURN:
        pthread_mutex_unlock(&turn)
    return flag


cdef class MpiWire(Wire):
    """Messages on a communicator of MPI.

    Parameters
    ----------
    functions : dict
        The addresses of :data:`FUNCTIONS`.
    comm, byte : int
        The handles of a communicator that returns errors, and of MPI_BYTE.
    probed : tuple of int
        MPI_ANY_SOURCE, MPI_ANY_TAG, and the handle of MPI_COMM_SELF.
    owner : object
        The object that owns the communicator.
    level : str
        The thread level of MPI: ``single``, ``funneled``, ``serialized`` or
        ``multiple``. Below ``serialized`` the thread that makes the wire must be the main
        thread of MPI; messages of other threads are lost.
    """
    cdef isend_type isend, issend
    cdef irecv_type irecv
    cdef test_type mpi_test
    cdef get_count_type get_count
    cdef cancel_type mpi_cancel
    cdef intptr_t comm, byte
    cdef object owner
    cdef int threads
    cdef pthread_t thread

    def __init__(
        self, functions, uintptr_t comm, uintptr_t byte, tuple probed, owner, str level
    ):
        self.threads, self.thread = THREADS[level], pthread_self()
        self.isend = <isend_type><uintptr_t>functions["MPI_Isend"]
        self.issend = <isend_type><uintptr_t>functions["MPI_Issend"]
        self.irecv = <irecv_type><uintptr_t>functions["MPI_Irecv"]
        self.mpi_test = <test_type><uintptr_t>functions["MPI_Test"]
        self.get_count = <get_count_type><uintptr_t>functions["MPI_Get_count"]
        self.mpi_cancel = <cancel_type><uintptr_t>functions["MPI_Cancel"]
        self.comm, self.byte, self.owner = <intptr_t>comm, <intptr_t>byte, owner
        poller.iprobe = <iprobe_type><uintptr_t>functions["MPI_Iprobe"]
        poller.finalized = <finalized_type><uintptr_t>functions["MPI_Finalized"]
        poller.any_source, poller.any_tag, own = probed
        poller.comm, poller.threads = <intptr_t><uintptr_t>own, self.threads
        poller.thread = self.thread
        set_poll(poll_mpi, &poller)

    @property
    def one_thread(self):
        return self.threads == ONE_THREAD

    cdef bint enter(self) noexcept nogil:
        """Whether this thread may call MPI; it must leave then."""
        if self.threads == IN_TURN:
            pthread_mutex_lock(&turn)
        return self.threads != ONE_THREAD or pthread_self() == self.thread

    cdef void leave(self) noexcept nogil:
        if self.threads == IN_TURN:
            pthread_mutex_unlock(&turn)

    cdef int send(
        self, int64_t peer, int64_t tag, const char *data, int64_t nbytes, bint matched,
        int64_t *request
    ) noexcept nogil:
        cdef isend_type begin = self.issend if matched else self.isend
        cdef int error
        request[0] = 0
        if nbytes > INT_MAX or not self.enter():
            return LOST
        error = begin(
            data, <int>nbytes, self.byte, <int>peer, <int>tag, self.comm, request
        )
        self.leave()
        return LOST if error else UNDER_WAY

    cdef int receive(
        self, int64_t peer, int64_t tag, char *data, int64_t nbytes, int64_t *request
    ) noexcept nogil:
        cdef int error
        request[0] = 0
        if nbytes > INT_MAX or not self.enter():
            return LOST
        error = self.irecv(
            data, <int>nbytes, self.byte, <int>peer, <int>tag, self.comm, request
        )
        self.leave()
        return LOST if error else UNDER_WAY

    cdef int test(self, int64_t peer, int64_t *request, int64_t *nbytes) noexcept nogil:
        cdef int64_t status[8]  # larger than that of any MPI
        cdef int flag = 0, count = 0, error
        if not self.enter():
            return LOST
        error = self.mpi_test(request, &flag, status)
        if flag and not error:
            error = self.get_count(status, self.byte, &count)
        self.leave()
        if error:
            return LOST
        if not flag:
            return UNDER_WAY
        nbytes[0] = count
        return ARRIVED

    cdef void cancel(self, int64_t *request) noexcept nogil:
        if self.enter():
            self.mpi_cancel(request)
            self.leave()
