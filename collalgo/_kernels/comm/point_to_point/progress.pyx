# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The progress of the messages of a rank.

A thread that waits for a message reads the records of other ranks; while no thread waits,
a background thread does.
"""

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t

from threading import Thread
from time import sleep

from collalgo._kernels.comm.clock cimport nanoseconds
from collalgo._kernels.comm.point_to_point.message cimport Message
from collalgo._kernels.comm.point_to_point.peer cimport Peer
from collalgo._kernels.comm.point_to_point.polling cimport Polling
from collalgo._kernels.engine.transport.message_ring cimport links_spin, links_wait
from collalgo._kernels.engine.transport.wire cimport poll_engine

from collalgo.base.threads import ThreadRefused, start
from collalgo.comm.point_to_point import errors

cdef extern from "Python.h":
    int check_interrupts "Py_MakePendingCalls"() except -1  # also what callbacks raise

cdef int64_t NEVER = 1 << 62
cdef int64_t TURN = 20_000_000  # ns of a wait before other ranks are polled again

#: The number of polls without a pause, and the pauses after them, in seconds.
cdef int64_t LOOKS = 50
cdef double FIRST_PAUSE = 5e-5, LONGEST_PAUSE = 2e-3

#: The pause of the thread while others wait, in seconds.
cdef double LONG_PAUSE = 5e-3

#: Seconds without messages after which the thread ends.
cdef double IDLE = 1.0


cdef class Progress(Polling):
    """Makes progress with the messages of one rank; see :class:`Polling`."""

    cdef bint await_message(self, Message message, int64_t until) except -1:
        cdef int64_t turn = 0
        if message.over:
            return True
        if self.is_forked():
            self.check_open(message.name)
        self.enter()
        try:
            self.poll()
            while not message.over and message.work is None:
                if self.closed:
                    message.end(errors.closed(message.name, self.rank))
                    break
                if until != NEVER and nanoseconds() >= until:
                    return False
                turn = self.take_turn(message, until, turn)
        finally:
            self.leave()
        return True

    @cython.final
    cdef int64_t take_turn(self, Message message, int64_t until, int64_t turn) except -1:
        """Wait and poll once for a message: the number of the next turn; 0 after progress."""
        self.await_write(min(until, message.deadline), turn)
        if self.poll():
            return 0
        if nanoseconds() >= message.deadline:
            self.withdraw(message)
        return turn + 1

    cdef int await_write(self, int64_t until, int64_t turn) except -1:
        """Wait for a short time until a rank has written."""
        cdef list remote = self.remote_peers()
        cdef bint ready = False
        cdef int64_t now
        if not remote and turn < LOOKS and links_spin(
            self.links, self.link_count, self.shared.patience
        ):
            return PyErr_CheckSignals()
        poll_engine()
        now = nanoseconds()
        until = min(until, now + TURN)
        if remote:
            self.await_channels(remote, 1e-9 * (until - now), turn)
        else:
            ready = self.await_links(until)
        if not ready:
            self.find_departures()
        return check_interrupts()

    @cython.final
    cdef bint await_links(self, int64_t until) noexcept:
        """Wait until a rank of this host has written: whether one has."""
        cdef int64_t spins = 0
        cdef bint ready
        if self.shared.end != NULL:
            spins = self.shared.end.usual.spins
        with nogil:
            ready = links_wait(self.bell, self.links, self.link_count, spins, until)
        return ready

    cdef list remote_peers(self):
        """The ranks whose channels this rank waits for."""
        cdef Peer peer
        cdef list found = []
        if self.link_count == len(self.known):
            return []
        for peer in self.known:
            if peer.on_host or peer.rank == self.rank:
                continue
            if self.listens or self.from_any.count or peer.waits():
                found.append(peer)
        return found

    cdef int await_channels(self, list remote, double left, int64_t turn) except -1:
        """Wait for channels: for a record on a single one, else for a pause."""
        cdef Peer peer = remote[0]
        cdef double pause = 0 if turn < LOOKS else FIRST_PAUSE * 1.1 ** (turn - LOOKS)
        is_single = len(remote) == 1 and not self.link_count
        if is_single and peer.channel is not None and not peer.reading:
            peer.reading = True
            try:
                if peer.channel.await_record(max(left, 0)):
                    return 0
            finally:
                peer.reading = False
        sleep(max(min(pause, LONGEST_PAUSE, left), 0))
        return 0

    cdef object finish(self, Message message):
        """Wait for a message in the foreground; cancel it when interrupted."""
        if message.over and message.error is None:
            return message.buf
        try:
            self.await_message(message, NEVER)
        except BaseException:
            self.withdraw(message)
            raise
        return message.wait()

    # ---- the thread

    cdef Message in_background(self, Message message):
        """Let the background thread make progress while no other thread waits."""
        if not self.serving and not message.over:
            self.serving = True
            try:
                start(Thread(target=self.serve, name="collalgo messages", daemon=True))
            except ThreadRefused:
                self.serving = False
                raise
        return message

    cdef bint has_waiting(self) except -1:
        """Whether a message waits for another rank."""
        cdef Peer peer
        for peer in self.known:
            if peer.waits():
                return True
        return self.from_any.count > 0 or bool(self.to_fetch)

    cdef list waiting(self):
        """The messages that wait for other ranks."""
        cdef Peer peer
        found = [*self.from_any.items(), *self.to_fetch]
        for peer in self.known:
            found += [*peer.posted.items(), *peer.cleared.values(), *peer.sends()]
            found += peer.unsent
        return found

    def serve(self):
        """Make progress until there have been no messages for some time."""
        cdef double pause = FIRST_PAUSE, idle = 0
        try:
            while idle < IDLE and not self.closed and not self.is_forked():
                sleep(pause)
                idle += pause
                self.call_back()  # for messages that ended by the death of a rank
                if self.users:
                    pause, idle = LONG_PAUSE, 0
                elif self.has_waiting():
                    pause = FIRST_PAUSE if self.poll() else min(1.1 * pause, LONGEST_PAUSE)
                    idle = 0
                    if pause == LONGEST_PAUSE:
                        self.give_up_late()
                else:
                    pause = LONG_PAUSE
        finally:
            self.serving = False

    def give_up_late(self):
        """Cancel the messages whose timeout has passed, and find the ranks that have left."""
        cdef int64_t now = nanoseconds()
        self.find_departures()
        for message in self.waiting():
            if isinstance(message, Message) and (<Message>message).deadline <= now:
                self.withdraw(message)
