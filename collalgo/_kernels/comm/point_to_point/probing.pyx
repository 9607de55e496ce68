# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The messages that have arrived, before a call receives them: probes and records.

A record is a message of any length that its receiver takes without a call for it.
"""

cimport numpy as cnp
from cpython.bytes cimport (
    PyBytes_AS_STRING,
    PyBytes_FromStringAndSize,
    PyBytes_GET_SIZE,
)
from libc.stdint cimport int64_t
from libc.string cimport memcpy

import math

import numpy as np

from collalgo._kernels.comm.clock cimport nanoseconds
from collalgo._kernels.comm.point_to_point.inbox cimport Arrival
from collalgo._kernels.comm.point_to_point.message cimport (
    Message,
    new_message,
    time_after,
)
from collalgo._kernels.comm.point_to_point.peer cimport Peer
from collalgo._kernels.comm.point_to_point.receiving cimport Receiving
from collalgo._kernels.engine.transport.message_ring cimport wake_waiters

from collalgo.base.integers import INT64_MAX, integer
from collalgo.comm.point_to_point import errors
from collalgo.comm.point_to_point.channel import EAGER_BYTES
from collalgo.engine.dtypes import dtype_text

cnp.import_array()


cdef class Probing(Receiving):
    """The probes of a rank, and its records; see :class:`Receiving`."""

    cdef int64_t checked(self, value, str name, str call, int64_t most) except -1:
        """An argument from 0 to ``most``."""
        if type(value) is int and 0 <= value <= most:
            return value
        return integer(value, name, call, 0, most)

    cdef int check_background(self, str call) except -1:
        """Check that messages can move in the background."""
        home = self.home()
        if home is not None:
            home.check_background(call)
        return 0

    def probe(self, source, tag, double seconds, str name="probe"):
        """Wait for a message: its sender, its dtype and the number of its elements."""
        cdef int64_t turn = 0, until = time_after(seconds)
        self.check_open(name)
        self.enter()
        try:
            while (found := self.iprobe(source, tag, seconds, name)) is None:
                if nanoseconds() >= until:
                    raise self.probe_error(source, tag, seconds, name)
                self.await_write(until, turn)
                turn += 1
        finally:
            self.leave()
        return found

    cdef object probe_error(self, source, int64_t tag, double seconds, str name):
        """The error of a probe that found no message."""
        peers = (source,) if source is not None else tuple(
            rank for rank in range(self.size) if rank != self.rank
        )
        busy = self.in_collective(peers)
        return self.in_world(
            errors.probe_error(name, source, tag, self.rank, peers, seconds, busy)
        )

    def iprobe(self, source, tag, double seconds, str name="iprobe"):
        """The same without a wait; None if no message has arrived."""
        cdef Peer peer
        self.check_open(name)
        cdef int64_t number = self.checked(tag, "tag", name, INT64_MAX)
        cdef list remote = []
        ranks = range(self.size) if source is None else [
            self.checked(source, "source", name, self.size - 1)
        ]
        self.acquire()
        try:
            self.check_open(name)
            for peer in [self.peer(rank) for rank in ranks]:
                if found := self.probe_peer(peer, number, source is None, name):
                    return found
                if not peer.on_host:
                    remote.append(peer)
        finally:
            self.release()
        for peer in remote:
            peer.connect(name, math.inf if seconds < 0 else seconds)
        return None

    cdef tuple probe_peer(self, Peer peer, int64_t tag, bint is_any, str name):
        """The first message of a rank with a tag, or None.

        Raises the failure of the rank, but not that it has left if any other may send.
        """
        cdef Arrival arrival
        peer.progress()
        arrival = <Arrival>peer.unexpected.first(tag)
        if arrival is not None:
            return peer.rank, dtype_text(arrival.head.dtype), arrival.head.count
        if peer.failure is not None and not (is_any and peer.has_left):
            raise self.in_world(peer.error(name))
        return None

    def unexpected_bytes(self, int64_t rank):
        """The bytes of short messages of a rank that no call has taken yet."""
        cdef Arrival arrival
        cdef int64_t found = 0
        for arrival in self.peer(rank).unexpected.items():
            if arrival.elements is not None:
                found += arrival.head.nbytes
        return found

    # ---- records

    def listen(self):
        """Connect with all ranks, as any may send records."""
        cdef Peer peer
        self.check_background("recv")
        self.acquire()
        try:
            self.check_open("recv")
            peers = [self.peer(rank) for rank in range(self.size)]
            self.listens = True
        finally:
            self.release()
        for peer in peers:
            if not peer.on_host:
                peer.connect("recv", math.inf)

    def record_bytes(self, int64_t rank):
        """The most bytes of a record to a rank that is sent at once."""
        cdef Peer peer = self.peer(rank)
        return peer.eager_bytes if peer.on_host else EAGER_BYTES

    def take_records(self, int64_t tag):
        """The records that have arrived under a tag: their senders and bytes."""
        cdef list found
        self.acquire()
        try:
            self.check_open("recv")
            self.poll_locked()
            found = self.remove_records(tag)
        finally:
            self.release()
        if found and self.users:  # another thread waits for them
            wake_waiters(self.bell)
        for place, (rank, elements) in enumerate(found):
            if isinstance(elements, Message):  # whose sender had no room
                found[place] = rank, elements.wait().tobytes()
        return found

    cdef list remove_records(self, int64_t tag):
        cdef Peer peer
        cdef Arrival arrival
        cdef list found = []
        for peer in self.known:
            arrival = <Arrival>peer.unexpected.first(tag)
            while arrival is not None:
                peer.unexpected.remove(arrival)
                if not arrival.is_withdrawn:
                    found.append((peer.rank, self.elements_of(peer, arrival)))
                arrival = <Arrival>peer.unexpected.first(tag)
        return found

    cdef object elements_of(self, Peer peer, Arrival arrival):
        """The bytes of a record, or the message that receives them."""
        cdef Message message
        if arrival.elements is not None:
            peer.count_taken(arrival.head.nbytes)
            return arrival.elements
        message = new_message(
            "recv", np.empty(arrival.head.nbytes, np.uint8), arrival.tag, peer.rank, -1, self
        )
        peer.deliver(message, &arrival.head, NULL)
        return message

    cdef bint has_record(self, int64_t tag):
        cdef Peer peer
        for peer in self.known:
            if peer.unexpected.first(tag) is not None:
                return True
        return False

    def await_record(self, int64_t tag, Message message, double seconds):
        """Wait until a record has arrived, or a message is done: whether that is so."""
        cdef int64_t turn = 0, until = time_after(seconds)
        self.check_open("recv")
        self.enter()
        try:
            self.poll()
            while not self.has_record(tag):
                if message is not None and (message.over or message.work is not None):
                    return True
                if nanoseconds() >= until:
                    return False
                self.await_write(until, turn)
                self.poll()
                turn += 1
        finally:
            self.leave()
        return True

    def is_waiting(self):
        """Whether a message waits for another rank, or for room."""
        return self.has_waiting()

    def lost(self, str call):
        """The errors of the ranks that have failed or left, by rank."""
        cdef Peer peer
        self.find_departures()
        known = [peer for peer in self.known if peer.failure is not None]
        return {peer.rank: peer.error(call) for peer in known}


def joined(bytes head, cnp.ndarray array):
    """A record: its header, then the elements of an array in C order."""
    cdef Py_ssize_t size = PyBytes_GET_SIZE(head)
    cdef int64_t nbytes = cnp.PyArray_NBYTES(array)
    cdef bytes record = PyBytes_FromStringAndSize(NULL, size + nbytes)
    memcpy(PyBytes_AS_STRING(record), PyBytes_AS_STRING(head), size)
    memcpy(PyBytes_AS_STRING(record) + size, cnp.PyArray_DATA(array), nbytes)
    return record


def fill(cnp.ndarray array, bytes elements):
    """Copy bytes to the beginning of an array in C order, which has room for them."""
    memcpy(cnp.PyArray_DATA(array), PyBytes_AS_STRING(elements), PyBytes_GET_SIZE(elements))
