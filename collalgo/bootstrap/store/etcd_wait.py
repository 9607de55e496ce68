"""The wait for an answer of a member of etcd, as long as it may have one."""

import select
from http.client import HTTPConnection
from time import monotonic

from collalgo.bootstrap.store.etcd_members import Members
from collalgo.bootstrap.store.etcd_messages import names_leader, term_of
from collalgo.bootstrap.store.liveness import is_silent
from collalgo.bootstrap.store.protocol import ANSWER_SECONDS

#: Seconds between two checks of a member that is slow.
POLL_SECONDS = 0.25

#: The number of successive checks of a member whose host does not answer, that has no
#: leader, or that is slow, after which another is tried.
SILENT_POLLS, LEADERLESS_POLLS, SLOW_POLLS = 2, 4, 8


class AnswerWait:
    """A wait for the answer of one member to a request.

    A member that was cut off may have lost a request, or its connection with the leader
    may be repaired late: TCP repeats a segment after up to twice the time of the cut.

    Parameters
    ----------
    connection
        The connection on which the request was sent.
    members
        The members of the cluster.
    """

    def __init__(self, connection: HTTPConnection, members: Members):
        self._connection, self._members = connection, members
        self._member = connection.host, connection.port
        self._others = members.others(self._member)
        self._began, self._term = monotonic(), members.term
        self._polls = self._silent = self._leaderless = self._without = 0

    def run(self) -> None:
        """Wait for the answer; OSError if the member certainly has none."""
        end = self._began + ANSWER_SECONDS
        while not _is_readable(self._connection, POLL_SECONDS):
            if monotonic() > end:
                raise TimeoutError(f"it has not answered within {ANSWER_SECONDS:g} s")
            self._polls += 1
            if self._members.was_left(self._member, self._began) and self._others:
                raise ConnectionAbortedError("it has failed another request meanwhile")
            self._check()
        if not self._polls:
            self._members.abandoned = 0

    def _check(self) -> None:
        """Raise OSError if another member must be asked."""
        self._check_host()
        has_leader = bool(self._silent) or self._has_leader()
        if not self._others:
            return
        if not has_leader:
            self._members.disturb()
            self._without += 1
            self._leaderless += has_leader is False
            self._leave_leaderless(is_silent=has_leader is None)
        elif self._leaderless:  # what was asked then may be lost
            raise ConnectionAbortedError("it has had no leader meanwhile")
        else:
            self._leave_slow()

    def _check_host(self) -> None:
        self._silent = self._silent + 1 if is_silent(self._connection.sock) else 0
        if self._silent and self._others:
            self._members.disturb()
        if self._others and self._silent >= SILENT_POLLS:
            raise ConnectionAbortedError("its host does not answer")

    def _has_leader(self) -> bool | None:
        """Whether a member has a leader; None if silent, OSError if it has a new one.

        A member may have passed the request to the former leader; it then waits for
        some 7 s for what is lost.
        """
        found = self._members.status(self._member)
        newer = term_of(found)
        if 0 < self._term < newer:
            self._members.term = max(self._members.term, newer)  # of the next attempt
            raise ConnectionAbortedError("its leader has changed meanwhile")
        return names_leader(found)

    def _leave_leaderless(self, *, is_silent: bool) -> None:
        """Raise OSError if a member without a leader in several polls must be dropped.

        If it is not silent, another that has one is the next to be used.
        """
        other = self._others[self._without % len(self._others)]
        if not is_silent and names_leader(self._members.status(other)):
            self._members.turn_to(other)
            raise ConnectionAbortedError(f"it has no leader, but {other[0]} has one")
        if self._without >= LEADERLESS_POLLS:
            raise ConnectionAbortedError("it has no leader, or hangs")

    def _leave_slow(self) -> None:
        """Raise OSError if a member is slow, and another one is not.

        After a disturbance that is soon. If all members are slow, each further request
        waits twice as long.
        """
        soon = 1 if self._members.is_disturbed else SLOW_POLLS
        if self._polls < soon << self._members.abandoned:
            return
        other = self._others[self._polls % len(self._others)]
        if self._members.answers(other):
            self._members.abandoned += 1
            self._members.turn_to(other)
            raise ConnectionAbortedError(f"it is slow, but {other[0]} is not")


def _is_readable(connection: HTTPConnection, seconds: float) -> bool:
    """Whether an answer, or the end of the connection, comes in some seconds."""
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(seconds * 1e3))
