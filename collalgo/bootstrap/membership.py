"""Who is still there: ranks that die or leave, and what the ranks agree has failed.

A rank notices by itself what happens on its host. What happens on others it hears from
the store of the job: each process leases a key there, which goes when it ends or its
host is gone; who leaves a communicator says so; and who finds out that a call cannot
succeed says why. The first to say so is believed by all.
"""

import json
from collections.abc import Container, Sequence
from contextlib import suppress
from functools import cached_property
from threading import Event, Lock
from typing import Any
from weakref import WeakValueDictionary

from collalgo._kernels.composite import Composite
from collalgo.bootstrap.store.client import Awaited, Client, StoreError
from collalgo.errors import BootstrapError

#: Seconds that the first to find a failure waits for what the others know of it.
TESTIMONY_SECONDS = 1.0

#: Seconds that the store has to answer, which may be out of reach.
ANSWER_SECONDS = 1.0

#: Seconds that the others wait for the first to say what has failed.
VERDICT_SECONDS = 3.0


class Membership:
    """The processes of a job, as one of them sees them.

    Parameters
    ----------
    rank
        The rank of this process in the job.
    keeper
        The rank that keeps the store; None if the launcher does.

    Attributes
    ----------
    bereaved : bool
        Whether a call has failed because a process is gone, or its host.
    """

    store: Client
    bereaved = False

    def __init__(self, rank: int, keeper: int | None = 0):
        self.rank = rank
        self.keeper = keeper
        self._seats: WeakValueDictionary[str, Seat] = WeakValueDictionary()
        self._gone: dict[int, str] = {}
        self._awaited: dict[Awaited, Joining] = {}
        self._lock = Lock()

    def begin(self, store: Client) -> None:
        """Show that this process is there, and watch the others."""
        self.store = store
        store.set(f"alive/{self.rank}", b"", leased=True)
        store.watch("alive/", self._alive)
        store.watch("left/", self._left)
        store.watch("failed/", self._failed)
        store.watch("verdict/", self._verdict)

    def joining(self, ranks: Sequence[int]) -> "Joining":
        """The store for processes of the job that wait for each other to join."""
        return Joining(self, ranks, range(len(ranks)))

    def get(self, key: str, timeout: float, joining: "Joining") -> bytes:
        """The value of a key, unless one of those who join is gone."""
        awaited = self.store.ask_for(key)
        with self._lock:
            self._awaited[awaited] = joining
        try:
            joining.check()
            return awaited.result(timeout)
        except StoreError:
            raise
        except BootstrapError:
            value = self.store.look(key)  # who is gone may have set it before
            if value is None:
                raise
            return value
        finally:
            with self._lock:
                del self._awaited[awaited]

    def sit(self, name: str, transport: Composite, ranks: tuple[int, ...]) -> "Seat":
        """Take the place of this process in a new world of ranks of the job."""
        seat = Seat(self, name, transport, ranks)
        with self._lock:
            self._seats[name] = seat
            gone = dict(self._gone)
        for rank, why in gone.items():
            seat.gone(rank, why)
        return seat

    def is_gone(self, rank: int) -> bool:
        """Whether a process has ended, or cannot be reached."""
        return rank in self._gone

    def first_gone(self, ranks: Container[int]) -> tuple[int, str] | None:
        """Which of some processes has gone first, and why, if one has."""
        with self._lock:
            return next((each for each in self._gone.items() if each[0] in ranks), None)

    def lost(self, why: str) -> None:
        """The store cannot be reached any more, and so the process that keeps it."""
        if self.keeper is not None:
            self._over(self.keeper, f"the connection with it is lost ({why})")
            return
        with self._lock:
            seats = list(self._seats.values())
        for seat in seats:
            seat.orphaned(f"the store of the job cannot be reached any more ({why})")

    def leave(self) -> None:
        """Leave all worlds; what happens to the others is of no interest any more."""
        with self._lock:
            seats = list(self._seats.values())
            self._seats.clear()
        for seat in seats:
            with suppress(ValueError):  # closed before
                seat.leave("its process has ended")

    def _over(self, rank: int, why: str) -> None:
        with self._lock:
            self._gone.setdefault(rank, why)
            seats = list(self._seats.values())
            awaited = list(self._awaited.items())
        for seat in seats:
            seat.gone(rank, why)
        for key, joining in awaited:
            if error := joining.obstacle():
                key.fail(error)

    def _alive(self, key: str, value: bytes | None) -> None:
        if value is None:
            rank = int(key.partition("/")[2])
            self._over(rank, "its process ended, or its host cannot be reached")

    def _left(self, key: str, value: bytes | None) -> None:
        name, _, rank = key.partition("/")[2].rpartition("/")
        seat = self._seats.get(name)
        if seat is not None and value is not None:
            seat.left(int(rank), **json.loads(value))

    def _failed(self, key: str, value: bytes | None) -> None:
        seat = self._seats.get(key.partition("/")[2])
        if seat is not None and value is not None:
            seat.failed(json.loads(value))

    def _verdict(self, key: str, value: bytes | None) -> None:
        seat = self._seats.get(key.partition("/")[2])
        if seat is not None and value is not None:
            seat.judged(json.loads(value))


class Joining:
    """The store of a job for some of its processes that wait for each other to join.

    Nobody waits for who is gone.

    Parameters
    ----------
    membership
        What this process knows of the others.
    ranks
        Of the processes in the job.
    names
        What errors call them.
    """

    def __init__(
        self, membership: Membership, ranks: Sequence[int], names: Sequence[int]
    ):
        self._membership = membership
        self._ranks = tuple(ranks)
        self._name = dict(zip(ranks, names, strict=True))

    def of(self, members: Sequence[int]) -> "Joining":
        """The same for some of them, which errors call as they are called here."""
        ranks = [self._ranks[member] for member in members]
        return Joining(self._membership, ranks, members)

    def set(self, key: str, value: bytes) -> None:
        """Give a key a value."""
        self._membership.store.set(key, value)

    def get(self, key: str, timeout: float) -> bytes:
        """The value of a key that one of the processes is to set.

        Raises
        ------
        StoreError
            If it has none in time.
        BootstrapError
            If one of the processes is gone.
        """
        return self._membership.get(key, timeout, self)

    def check(self) -> None:
        """Raise BootstrapError if one of the processes is gone."""
        if error := self.obstacle():
            raise error

    def obstacle(self) -> BootstrapError | None:
        """Why the processes will never be complete, if one of them is gone."""
        gone = self._membership.first_gone(self._name)
        if gone is None:
            return None
        me, other = self._name[self._membership.rank], self._name[gone[0]]
        return BootstrapError(
            f"rank {me} waited for all others to join, but rank {other} is gone: "
            f"{gone[1]}",
            rank=me,
            missing=(other,),
        )


class Seat:
    """The place of a process in a world on several hosts.

    Parameters
    ----------
    membership
        What the process knows of the job.
    name
        Of the world, the same for all its ranks.
    transport
        This rank's end.
    ranks
        The rank in the job of each rank of the world.
    """

    def __init__(
        self,
        membership: Membership,
        name: str,
        transport: Composite,
        ranks: tuple[int, ...],
    ):
        self._membership = membership
        self._name = name
        self._transport = transport
        self._ranks = ranks
        self._farewells: dict[int, str] = {}
        self._failure: dict[str, Any] | None = None
        self._is_judged = Event()
        self._orphaned = ""

    # ---- what the process hears

    def gone(self, job_rank: int, why: str) -> None:
        """A process of the job has ended; it may have left this world before."""
        with suppress(ValueError):
            rank = self._ranks.index(job_rank)
            if rank not in self._farewells:
                self.left(rank, 0, why)

    def left(self, rank: int, completed: int, farewell: str) -> None:
        """A rank has left after so many calls."""
        self._farewells[rank] = farewell
        if rank not in self._transport.shared.members:
            self._transport.leave_behind(rank, completed)

    def failed(self, failure: dict[str, Any]) -> None:
        """Some rank has found a failure: say what I know, and stop all calls here."""
        self._failure = failure
        with suppress(ValueError):  # closed here
            shared = self._transport.shared
            testimony = {
                str(rank): [
                    shared.entered(place),
                    shared.call(place),
                    shared.call(place, failure["sequence"]),
                ]
                for place, rank in enumerate(shared.members)
            }
            self._membership.store.tell(
                f"testimony/{self._name}/{self._transport.rank}",
                json.dumps(testimony).encode(),
            )
            shared.break_off()

    def orphaned(self, why: str) -> None:
        """Nobody can tell any more what happens on other hosts: stop all calls here."""
        self._orphaned = why
        with suppress(ValueError):  # closed here
            self._transport.shared.break_off()

    def judged(self, failure: dict[str, Any]) -> None:
        """Now all is known of the failure."""
        self._failure = failure
        self._is_judged.set()

    # ---- what the process says

    def leave(self, farewell: str) -> None:
        """Tell the ranks on other hosts that this one has left, and why."""
        about = {"completed": self._transport.shared.completed, "farewell": farewell}
        self._membership.store.tell(
            f"left/{self._name}/{self._transport.rank}", json.dumps(about).encode()
        )

    def verdict(self, failure: dict[str, Any]) -> dict[str, Any]:
        """What all ranks agree has failed, of which this one knows something."""
        try:
            if failure["kind"] != "elsewhere" and not self._is_judged.is_set():
                self._propose(failure)
            self._is_judged.wait(0 if self._orphaned else VERDICT_SECONDS)
        except StoreError:  # nobody can be asked
            pass
        found = self._failure = self._failure or self._alone(failure)
        if found["kind"] == "peer" and found["culprit"] >= 0:
            gone = self._membership.is_gone(self._ranks[found["culprit"]])
            self._membership.bereaved |= gone
        return found

    def _propose(self, failure: dict[str, Any]) -> None:
        """Say what has failed; if nobody was before me, ask the others and judge."""
        store = self._membership.store
        mine = json.dumps(failure).encode()
        key = f"failed/{self._name}"
        if store.compare_set(key, None, mine, ANSWER_SECONDS) == mine:
            self._complete(failure)
            self.judged(failure)
            store.set(f"verdict/{self._name}", json.dumps(failure).encode())

    def _alone(self, failure: dict[str, Any]) -> dict[str, Any]:
        """What I make of a failure if nobody can be asked."""
        keeper = self._membership.keeper
        if failure["kind"] == "elsewhere":
            culprit = self._ranks.index(keeper) if keeper in self._ranks else -1
            failure = {**failure, "kind": "peer", "culprit": culprit}
            failure["farewell"] = self._orphaned
        self._explain(failure)
        return failure

    def _explain(self, failure: dict[str, Any]) -> None:
        """Add why the culprit has left."""
        if failure["kind"] == "peer" and not failure["farewell"]:
            failure["farewell"] = self._farewells.get(failure["culprit"], "")

    def _complete(self, failure: dict[str, Any]) -> None:
        """Add to what I have found what only other hosts know of it."""
        self._explain(failure)
        if failure["kind"] == "peer":
            return
        known = self._testimonies(failure)
        if failure["kind"] == "mismatch":
            theirs = known.get(str(failure["culprit"]), (0, None, None))[2]
            failure["theirs"] = theirs or failure["theirs"]
            return
        missing = [
            rank
            for rank in range(len(self._ranks))
            if known.get(str(rank), (0, None, None))[0] < failure["sequence"]
        ]
        failure["missing"] = missing
        failure["last_calls"] = {
            str(rank): known[str(rank)][1] for rank in missing if str(rank) in known
        }

    def _testimonies(self, failure: dict[str, Any]) -> dict[str, Any]:
        """For each rank its number of calls, its last one, and the one that failed."""
        known: dict[str, Any] = {}
        asked = [failure["culprit"]] if failure["kind"] == "mismatch" else self._others
        for rank in [self._transport.rank, *asked]:
            if str(rank) not in known:
                with suppress(StoreError):
                    key = f"testimony/{self._name}/{rank}"
                    found = self._membership.store.get(key, TESTIMONY_SECONDS)
                    known.update(json.loads(found))
        return known

    @cached_property
    def _others(self) -> list[int]:
        return [
            r
            for r in range(len(self._ranks))
            if r not in self._transport.shared.members
        ]
