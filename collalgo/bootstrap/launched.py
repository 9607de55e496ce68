"""The world of processes that have been told where the store of their job is."""

import atexit
import os
from collections.abc import Mapping

from collalgo._kernels.ucx import UcxWire
from collalgo.bootstrap.cluster import ClusterOrigin, Job
from collalgo.bootstrap.identity import Identity
from collalgo.bootstrap.membership import Membership
from collalgo.bootstrap.rendezvous import HostOrigin
from collalgo.bootstrap.store.client import Client
from collalgo.bootstrap.survey import Survey
from collalgo.connection import Connection
from collalgo.errors import BootstrapError
from collalgo.topology.ranks import identity
from collalgo.transport import ucx


def meet(me: Identity, timeout: float) -> Connection:
    """Meet all processes of the job: my end of their world.

    Where all are on one host they need the store no more. Between hosts they use UCX.
    """
    where, port, secret = told(os.environ)
    membership = Membership(me.rank, keeper=None)
    store = Client(where, port, secret, timeout, membership.lost)
    everyone = range(me.size)
    try:
        store.set(f"host/{me.rank}", identity().encode())
        names = [store.get(f"host/{rank}", timeout) for rank in everyone]
        hosts = tuple(list(dict.fromkeys(names)).index(name) for name in names)
        if len(set(hosts)) == 1:
            connection = HostOrigin(me.job).meet("", me.rank, everyone, timeout)
            membership.dismiss()
            store.close()
            return connection
        wire = ucx.wire(me.rank, me.size)
        store.set(f"ucx/{me.rank}", wire.address())
        wire.meet([store.get(f"ucx/{rank}", timeout) for rank in everyone])
    except BaseException:
        membership.dismiss()
        store.close()
        raise
    survey = Survey(store, me.rank, hosts)
    job = Job(
        me.job, me.rank, hosts, membership, survey, wire, tuple(everyone), ucx.WORLDS
    )
    atexit.register(_end, membership, store, wire)
    membership.begin(store)
    survey.tell()
    return ClusterOrigin(job, everyone).meet("", me.rank, everyone, timeout)


def told(environment: Mapping[str, str]) -> tuple[list[str], int, bytes]:
    """Where the store may be, its port, and the secret of the job.

    Raises
    ------
    BootstrapError
        If the variables are not what a launcher sets.
    """
    where, _, port = environment.get("COLLALGO_STORE", "").rpartition(":")
    try:
        secret = bytes.fromhex(environment["COLLALGO_SECRET"])
        return where.split(","), int(port), secret
    except (KeyError, ValueError):
        raise BootstrapError(
            "COLLALGO_STORE must be HOST:PORT, with commas between several hosts, and "
            "COLLALGO_SECRET the secret of the job as hexadecimal digits"
        ) from None


def _end(membership: Membership, store: Client, wire: UcxWire) -> None:
    membership.dismiss()
    store.close()
    wire.close()
