"""Connect the devices of ranks by a network."""

import logging
import struct
from collections.abc import Sequence

from collalgo.engine.devices.peers import Exchange, all_can
from collalgo.engine.devices.runtime import Network, Runtime

#: The record of a rank: whether it has a network, its bus id, and rank 0's identifier.
_HELLO = struct.Struct("=?32s128s")

log = logging.getLogger("collalgo")


def connect_network(
    runtime: Runtime, rank: int, hosts: Sequence[int], exchange: Exchange
) -> Network | None:
    """The network of this rank; None on all ranks if one has no network.

    Parameters
    ----------
    runtime
        The device of this rank, which it must not share.
    rank, hosts
        The rank, and the number of the host of each rank.
    exchange
        The exchange of bytes among the ranks.
    """
    able = runtime.network is not None
    identity = runtime.identity() if able and rank == 0 else b""
    mine = _HELLO.pack(able, runtime.bus_id.lower().encode(), identity)
    told = [_HELLO.unpack_from(hello) for hello in exchange(mine)]
    devices = {(host, bus) for host, (_, bus, _) in zip(hosts, told, strict=True)}
    if not all(able for able, _, _ in told) or len(devices) < len(hosts):
        return None
    network = None
    try:
        network = runtime.join(told[0][2], rank, len(hosts))
    except OSError as error:
        log.warning("rank %d: %s cannot connect: %s", rank, runtime.network, error)
    if all_can(network is not None, exchange):
        return network
    if network is not None:
        network.close()
    return None
