"""The store of an elastic job, which the launcher of a node holds."""

from contextlib import ExitStack

from collalgo.bootstrap.store.at_url import StorePlace, embedded_at, replicated_at
from collalgo.bootstrap.store.hosting import Hosting
from collalgo.bootstrap.store.job_end import close_job
from collalgo.errors import RendezvousError
from collalgo.launch.etcd_member import EtcdMember

#: Seconds that a launcher which holds the store waits for other nodes to leave.
DRAIN_SECONDS = 5.0


def hold_store(place: StorePlace, held: ExitStack) -> None:
    """Hold the store of a job if it is on this host, or a member of its etcd.

    ``held`` ends it, once the other nodes have left.

    Raises
    ------
    RendezvousError
        If it cannot be held.
    """
    url = place.url
    if url.scheme == "collalgo" and url.hostname and url.port:
        server = embedded_at(place)
        hosting = Hosting(*server)
        try:
            hosting.begin()
        except OSError as error:
            raise RendezvousError(
                f"this node cannot hold the store of {place}: {error.strerror}; name "
                "an address of a host and a free port above 1023"
            ) from None
        held.callback(hosting.end)
        held.callback(hosting.drain, DRAIN_SECONDS)  # before that
        if hosting.is_held:
            held.callback(close_job, *server, "the node that held its store has ended")
    if url.scheme == "replicated":
        member = EtcdMember(replicated_at(place))
        held.callback(member.close)
        held.callback(member.drain, DRAIN_SECONDS)
