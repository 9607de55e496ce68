"""How the devices of some ranks come up on a network that carries their messages."""

import logging
import struct
from collections.abc import Sequence

from collalgo.engine.devices.agreement import Tell, all_can
from collalgo.engine.devices.runtime import Network, Runtime

#: Whether a rank has a network, where its device is, and what rank 0 calls the network.
_HELLO = struct.Struct("=?32s128s")

log = logging.getLogger("collalgo")


def come_up(
    runtime: Runtime, rank: int, hosts: Sequence[int], tell: Tell
) -> Network | None:
    """The end of this rank; None on all ranks if there is none for some.

    Parameters
    ----------
    runtime
        Of this rank, whose device must be its own.
    rank, hosts
        Which rank this is, and the number of the host of each.
    tell
        How the ranks tell each other.
    """
    able = runtime.network is not None
    identity = runtime.identity() if able and rank == 0 else b""
    mine = _HELLO.pack(able, runtime.bus_id.lower().encode(), identity)
    told = [_HELLO.unpack_from(hello) for hello in tell(mine)]
    devices = {(host, bus) for host, (_, bus, _) in zip(hosts, told, strict=True)}
    if not all(able for able, _, _ in told) or len(devices) < len(hosts):
        return None
    network = None
    try:
        network = runtime.join(told[0][2], rank, len(hosts))
    except OSError as error:
        log.warning("rank %d: %s does not come up: %s", rank, runtime.network, error)
    if all_can(network is not None, tell):
        return network
    if network is not None:
        network.close()
    return None
