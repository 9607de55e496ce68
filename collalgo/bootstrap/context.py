"""The transport and the resources of one rank of a world."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from collalgo._kernels.engine.transport import survivors
from collalgo._kernels.engine.transport.shared_memory import SharedMemory
from collalgo.base.digest import hexadecimal
from collalgo.bootstrap.agreement import FailureAgreement
from collalgo.bootstrap.differences import difference_on_host
from collalgo.bootstrap.group_calls import GroupCalls
from collalgo.bootstrap.host_memory import HostMemory
from collalgo.cost.host_profile import HostProfile
from collalgo.errors import BootstrapError

if TYPE_CHECKING:  # as few worlds need them
    from collalgo._kernels.engine.transport.composite import Composite
    from collalgo.bootstrap.host_inventory import PlacedTopology
    from collalgo.bootstrap.last_calls import LastCalls
    from collalgo.bootstrap.survivors import SurvivorRounds

#: Seconds that a rank waits for the others to connect, by default.
JOIN_TIMEOUT = 60.0

#: Called while ranks are waited for; an error that it raises ends the wait.
Check = Callable[[], None]


def unchecked() -> None:
    """Check nothing."""


class Rendezvous(Protocol):
    """Connects ranks as a new world."""

    def connect(
        self,
        name: str,
        rank: int,
        members: Sequence[int],
        timeout: float = JOIN_TIMEOUT,
        /,
        *,
        have_met: bool = False,
        check: Check = unchecked,
    ) -> "Context":
        """Connect some ranks, all of which call with the same name.

        It waits for all of them, unless they ``have_met`` for this in another call.
        While it waits it calls ``check`` at intervals; its errors end the wait.
        """

    def suffices(self, members: Sequence[int]) -> bool:
        """Whether some ranks can connect without the others, also if these end."""

    def lost(self) -> Sequence[int]:
        """The ranks that this one regards as lost, though they may live."""

    def connect_survivors(
        self,
        name: str,
        rank: int,
        members: Sequence[int],
        timeout: float,
        is_gone: Callable[[int], bool],
    ) -> "Context | None":
        """Connect the survivors; None on all if one ends before it has joined."""


class Newcomers(Protocol):
    """The interface by which the ranks of a world admit waiting processes."""

    def pending(self) -> int:
        """The number of waiting processes that the next epoch would admit."""

    def has_changed(self) -> bool:
        """Whether this rank knows a reason for a new epoch."""

    def grow(self, timeout: float | None) -> "Context":
        """Connect the surviving ranks and the waiting processes as a new world."""


def label_of(job: str, name: str) -> str:
    """A short label for a world of a job, which does not show the name of the job."""
    return f"{hexadecimal(job, 8)} {name or 'world'}"


class Context:
    """The resources of one rank of a world, released together.

    Attributes
    ----------
    transport : SharedMemory or Composite
        Its transport.
    rendezvous : Rendezvous
        Connects groups of its ranks.
    memory : HostMemory
        The memory of its host.
    machine : HostProfile or None
        The profile that all ranks of the world use.
    hosts : tuple of int
        The number of the host of each rank.
    placed : callable or None
        On several hosts: returns their topology, and the device of each rank.
    has_left : bool
        Whether this rank has left.
    groups : set of Context
        The worlds that were made of its ranks, and of those, until this rank leaves.
    engine : str or None
        The engine between its hosts; None if it has only one.
    members : tuple of int
        The ranks of the world that a group consists of; empty for a world.
    pair : tuple of int or None
        The two ranks, as errors call them, if it only carries their messages.
    members_of_both : tuple of int
        The members of the group of these two.
    one_thread : bool
        Whether the engine between its hosts allows calls from one thread only.
    newcomers : Newcomers or None
        How others can join, if they can.
    end_job : callable or None
        Releases the store and engine of a job on several hosts, once all its worlds are
        closed; otherwise it is done as the process ends.
    """

    members: tuple[int, ...] = ()
    pair: tuple[int, int] | None = None
    members_of_both: tuple[int, ...] = ()
    one_thread = False
    newcomers: Newcomers | None = None
    end_job: Callable[[], None] | None = None
    has_left = False
    _has_failed = False
    _holds_memory = True
    _survivor_rounds: "SurvivorRounds[Context] | None" = None
    _noted_in: "tuple[set[Context], ...]" = ()

    def __init__(
        self,
        transport: "SharedMemory | Composite",
        rendezvous: Rendezvous,
        memory: HostMemory,
        machine: HostProfile | None = None,
        hosts: Sequence[int] = (),
        failure_agreement: FailureAgreement | None = None,
        placed: "Callable[[], PlacedTopology] | None" = None,
        path: tuple[str, str] = ("", ""),
        engine: str | None = None,
    ):
        self.transport = transport
        self.rendezvous = rendezvous
        self.memory = memory
        self.machine = machine
        self.hosts = tuple(hosts) or (0,) * transport.size
        self.placed = placed
        self._path = path
        self.engine = engine
        self._failure_agreement = failure_agreement
        self.groups: set[Context] = set()

    @cached_property
    def label(self) -> str:
        """A short label that all ranks of the world give it."""
        return label_of(*self._path)

    @cached_property
    def group_calls(self) -> GroupCalls:
        """Compares the calls that make groups of it."""
        agreement = self._failure_agreement
        if agreement is not None:
            return agreement.group_calls
        return GroupCalls(self.shared, self.transport.rank)

    @property
    def last_calls(self) -> "LastCalls | None":
        """The last calls of ranks; None on one host, whose memory has them."""
        agreement = self._failure_agreement
        return None if agreement is None else agreement.last_calls

    @property
    def shared(self) -> SharedMemory:
        """The transport among the ranks of this host."""
        transport = self.transport
        return transport if isinstance(transport, SharedMemory) else transport.shared

    def failure(self) -> dict[str, Any]:
        """The failure of the world; all ranks report the same."""
        self._has_failed = True
        failure = self.shared.failure()
        assert failure is not None
        return (
            failure
            if self._failure_agreement is None
            else self._failure_agreement.decision(failure)
        )

    def add_group(self, group: "Context", members: tuple[int, ...]) -> None:
        """Note a world that was made of some of its ranks."""
        mine = self.members
        group.members = tuple(mine[rank] for rank in members) if mine else members
        group._noted_in = (*self._noted_in, self.groups)
        for groups in group._noted_in:
            groups.add(group)

    def revoke(self, sequence: int = 0) -> None:
        """Fail the calls of all ranks from a number on; messages fail, too."""
        self._has_failed = True
        survivors.revoke(self.shared, self.transport.rank, sequence)
        if self._failure_agreement is not None:
            self._failure_agreement.revoke(sequence)

    def revoke_next(self) -> None:
        """Fail the calls of all ranks from the next one of this rank on.

        The others can still complete the calls that this rank has completed.
        """
        self.revoke(survivors.next_call(self.shared))

    def shrink(self, timeout: float) -> "Context":
        """Connect the surviving ranks as a new world; all of them call it."""
        self.revoke_next()
        if self._survivor_rounds is None:
            from collalgo.bootstrap.survivors import HostSurvivors, SurvivorRounds

            agreement = self._failure_agreement
            self._survivor_rounds = SurvivorRounds(
                agreement.survivors() if agreement else HostSurvivors(self.shared),
                self.transport.rank,
                self.transport.size,
            )
        check = self._check_present
        found = self._survivor_rounds.connect(self.rendezvous, timeout, check)
        found.newcomers = self.newcomers
        return found

    def _check_present(self) -> None:
        """Raise BootstrapError if another thread has closed this world."""
        if self.has_left:
            raise BootstrapError("the communicator was closed while it was shrunk")

    def has_other_calls(self) -> bool:
        """Whether a member of an awaited group is known to make another call.

        It is reported, then, as a failure of this world.
        """
        agreement = self._failure_agreement
        ask = None if agreement is None else agreement.ask
        return self.group_calls.report_difference(ask)

    def release(self, *, unfinished: bool = False) -> dict[str, Any] | None:
        """Inform the other ranks, and release the memory.

        Parameters
        ----------
        unfinished
            Whether calls in the background have not ended; they fail.

        Returns
        -------
        dict or None
            How the calls of other ranks differ from those of this one, if that is
            known and no call has raised it: of two ranks, the later one finds it.
        """
        return self._leave("its communicator was closed", failed=unfinished)

    def abort(self, reason: str, *, with_groups: bool = False) -> None:
        """Release because of an error, and send the other ranks the reason."""
        self._leave(reason, failed=True)
        for group in list(self.groups) if with_groups else ():
            group.abort(reason)

    def _leave(self, exit_reason: str, *, failed: bool) -> dict[str, Any] | None:
        found = None
        if not (self.has_left or self.transport.closed or self.transport.forked):
            self.has_left = True
            in_order = not (failed or self._has_failed)
            if self._failure_agreement is not None:
                self._failure_agreement.leave(exit_reason, in_order=in_order)
            self.shared.announce_leaving(exit_reason, failed)
            if in_order and self.pair is None:
                found = self._difference()
        for groups in self._noted_in:
            groups.discard(self)
        shared = self.shared
        self.transport.close(exit_reason, failed)
        if self._holds_memory and not self.transport.forked:
            self._holds_memory = False
            self.memory.release(shared)
        return found

    def _difference(self) -> dict[str, Any] | None:
        """The first call of another rank that differs from those here, or None."""
        found = difference_on_host(self.shared)
        if found is None and self._failure_agreement is not None:
            found = self._failure_agreement.difference()
        return found
