"""The comparison of calls that make groups with the calls of the other members.

Only its members make a group, so no message of all ranks carries such a call. A rank
that waits for other members reads their current calls: on one host in the shared
memory, between hosts over the store. Otherwise it would wait until the timeout for a
member that stays in another call, or waits for a group of other ranks.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from time import monotonic
from typing import Any, NamedTuple

from collalgo._kernels.engine.transport import group_calls
from collalgo._kernels.engine.transport.shared_memory import SharedMemory
from collalgo.base.digest import blake2b

#: The collective in the record of a call that makes a group.
GROUP = -1

#: The op in the record of a call that has none.
NO_OP = -1

#: Characters of the ranks in a record, which are shortened beyond.
WORDS = 39

#: Seconds for which a member must stay in another call. It may have joined meanwhile,
#: which the wait sees first.
PATIENCE = 0.25

#: Seconds between two questions to other hosts.
AGAIN = 1.0


class GroupCall(NamedTuple):
    """A call that makes a group.

    Attributes
    ----------
    name : str
        The call, as the user made it.
    members : tuple of int
        The ranks of the group.
    number : int
        The number of groups of these ranks, in this order, that have been made so.
    """

    name: str
    members: tuple[int, ...]
    number: int

    @property
    def path(self) -> str:
        """The name of the group, the same on all members."""
        return f"{_joined(self.members)}#{self.number}"

    @property
    def text(self) -> str:
        """Its ranks in a few characters."""
        return shortened(self.members)

    def record(self, sequence: int, number: int) -> dict[str, Any]:
        """The record of the call, in place of the next one with a number."""
        compared = repr((self.members, self.number)).encode()
        fingerprint = blake2b(compared, digest_size=8).digest()
        return {
            "sequence": sequence,
            "fingerprint": int.from_bytes(fingerprint, "little", signed=True),
            "collective": GROUP,
            "dtype": 0,
            "op": NO_OP,
            "root": 0,
            "count": len(self.members),
            "number": number,
            "passed": len(self.members),
            "algorithm": f"{self.name} {self.text}",
        }


@lru_cache(maxsize=64)
def _joined(members: tuple[int, ...]) -> str:
    return "-".join(map(str, members))


def shortened(ranks: Sequence[int]) -> str:
    """Ranks in a few characters.

    >>> shortened([2, 1, 0])
    '[2, 1, 0]'
    >>> shortened(range(100))
    '[0, 1, ..., 98, 99] (100)'
    """
    text = str(list(ranks))
    if len(text) <= WORDS - len("group "):
        return text
    first, *second = ranks[0], ranks[1]
    return f"[{first}, {second[0]}, ..., {ranks[-2]}, {ranks[-1]}] ({len(ranks)})"


class GroupCalls:
    """The call for a group that one rank of a world waits in.

    Parameters
    ----------
    shared
        The transport among the ranks of this host.
    rank
        The rank in the world.
    """

    def __init__(self, shared: SharedMemory, rank: int):
        self._shared, self._rank = shared, rank
        self._call: GroupCall | None = None
        self._made: dict[tuple[int, ...], int] = {}
        self._heard: dict[int, dict[str, Any]] = {}
        self._answered: dict[int, Any] = {}
        self._seen: dict[int, tuple[dict[str, Any], float]] = {}
        self._announced: dict[str, Any] | None = None
        self._asks_at = 0.0

    def new(self, name: str, members: tuple[int, ...]) -> GroupCall:
        """A new call for a group."""
        number = self._made[members] = self._made.get(members, 0) + 1
        return GroupCall(name, members, number)

    @contextmanager
    def waiting(self, call: GroupCall) -> Iterator[bool]:
        """Wait for the others in a call: whether it is compared.

        It is not after a failure, when the survivors make a group, nor beside
        one in another thread.
        """
        compared = self._call is None and self._shared.failure() is None
        if not compared:
            yield False
            return
        self._seen, self._heard, self._announced = {}, {}, None
        self._asks_at = monotonic() + PATIENCE
        self._call = call
        try:
            yield True
        finally:
            self._call = None
            group_calls.withdraw(self._shared)

    # ---- the wait

    def report_difference(self, ask: Callable[[], None] | None) -> bool:
        """Report a member that makes another call: whether calls are known to differ.

        Parameters
        ----------
        ask
            Sends the calls of this rank to those of other hosts, which answer if theirs
            differ; None if there are no other hosts.
        """
        call, shared = self._call, self._shared
        if call is None or shared.closed:
            return False
        if failure := shared.failure():
            return failure["kind"] in ("mismatch", "elsewhere", "revoked")
        mine = self._record(call)
        found = self._calls_here(call, mine) if ask is None else self._asked(ask)
        if culprit := self._confirmed(found):
            group_calls.report_failure(shared, mine, *culprit)
        return culprit is not None

    def _record(self, call: GroupCall) -> dict[str, Any]:
        shared = self._shared
        last = shared.call(shared.rank)
        number = last["number"] + 1 if last else 1
        return call.record(shared.entered(shared.rank) + 1, number)

    def _asked(self, ask: Callable[[], None]) -> dict[int, Any]:
        """The other calls of members, as members on any host report them."""
        if monotonic() >= self._asks_at:
            self._asks_at = monotonic() + AGAIN
            ask()
        return dict(self._heard)

    def _calls_here(self, call: GroupCall, mine: dict[str, Any]) -> dict[int, Any]:
        """The other calls of members on this host."""
        found: dict[int, dict[str, Any] | None] = {}
        shared, number = self._shared, mine["sequence"]
        if self._announced != mine:
            self._announced = mine
            group_calls.announce(shared, mine, call.members)
        for member in call.members:
            if member == self._rank:
                continue
            theirs = group_calls.announced(shared, member)
            if theirs and theirs["fingerprint"] != mine["fingerprint"]:
                found[member] = theirs
            elif group_calls.is_in_call(shared, member, number):
                found[member] = shared.call(member, number) or shared.call(member)
        return {member: theirs for member, theirs in found.items() if theirs}

    def _confirmed(self, found: dict[int, Any]) -> tuple[int, dict[str, Any]] | None:
        """A member that has been in another call for a while, and that call."""
        now = monotonic()
        self._seen = {
            member: (call, seen[1])
            if (seen := self._seen.get(member)) and seen[0] == call
            else (call, now)
            for member, call in found.items()
        }
        for member, (call, since) in self._seen.items():
            entered = self._shared.entered(self._shared.rank)
            is_ahead = call["collective"] == GROUP or call["sequence"] > entered
            if now - since >= PATIENCE and is_ahead:
                return member, call
        return None

    # ---- the ranks of other hosts

    def question(self) -> dict[str, Any] | None:
        """The call for a group that this rank waits in, for the others to compare."""
        call = self._call
        return call and {
            "record": self._record(call), "members": call.members,
            "number": call.number,
        }  # fmt: skip

    def note(
        self, rank: int, last: dict[str, Any] | None, question: dict[str, Any] | None
    ) -> bool:
        """Note the call in which another rank waits: whether it needs an answer.

        Parameters
        ----------
        rank
            The other rank.
        last
            Its last call, which it is in unless it waits in a call for a group.
        question
            Its call for a group.
        """
        call = self._call
        its = question and question["record"]
        with_me = question and self._rank in question["members"]
        if call is not None and rank in call.members:
            mine = self._record(call)
            if question is None and last and last["sequence"] >= mine["sequence"]:
                self._heard[rank] = last
            elif its and its["fingerprint"] != mine["fingerprint"] and with_me:
                self._heard[rank] = its
        return question is not None and self._differs(rank, question)

    def _differs(self, rank: int, question: dict[str, Any]) -> bool:
        """Whether this rank is in another call than a call for a group, seen once."""
        members, number = tuple(question["members"]), question["number"]
        number_of_call = question["record"]["sequence"]
        if self._rank not in members or self._made.get(members, 0) >= number:
            return False
        place, call = self._shared.rank, self._call
        key = members, number, call, self._shared.entered(place)
        if self._answered.get(rank) == key:
            return False
        in_group = call is not None and rank in call.members
        if in_group or group_calls.is_in_call(self._shared, place, number_of_call):
            self._answered[rank] = key
            return True
        return False
