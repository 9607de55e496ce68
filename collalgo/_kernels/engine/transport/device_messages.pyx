# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Messages between the memory of devices, which a CUDA-aware engine reads and writes.

They have a tag of their own, behind those of the lanes, and nothing is staged: each is a
message of the engine, or several if it is long.
"""

from libc.stdint cimport int64_t, uintptr_t
from libc.stdlib cimport calloc, free
from posix.unistd cimport usleep

from collalgo._kernels.engine.transport.network cimport Network
from collalgo._kernels.engine.transport.transport cimport LANE_LIMIT
from collalgo._kernels.engine.transport.wire cimport ARRIVED, LOST, UNDER_WAY

cdef extern from "ticks.h" nogil:
    int64_t nanoseconds()

#: The tags of a world: one for each lane, and one for the messages of devices.
TAGS = LANE_LIMIT + 1

cdef enum:
    MOST_BYTES = 1 << 30   # of a message of the engine
    LOOK = 20_000_000      # nanoseconds between two calls of ``check``
    QUIET_TURNS = 100      # without progress, after which the core is left to others
    PATIENCE = 1000        # the tests of a cancelled receive

cdef struct part:
    char *data
    int64_t nbytes, rank, request, arrived
    bint is_sent, under_way


cdef class DeviceMessages:
    """The messages of one rank to and from all others of a world.

    Parameters
    ----------
    network : Network
        The channels of the rank, whose engine carries the messages.

    Attributes
    ----------
    in_use : bool
        Whether the engine may still read or write memory of a failed exchange.
    """
    cdef Network network
    cdef readonly bint in_use

    def __init__(self, Network network):
        self.network = network

    def exchange(self, list sends, list receives, check):
        """Send and receive memory, and wait until it has arrived and may change.

        Parameters
        ----------
        sends, receives : list of tuple of int
            The address, the number of bytes and the other rank of each message. Between
            two ranks they arrive in their order.
        check : callable
            Called at intervals; an error that it raises ends the wait.

        Raises
        ------
        ConnectionError
            If the engine has lost the connection to another rank.
        """
        cut = [*parts_of(receives, False), *parts_of(sends, True)]
        cdef int64_t count = len(cut)
        cdef part *parts = <part *>calloc(max(count, 1), sizeof(part))
        if parts == NULL:
            raise MemoryError
        try:
            for i, (pointer, nbytes, rank, is_sent) in enumerate(cut):
                parts[i].data = <char *><uintptr_t>pointer
                parts[i].nbytes, parts[i].rank, parts[i].is_sent = nbytes, rank, is_sent
            self.run(parts, count, check)
        except BaseException:
            self.give_up(parts, count)
            raise
        finally:
            free(parts)

    cdef int run(self, part *parts, int64_t count, check) except -1:
        """Begin all messages, and wait for them."""
        cdef int status
        with nogil:
            status = self.begin(parts, count)
        while status == UNDER_WAY:
            with nogil:
                status = self.drive(parts, count)
            if status == UNDER_WAY:
                check()
        if status == LOST:
            raise ConnectionError("the engine has lost a message of a device")
        return 0

    cdef int begin(self, part *parts, int64_t count) noexcept nogil:
        """Begin all messages."""
        cdef int64_t i, address, tag = self.network.first_tag + LANE_LIMIT
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
                return LOST
            one.under_way = True
        return UNDER_WAY

    cdef int drive(self, part *parts, int64_t count) noexcept nogil:
        """Wait for all messages for a while: ARRIVED, UNDER_WAY or LOST."""
        cdef int64_t end = nanoseconds() + LOOK, turn = 0, left = count, before, i
        cdef int status
        while left and nanoseconds() < end:
            before, left = left, 0
            for i in range(count):
                if parts[i].under_way:
                    status = self.test(&parts[i])
                    if status == LOST:
                        return LOST
                    left += status == UNDER_WAY
            turn = 0 if left < before else turn + 1
            if turn > QUIET_TURNS:
                usleep(50)
        return UNDER_WAY if left else ARRIVED

    cdef int test(self, part *one) noexcept nogil:
        """The status of a message; LOST, too, if it is shorter than it should be."""
        cdef int status = self.network.wire.test(
            self.network.addresses[one.rank], &one.request, &one.arrived
        )
        one.under_way = status == UNDER_WAY
        if status == ARRIVED and not one.is_sent and one.arrived != one.nbytes:
            return LOST
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
