"""Joining: connect a process with the other ranks of its job."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer

from collalgo.base.environment import JOB, RENDEZVOUS
from collalgo.base.threads import start
from collalgo.bootstrap.context import Context
from collalgo.bootstrap.ended_ranks import EndedRanks
from collalgo.bootstrap.identity import RUN, Identity, Route, launcher_of
from collalgo.bootstrap.join_arguments import JoinArguments
from collalgo.bootstrap.launcher_variables import RESTART_COUNT
from collalgo.bootstrap.rendezvous import HostRendezvous
from collalgo.bootstrap.user_secret import user_secret
from collalgo.errors import BootstrapError

#: Seconds after which a restarted rank reports the reason of its wait.
WAITING_SECONDS = 5.0

#: The advice for a rank that was restarted while the others continue.
RESTARTED = (
    "this rank was started again, but a running world admits no ranks; make the "
    "program elastic (collalgo.elastic.run), or pass --max-restarts 0 and let the "
    "others call comm.shrink()"
)


def join(arguments: JoinArguments) -> Context:
    """Connect with the other ranks, at the given store or that of the launcher.

    Ranks that join over MPI need an integration; see ``JoinArguments.over_mpi``.

    Raises
    ------
    ValueError
        If the store is invalid, or rank and size are unknown.
    BootstrapError
        If the ranks cannot connect.
    """
    me = arguments.launched
    if me is None:
        from collalgo.bootstrap.init_urls import connect_by_url

        return connect_by_url(arguments)
    try:
        with _warning_if_restarted():
            return _join_launched(arguments, me)
    except BootstrapError as error:
        raise _explained(error) from None


def _is_restarted() -> bool:
    """Whether the launcher has started this rank again, and not the others."""
    restarts = os.environ.get(RESTART_COUNT, "0")
    return bool(RENDEZVOUS.given()) and restarts != "0"


@contextmanager
def _warning_if_restarted() -> Iterator[None]:
    """Report after a while the reason of the wait of a restarted rank."""
    if not _is_restarted():
        yield
        return
    import logging  # which other ranks do not need

    warn = logging.getLogger("collalgo").warning
    timer = Timer(WAITING_SECONDS, warn, [f"init waits: {RESTARTED}"])
    timer.daemon = True
    start(timer)
    try:
        yield
    finally:
        timer.cancel()


def _explained(error: BootstrapError) -> BootstrapError:
    """The error, with the variables that rank and size are from, or of a restart."""
    launcher = launcher_of(os.environ)
    if _is_restarted():
        text = f"{error}; {RESTARTED}"
    elif launcher is None or launcher.mark == JOB.name:  # which starts all ranks
        return error
    else:
        text = f"{error}; rank and size are from {launcher.words(os.environ)}"
    return BootstrapError(text, rank=error.rank, missing=error.missing)


def _join_launched(arguments: JoinArguments, me: Identity) -> Context:
    """Connect according to the variables of the launcher."""
    if me.route is Route.HOST or me.size == 1:
        ended = EndedRanks(me.rank) if me.launcher == RUN else None
        rendezvous = HostRendezvous(_rendezvous_name(me), ended)
        return rendezvous.connect("", me.rank, range(me.size), arguments.timeout)
    if me.route is Route.STORE:
        from collalgo.bootstrap.connect import connect_to_store
        from collalgo.bootstrap.membership import Membership

        return connect_to_store(me.job, Membership(me.rank, store_rank=None), arguments)
    from collalgo.bootstrap.connect import connect_over
    from collalgo.bootstrap.init_urls import store_of_launcher

    return connect_over(store_of_launcher(arguments), arguments)


def _rendezvous_name(me: Identity) -> str:
    """The name of the rendezvous of a host, which other users cannot guess."""
    if me.is_job_secret or me.size == 1:  # needs no secret name
        return me.job or f"alone/{os.getpid()}"
    return f"{me.job} {user_secret().hex()}"
