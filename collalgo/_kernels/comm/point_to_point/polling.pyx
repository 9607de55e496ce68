# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The messages of a rank with all others: polling, and the end of messages."""

cimport cython
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free

from collections import deque
from functools import partial

from collalgo._kernels.comm.point_to_point.by_tag cimport ByTag
from collalgo._kernels.comm.point_to_point.inbox cimport ReceiveMatching
from collalgo._kernels.comm.point_to_point.message cimport Message
from collalgo._kernels.comm.point_to_point.peer cimport Peer
from collalgo._kernels.comm.pthreads cimport (
    pthread_mutex_destroy,
    pthread_mutex_init,
    pthread_mutex_lock,
    pthread_mutex_t,
    pthread_mutex_unlock,
)
from collalgo._kernels.engine.transport.host_endpoint cimport HostEndpoint
from collalgo._kernels.engine.transport.message_ring cimport (
    bell_of,
    link_claim,
    link_fetch,
    link_finish,
    link_unclaim,
    message_link,
    wake_waiters,
)
from collalgo._kernels.engine.transport.segment cimport forks

from collalgo._kernels.engine.transport.group_calls import is_in_call
from collalgo._kernels.engine.transport.survivors import revoker
from collalgo._kernels.comm.done_callbacks import run_callbacks
from collalgo.comm.failures import revoked
from collalgo.comm.point_to_point import errors

cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_mutexattr_t:
        pass
    enum: PTHREAD_MUTEX_RECURSIVE
    int pthread_mutexattr_init(pthread_mutexattr_t *attributes)
    int pthread_mutexattr_settype(pthread_mutexattr_t *attributes, int type)
    int pthread_mutex_trylock(pthread_mutex_t *mutex)


cdef class Polling(ReceiveMatching):
    """Polls the messages of one rank, and reads long ones.

    Parameters
    ----------
    rank, size : int
        Of this rank in its communicator.
    shared : HostEndpoint
        Its end of the memory of its host.
    """

    def __cinit__(self):
        cdef pthread_mutexattr_t attributes
        pthread_mutexattr_init(&attributes)
        pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE)
        pthread_mutex_init(&self.mutex, &attributes)

    def __init__(self, int64_t rank, int64_t size, HostEndpoint shared):
        self.rank, self.size = rank, size
        self.shared, self.segment = shared, shared.segment
        self.segment.has_messages = True
        self.bell = bell_of(shared.open(), shared.rank)
        self.places = {member: place for place, member in enumerate(shared.members)}
        self.peers, self.known = [None] * size, []
        self.from_any = ByTag()
        self.finished, self.to_fetch = deque(), deque()
        self.links = <message_link **>calloc(size, sizeof(message_link *))
        if self.links == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.links)
        pthread_mutex_destroy(&self.mutex)

    cdef void acquire(self) noexcept:
        if pthread_mutex_trylock(&self.mutex) != 0:
            with nogil:
                pthread_mutex_lock(&self.mutex)

    cdef void release(self) noexcept:
        pthread_mutex_unlock(&self.mutex)

    cdef bint is_forked(self) noexcept:
        """Whether this is a forked child, which has not mapped the memory."""
        return self.shared.generation != forks

    cdef void enter(self) noexcept:
        """Begin to use the memory of the host without the lock; it stays after a close."""
        self.users += 1

    cdef void leave(self) noexcept:
        """End the use; after a close, the last user unmaps the memory."""
        self.users -= 1
        if self.closed and self.users == 0:
            self.segment = None

    cdef int check_open(self, str call) except -1:
        """Check that messages can be sent and received."""
        return 0

    cdef int add_peer(self, Peer peer) except -1:
        """Make progress with the messages of one more rank."""
        self.peers[peer.rank] = peer
        self.known.append(peer)
        if peer.on_host:
            self.links[self.link_count] = &peer.link
            self.link_count += 1
        return 0

    # ---- polling

    cdef bint poll(self) except -1:
        if self.is_forked():
            return False
        cdef bint found = False
        self.acquire()
        if self.closed:
            self.release()
            return False
        self.enter()
        try:
            found = self.poll_locked()
        finally:
            self.release()
            if found and self.users > 2:  # more than this thread and its caller
                wake_waiters(self.bell)
            self.leave()
        if self.finished:
            self.call_back()
        return found

    cdef bint poll_locked(self) except -1:
        cdef Peer peer
        cdef bint found = False
        for peer in self.known:
            if peer.on_host or self.listens or self.from_any.count or peer.waits():
                found = peer.progress() or found
        while self.to_fetch and not self.closed:
            found = self.fetch(self.to_fetch.popleft()) or found
        return found

    cdef int queue_fetch(self, Message message) except -1:
        self.to_fetch.append(message)
        return 0

    cdef bint fetch(self, Message message) except -1:
        """Read a long message without the lock: other threads may send meanwhile."""
        cdef Peer peer = <Peer>self.peers[message.source]
        cdef int error
        if message.over:
            return False
        if not link_claim(&peer.link, message.incoming.claim, message.number):
            message.end(
                errors.withdrawn(message.number, self.rank, peer.rank, message.tag)
            )
            return True
        message.make_room()
        packed = message.packed  # which must live until it is written
        error = self.read_unlocked(peer, message)
        if error == 0:
            message.packed = packed
            message.unpack()
            message.end(None)
        else:
            peer.handle_unreadable(error)
            message.end(peer.error(message.name))
        return True

    @cython.final
    cdef int read_unlocked(self, Peer peer, Message message) noexcept:
        """Read the memory of the sender, without the lock: 0, or an error number."""
        cdef int error
        cdef int64_t place = message.incoming.place
        self.enter()
        self.release()
        with nogil:
            error = link_fetch(&peer.link, message.data, place, message.nbytes)
        self.acquire()
        if error == 0:
            link_finish(&peer.link, message.incoming.claim, message.number)
        else:
            link_unclaim(&peer.link, message.incoming.claim, message.number)
        self.leave()
        return error

    cdef int find_departures(self) except -1:
        """Find the ranks of this host that have left, and read their last messages."""
        cdef Peer peer
        self.acquire()
        try:
            culprit = None if self.shared.closed else revoker(self.shared)
            for peer in [] if self.closed else list(self.known):
                if self.shared.closed:  # by an error here
                    peer.fail(partial(errors.closed, rank=self.rank))
                elif culprit is not None:
                    peer.fail(partial(revoked, rank=self.rank, culprit=culprit))
                    self.fail_receives_from_any(None)
                elif peer.on_host and peer.failure is None:
                    departure = self.shared.departure(self.places[peer.rank])
                    if departure is not None:
                        peer.progress()
                        peer.leave(departure[0], departure[1])
        finally:
            self.release()
        return 0

    # ---- the end of messages

    cdef int withdraw(self, Message message) except -1:
        """Cancel a message."""
        cdef Peer peer
        self.acquire()
        try:
            if self.from_any.remove(message):
                others = tuple(rank for rank in range(self.size) if rank != self.rank)
                busy = self.in_collective(others)
                message.end(errors.no_message(message, self.rank, others, busy))
            for peer in self.known:
                if not message.over and not self.closed:
                    peer.withdraw(message)
        finally:
            self.release()
        return self.call_back()

    cdef bint cancel_receive(self, Message message) except -1:
        """Cancel a receive that no message has reached: whether it was one."""
        cdef Peer sender = None
        cdef bint found
        self.acquire()
        try:
            if message.source is None:
                found = self.from_any.remove(message)
            else:
                sender = self.peers[message.source]
                found = sender is not None and sender.posted.remove(message)
            if found:
                message.end(errors.cancelled(message.name))
        finally:
            self.release()
        self.call_back()
        return found

    cdef object in_collective(self, ranks):
        """The first of some ranks that is in a call which this rank has not begun.

        Returns
        -------
        tuple or None
            The rank and the call; None without such a rank on this host.
        """
        if self.shared.closed:
            return None
        next_call = self.shared.entered(self.shared.rank) + 1
        for rank in ranks:
            place = self.places.get(rank)
            if place is not None and is_in_call(self.shared, place, next_call):
                return rank, self.shared.call(place)
        return None

    cdef void queue_callbacks(self, Message message):
        self.finished.append(message)

    cdef int call_back(self) except -1:
        """Call back without the lock, since callbacks may make any call."""
        cdef Message message
        while self.finished:
            message = self.finished.popleft()
            callbacks, message.callbacks = message.callbacks, None
            run_callbacks(callbacks or (), message)
        return 0
