"""Survivors report lost members to a store that sees only the end of their leases.

Those of a node that is lost have no launcher to report them, and the others could form
no epoch until the leases have ended.
"""

from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from time import monotonic, sleep

from collalgo.base.threads import ThreadRefused, start
from collalgo.bootstrap.context import Context
from collalgo.bootstrap.store.ended_members import remove_processes
from collalgo.bootstrap.store.protocol import KeyValueStore
from collalgo.elastic.interface import Membership
from collalgo.errors import BootstrapError

#: Seconds for which lost members are reported, and between two polls: others may end
#: somewhat later, and the store may have lost its leader.
MOST_SECONDS, PAUSE = 10.0, 0.05


def report_lost(
    store: KeyValueStore,
    member: Membership,
    context: Context,
    is_over: Callable[[], bool],
) -> None:
    """Let a thread of the first survivor report lost members, until an epoch begins.

    A rendezvous without tokens of its members, as that of a plug-in, is told nothing.

    Parameters
    ----------
    store
        The store of the job.
    member, context
        The place of this process in the epoch, and its world.
    is_over
        Whether this process is a member of the next epoch.
    """
    if not member.tokens or store.sees_ends:
        return
    words = store, member, context, is_over
    thread = Thread(target=_report, args=words, name="collalgo lost members")
    thread.daemon = True
    with suppress(ThreadRefused):
        start(thread)


def _report(
    store: KeyValueStore,
    member: Membership,
    context: Context,
    is_over: Callable[[], bool],
) -> None:
    end, reported = monotonic() + MOST_SECONDS, set[int]()
    while not (is_over() or context.has_left) and monotonic() < end:
        lost = set(context.rendezvous.lost())
        first = min({*range(member.size)} - lost, default=0)
        if member.rank == first and lost > reported:
            with suppress(BootstrapError, OSError):
                remove_processes(store, {member.tokens[rank] for rank in lost})
                reported = lost
        sleep(PAUSE)
