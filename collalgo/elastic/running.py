"""Run a training function on members that join and leave."""

import logging
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import wraps
from threading import Event
from typing import Any, TypeVar

import numpy as np

from collalgo.base.arguments import wrong_type
from collalgo.base.units import counted
from collalgo.bootstrap.context import Context
from collalgo.bootstrap.launcher_variables import RESTART_COUNT
from collalgo.bootstrap.store.protocol import StoreError
from collalgo.comm.communicator import Communicator
from collalgo.comm.current import belonging, of_thread
from collalgo.comm.reasons import reason_of
from collalgo.comm.world import init
from collalgo.elastic.arguments import communicator
from collalgo.elastic.boundary import Boundary, MembersChange
from collalgo.elastic.epochs import Epochs, connect
from collalgo.elastic.launched import rendezvous_of_launcher
from collalgo.elastic.member_words import (
    gone_in_words,
    joined_in_words,
    names_of_ranks,
)
from collalgo.elastic.obstacles import MemberExcluded, end_of_excluded
from collalgo.elastic.shard_plan import sums_of
from collalgo.elastic.state import State
from collalgo.errors import (
    BootstrapError,
    CollalgoError,
    CollectiveTimeout,
    CommunicatorRevoked,
    PeerFailed,
    RendezvousClosed,
    RendezvousError,
)

_LOG = logging.getLogger("collalgo")

Result = TypeVar("Result")

#: The reason for the close of a job that has ended normally.
FINISHED = "it has ended normally"


def run(train: Callable[..., Result]) -> Callable[..., Result]:
    """Call a function again after each change of the members of the job.

    The decorated function is called with a :class:`State`, and its further arguments;
    it calls ``train(comm, state, ...)`` with the communicator of the present members.
    At first and after each change all members get the state of the most advanced one.
    When a member fails, the state goes back to the last commit, and the survivors
    continue in their processes. Waiting members are admitted at a commit, without a
    rollback. When ``train`` has returned on all members, so does this. Within it calls
    without a communicator, and :func:`collalgo.init`, use the present one.

    Under ``collalgo run --min`` members may die and be restarted. Otherwise the world
    of :func:`collalgo.init` continues with its surviving ranks; ``comm=`` is another
    communicator to begin with.

    Raises
    ------
    RendezvousError
        If there are too few members for too long.
    RendezvousClosed
        If the job was closed, and a member has failed.
    SystemExit
        In a newcomer, if the job has ended before it became a member, and in a member
        that was excluded, or stopped or cut off until the others had finished the job.

    Examples
    --------
    >>> import collalgo
    >>> import numpy as np
    >>> from collalgo import elastic
    >>> @elastic.run
    ... def train(comm, state):
    ...     while state.step < 4:
    ...         state.total += elastic.sum_shards(comm, 8, lambda k: np.ones(1))
    ...         state.step += 1
    ...         state.commit()
    ...     return float(state.total[0])
    >>> def on_each_rank(comm):
    ...     return train(elastic.State(total=np.zeros(1), step=0), comm=comm)
    >>> collalgo.threads(on_each_rank, 3)
    [32.0, 32.0, 32.0]
    """

    @wraps(train)
    def running(
        state: State, *args: Any, comm: Communicator | None = None, **named: Any
    ) -> Result:
        if not isinstance(state, State):
            advice = "an elastic.State, and further arguments after it"
            raise wrong_type("elastic.run", "state", state, advice)
        first = _first() if comm is None else _checked(comm)
        job = _Running(first, state)
        try:
            return job.run(lambda present: train(present, state, *args, **named))
        except (RendezvousClosed, MemberExcluded) as error:
            if comm is not None or (end := job.exit_after(error)) is None:
                raise
            raise end from None

    return running


#: Set once this process is a member of the job of its launcher.
_IS_MEMBER = Event()


def _first() -> Communicator:
    """The communicator to begin with: that of the first epoch, or the world."""
    if _IS_MEMBER.is_set():
        raise _second("is or was")
    rendezvous = rendezvous_of_launcher()
    if rendezvous is None:
        return init()
    try:
        first = connect(rendezvous)
    except MemberExcluded as error:
        raise end_of_excluded(error) from None
    except RendezvousClosed as error:
        if int(os.environ.get(RESTART_COUNT) or 0):  # so that it is not a stale job
            _LOG.warning("the job ended before this restarted rank could join")
        else:
            _LOG.warning("%s; this process does not join", error)
        raise SystemExit(0) from None
    _IS_MEMBER.set()
    return first


def _checked(comm: Communicator) -> Communicator:
    """A communicator that was given, if its members run no other function."""
    comm = communicator(comm, "elastic.run")
    if comm is of_thread.world and isinstance(comm._newcomers, Epochs):
        raise _second("is")
    return comm


def _second(verb: str) -> CollalgoError:
    """The error of a second function on the members of a job."""
    return CollalgoError(
        f"elastic.run: this process {verb} in the job of another elastic function, and "
        "runs only one; call this one inside that function, without elastic.run, or on "
        "a group: comm=comm.dup()"
    )


class _Running:
    """A function that runs on the present members.

    Parameters
    ----------
    comm
        The communicator to begin with.
    state
        The state of the job.
    """

    def __init__(self, comm: Communicator, state: State):
        self._comm, self._state = comm, state
        self._newcomers = comm._newcomers

    def exit_after(self, error: RendezvousError) -> SystemExit | None:
        """The end of a member that is excluded, or whose job the others have ended."""
        epochs = self._newcomers
        if isinstance(error, MemberExcluded):
            return end_of_excluded(error)
        if not isinstance(epochs, Epochs) or epochs.closed != FINISHED:
            return None
        _LOG.warning("the job ended without this member, which did not answer")
        return SystemExit(0)

    def run(self, train: Callable[[Communicator], Result]) -> Result:
        """Call the function until it has returned on all members."""
        try:
            return self._run(train)
        except BaseException as error:
            self._comm.abort(reason_of(error), with_groups=True)
            raise

    def _run(self, train: Callable[[Communicator], Result]) -> Result:
        while True:
            returned: list[Result] = []
            try:
                self._train(train, returned)
            except MembersChange:
                self._admit()
            except (PeerFailed, CollectiveTimeout, BootstrapError) as error:
                if not self._is_of_lost_members(error):
                    raise
                try:
                    self._recover(error)
                except RendezvousClosed:
                    if not returned:
                        raise
                    self._finish()  # the others have ended, too
                    return returned[0]
            else:
                self._finish()
                return returned[0]

    def _is_of_lost_members(self, error: CollalgoError) -> bool:
        """Whether an error follows from the loss of members.

        One that is lost while a group is made is named. One that held the store of the
        epoch is not, if others still read that.
        """
        if not isinstance(error, BootstrapError) or error.missing:
            return True
        epochs = self._newcomers
        if not isinstance(error, StoreError) or not isinstance(epochs, Epochs):
            return False
        return epochs.fails_soon()

    def _train(
        self, train: Callable[[Communicator], Result], returned: list[Result]
    ) -> None:
        """Call the function with the present members, and wait until all return."""
        programs = self._comm._runner.programs
        if self._newcomers is not None:
            programs.begin_by_formulas()
        self._state.sync(self._comm)
        if not self._state.revision:  # no commit may follow, at which prices are known
            programs.use_prices()
        with belonging(self._comm), self._meeting_at_commits():
            returned.append(train(self._comm))
        self._comm._runner.exchange_as_call(np.zeros(1, np.uint8), "elastic.run")

    def _meeting_at_commits(self) -> AbstractContextManager[None]:
        """A time in which members may join and leave at commits."""
        if self._newcomers is None:
            return nullcontext()
        boundary = Boundary(self._comm, self._newcomers)
        sums_of(self._comm, boundary)
        return self._state.after_commit(boundary.check)

    def _recover(self, error: CollalgoError) -> None:
        """Continue with the surviving members, which roll back as they synchronise."""
        if isinstance(error, CollectiveTimeout) and self._newcomers is None:
            raise error  # a member that is alive cannot be expelled
        epochs, revision = self._newcomers, self._state.revision
        if not isinstance(epochs, Epochs) or not isinstance(error, CommunicatorRevoked):
            names = names_of_ranks(epochs.members) if isinstance(epochs, Epochs) else ""
            text = "%s%s; going back to the commit of revision %d"
            _LOG.warning(text, error, names, revision)
            self._form()
            return
        before, lost = epochs.members, epochs.lost
        self._form()
        lost = tuple(n for n in before if n in lost or n not in epochs.members)
        remain = f"{counted(self._comm.size, 'member')} continue"
        text = "%s; %s from revision %d"
        gone = gone_in_words(lost, epochs.exclusions())
        _LOG.warning(text, gone, remain, revision)

    def _admit(self) -> None:
        """Continue with the members that wait, which rank 0 names."""
        epochs = self._newcomers
        before = epochs.members if isinstance(epochs, Epochs) else ()
        self._form()
        after = epochs.members if isinstance(epochs, Epochs) else ()
        joined = [name for name in after if name not in before]
        if joined and not self._comm.rank:
            remain = f"{counted(self._comm.size, 'member')} continue"
            _LOG.warning("%s; %s", joined_in_words(joined), remain)

    def _form(self) -> None:
        """Form the communicator of the present members."""
        before = self._comm
        _revoke_groups(before._runner.context)
        if self._newcomers is None:
            self._comm = before.shrink()
        else:
            self._comm = before.grow()
        before.close()
        _LOG.info("%d members continue as rank %d", self._comm.size, self._comm.rank)

    def _finish(self) -> None:
        """Leave a job that has ended on all members."""
        if isinstance(self._newcomers, Epochs):
            self._newcomers.end(FINISHED)


def _revoke_groups(world: Context) -> None:
    """Revoke the worlds that were made of ranks of one, and those of them.

    A rank that waits in one does not see that others have left it permanently.
    """
    for group in list(world.groups):
        with suppress(ValueError):  # closed here
            group.revoke_next()
