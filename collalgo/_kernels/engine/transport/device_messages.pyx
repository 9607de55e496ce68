# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Messages between the memory of devices, which a CUDA-aware engine reads and writes.

They have a tag of their own, after those of the lanes, and nothing is staged: each is a
message of the engine, or several if it is long.
"""

from cpython.exc cimport PyErr_CheckSignals
from cpython.pythread cimport PyThread_get_thread_ident
from libc.stdint cimport int64_t, uintptr_t
from libc.stdlib cimport calloc, free

from collalgo._kernels.engine.transport.network cimport DEVICES_TAG, Network
from collalgo._kernels.engine.transport.transport cimport (
    GO_ON,
    SIGNALS,
    Transport,
)
from collalgo._kernels.engine.transport.wire cimport ARRIVED, LOST, UNDER_WAY

cdef enum:
    MOST_BYTES = 1 << 30   # of a message of the engine
    PATIENCE = 1000        # the tests of a cancelled receive

cdef struct part:
    char *data
    int64_t nbytes, rank, request, arrived
    bint is_sent, under_way


cdef class DeviceMessages:
    """The messages of one rank to and from all others of a world.

    Parameters
    ----------
    transport : Transport
        The channels of the rank, which detect failures during a wait.
    network : Network
        Those to other hosts, whose engine carries the messages.

    Attributes
    ----------
    in_use : bool
        Whether the engine may still read or write memory of a failed exchange.
    """
    cdef Transport transport
    cdef Network network
    cdef readonly bint in_use

    def __init__(self, Transport transport, Network network):
        self.transport, self.network = transport, network

    def exchange(self, list sends, list receives):
        """Send and receive memory, in a call, until it has arrived and may change.

        Parameters
        ----------
        sends, receives : list of tuple of int
            The address, the number of bytes and the other rank of each message. Between
            two ranks they arrive in their order.

        Returns
        -------
        bool
            Whether the call continues; otherwise it has failed at all ranks.
        """
        cut = [*parts_of(receives, False), *parts_of(sends, True)]
        cdef int64_t count = len(cut)
        cdef part *parts = <part *>calloc(max(count, 1), sizeof(part))
        cdef bint done = False
        if parts == NULL:
            raise MemoryError
        try:
            for i, (pointer, nbytes, rank, is_sent) in enumerate(cut):
                parts[i].data = <char *><uintptr_t>pointer
                parts[i].nbytes, parts[i].rank, parts[i].is_sent = nbytes, rank, is_sent
            done = self.run(parts, count) == GO_ON
        finally:
            if not done:
                self.give_up(parts, count)
            free(parts)
        return done

    cdef int run(self, part *parts, int64_t count) except -100:
        """Begin all messages, and wait for them: GO_ON or STOP."""
        cdef int64_t idle = 0
        cdef int status
        with nogil:
            self.begin(parts, count)
            status = self.drive(parts, count, &idle)
        while status == SIGNALS:
            self.transport.handler = <unsigned long>PyThread_get_thread_ident()
            try:
                PyErr_CheckSignals()
            finally:
                self.transport.handler = 0
            with nogil:
                status = self.drive(parts, count, &idle)
        if idle:
            self.transport.resume()
        return status

    cdef void begin(self, part *parts, int64_t count) noexcept nogil:
        """Begin messages, until one is lost."""
        cdef int64_t i, address, tag = self.network.first_tag + DEVICES_TAG
        cdef int status
        cdef part *one
        for i in range(count):
            one = &parts[i]
            address = self.network.addresses[one.rank]
            if one.is_sent:
                status = self.network.wire.send(
                    address, tag, one.data, one.nbytes, False, &one.request
                )
            else:
                status = self.network.wire.receive(
                    address, tag, one.data, one.nbytes, &one.request
                )
            if status == LOST:
                self.network.lost = one.rank
                return
            one.under_way = True

    cdef int drive(self, part *parts, int64_t count, int64_t *idle) noexcept nogil:
        """Wait for all messages: GO_ON, or the status of a pause."""
        cdef int64_t left = count, before, i
        cdef int status = GO_ON
        while status == GO_ON:
            before, left = left, 0
            for i in range(count):
                left += parts[i].under_way and self.test(&parts[i]) == UNDER_WAY
            if left == 0 and self.network.lost < 0:
                break
            if left < before and idle[0]:
                self.transport.resume()
                idle[0] = 0
            status = self.transport.pause(idle)
        return status

    cdef int test(self, part *one) noexcept nogil:
        """The status of a message; LOST, too, if it is shorter than it should be."""
        cdef int status = self.network.wire.test(
            self.network.addresses[one.rank], &one.request, &one.arrived
        )
        one.under_way = status == UNDER_WAY
        if status == ARRIVED and not one.is_sent and one.arrived != one.nbytes:
            status = LOST
        if status == LOST:
            self.in_use = True  # the engine may still hold the memory
            self.network.lost = one.rank
        return status

    cdef void give_up(self, part *parts, int64_t count) noexcept nogil:
        """Cancel the receives, and leave the sends to the engine."""
        cdef int64_t i, _turn
        for i in range(count):
            if parts[i].under_way and not parts[i].is_sent:
                self.network.wire.cancel(&parts[i].request)
            for _turn in range(PATIENCE):
                if parts[i].under_way:
                    self.test(&parts[i])
            if parts[i].under_way:
                self.in_use = True
                if parts[i].is_sent:
                    self.network.wire.abandon(&parts[i].request)


def parts_of(list messages, bint is_sent):
    """The messages of the engine that carry some messages."""
    for pointer, nbytes, rank in messages:
        for begin in range(0, nbytes, MOST_BYTES):
            yield pointer + begin, min(nbytes - begin, MOST_BYTES), rank, is_sent
