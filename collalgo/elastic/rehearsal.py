"""The first calls of a newcomer, rehearsed before the others wait for it."""

from importlib import import_module
from logging import getLogger

import numpy as np

from collalgo.bootstrap.connect import without_mpi
from collalgo.bootstrap.host_inventory import PlacedTopology, detected
from collalgo.comm.library_programs import LibraryPrograms
from collalgo.cost.host_profile import HostProfile, host_profile, kept_profile
from collalgo.elastic.transfer import SYNC
from collalgo.engine.call import Call
from collalgo.topology.ranks import local_view

#: Ranks of the world for which calls are rehearsed.
RANKS = 2

#: The first calls of most members: two of ``State.sync``, and one of a training.
CALLS = (
    Call("broadcast", np.dtype(np.int64), 2),
    Call("broadcast", np.dtype(np.uint8), 1 << 20),
    Call("allreduce", np.dtype(np.float32), 1 << 10, "sum"),
)


def rehearse(*, several_hosts: bool) -> None:
    """Load what the first calls of a member need, and decide on some of them.

    What fails here is raised again by the calls themselves.
    """
    try:
        _rehearse(several_hosts=several_hosts)
    except Exception:  # the newcomer can do without
        getLogger("collalgo").debug("the rehearsal of calls failed", exc_info=True)


def _rehearse(*, several_hosts: bool) -> None:
    if several_hosts:
        without_mpi(None, 0).title()
        import_module("collalgo.selection.on_topology")
        _decide(host_profile(), _two_hosts())  # measured, which may take long
    elif (profile := kept_profile()) is not None:
        _decide(profile, None)


def _two_hosts() -> PlacedTopology:
    """Two hosts, both like this one."""
    views = [local_view()] * RANKS
    return detected(views, range(RANKS), 1e-9 / host_profile().copy)


def _decide(profile: HostProfile, placed: PlacedTopology | None) -> None:
    """Make the programs of some calls."""
    hosts = () if placed is None else tuple(range(RANKS))
    topology = None if placed is None else lambda: placed
    programs = LibraryPrograms(0, RANKS, profile, hosts, topology)
    try:
        programs.begin_by_formulas()
        programs.exchange_for(SYNC, 1)
        for call in CALLS:
            programs.named(call, SYNC, 0)
    finally:
        programs.release()
