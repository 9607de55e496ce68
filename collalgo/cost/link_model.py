"""The costs of a message that links do not give: alpha, beta and gamma.

The defaults are those of NCCL 2.30; a file gives those of a cluster::

    collalgo: figures / 1
    latency: {NVL: 6.0e-7, NET: 3.5e-6}  # seconds, by the type of the path
    message: 3.0e-7  # seconds
    network_message: 1.3e-5  # seconds of processors
    network_byte: 7.0e-10  # seconds of processors
    reduction: 5.0e-13  # seconds for a byte
    efficiency: {network: 0.92, nvlink: 0.8}  # of the bandwidth, by the kind of link
    assumed: {pcie: 31.5, network: 25.0}  # GB/s of links whose speed is not known
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from collalgo.base.input_files import read_text
from collalgo.cost.host_profile import HostProfile
from collalgo.errors import TopologyError
from collalgo.topology import assumed as assumed_speeds
from collalgo.topology.elements import LEAST_SPEED, MOST_SPEED
from collalgo.topology.model import Link, LinkKind
from collalgo.topology.path_types import PathType

#: The first line of every file.
FORMAT = "figures/1"

#: The most bytes of a file.
LARGEST = 1 << 16

#: The numbers of a file.
NUMBERS = (
    *("message", "network_message", "network_byte"),
    *("reduction", "crowding", "turning"),
)

#: The least usable fraction of a bandwidth.
LEAST_EFFICIENCY = 1e-3

#: Seconds of a message by the type of its path: NCCL's hop for short messages.
LATENCY = {
    PathType.LOC: 0.0,
    PathType.NVL: 0.6e-6,
    PathType.NVB: 1.2e-6,
    PathType.C2C: 0.6e-6,
    PathType.PIX: 1.0e-6,
    PathType.PXB: 1.0e-6,
    PathType.PHB: 1.0e-6,
    PathType.NODE: 1.0e-6,
    PathType.SYS: 1.0e-6,
    PathType.NET: 2.7e-6,
}


#: For TCP between hosts: the seconds of a message; the payload fraction of a link; the
#: slowdown of a step whose messages share a link; that of a step whose ranks change
#: their peers. All measured on ``bench/cluster`` with TCP reno.
TCP_LATENCY, TCP_EFFICIENCY, TCP_CROWDING, TCP_TURNING = 40e-6, 0.98, 0.04, 0.02

#: The seconds of processors for a message over TCP.
TCP_MESSAGE = 13e-6

#: The same for containers of one machine, whose ranks share cores: the seconds of a
#: message, and those of processors for it and for each of its bytes. A message inside a
#: host waits until its receiver gets a core. Fitted to the algorithms of five
#: collectives on 4 x 1 and 2 x 2 ranks on two cores, over MPICH and Open MPI.
SHARED_LATENCY, SHARED_MESSAGE, SHARED_BYTE, SHARED_WAIT = 30e-6, 18e-6, 0.5e-9, 20e-6


@dataclass(frozen=True)
class LinkModel:
    """The parameters of the price models.

    Those between hosts, shared cores, crowding and turning are of the model of rounds
    only.

    Attributes
    ----------
    latency : dict
        Seconds of a message by the type of its path; links may give their own.
    message : float
        Seconds for each further message of a rank in a step: a rank sends and receives
        one message at a time.
    network_message : float or None
        The same for a message between hosts, which occupies its sender and its receiver
        for half of it each: no less than ``message``, and None for as much.
    network_byte : float
        Likewise the seconds for each byte between hosts.
    reduction : float
        Seconds for each byte that a rank reduces.
    shared_cores : int
        The number of cores that all hosts share, if they are containers of one machine:
        these cores do the work of all ranks. 0 if each rank has a core.
    efficiency : dict
        The usable fraction of the bandwidth, by the kind of link; 1 by default.
    crowding : float
        The relative slowdown of the bytes of a step in which very many messages share a
        network link, and half of it for two: the messages drift apart, and the step
        waits for the last. It is ``crowding * (1 - 1 / messages)``.
    turning : float
        The relative slowdown of the bytes of a step in which some rank changes its
        peer: connections are cold, and the tails of their queues collide.
    assumed : dict
        GB/s of a cable of unknown speed, instead of those of
        :data:`collalgo.topology.assumed.SPEEDS`, by the same names.
    """

    latency: Mapping[PathType, float] = field(default_factory=LATENCY.copy)
    message: float = 0.3e-6
    network_message: float | None = None
    network_byte: float = 0.0
    reduction: float = 0.0
    efficiency: Mapping[LinkKind, float] = field(default_factory=dict)
    crowding: float = 0.0
    turning: float = 0.0
    assumed: Mapping[str, float] = field(default_factory=dict)
    shared_cores: int = 0

    def __post_init__(self) -> None:
        """Refuse messages between hosts that cost less: one more would save time."""
        given = self.network_message
        if given is not None and given < self.message:
            raise TopologyError(
                f"network_message of {given} s is less than the {self.message} of "
                "others (message)"
            )

    @classmethod
    def of_host(cls, profile: HostProfile, shared_cores: int = 0) -> "LinkModel":
        """The model for ranks on CPUs that reach other hosts by TCP."""
        latency, message, byte, wait = TCP_LATENCY, TCP_MESSAGE, 0.0, 0.0
        if shared_cores:
            latency, message = SHARED_LATENCY, SHARED_MESSAGE
            byte, wait = SHARED_BYTE, SHARED_WAIT
        inside = dict.fromkeys(
            (PathType.PHB, PathType.NODE, PathType.SYS), profile.latency + wait
        )
        return cls(
            {**LATENCY, **inside, PathType.NET: latency},
            profile.message,
            network_message=max(message, profile.message),
            network_byte=byte,
            reduction=profile.reduce,
            efficiency={LinkKind.NETWORK: TCP_EFFICIENCY},
            crowding=TCP_CROWDING,
            turning=TCP_TURNING,
            shared_cores=shared_cores,
        )

    def bytes_per_second(self, link: Link) -> float:
        """The bandwidth of a link in each direction; infinite if unknown."""
        if link.bandwidth is None:
            return float("inf")
        return link.bandwidth * 1e9 * self.efficiency.get(link.kind, 1.0)

    @classmethod
    def read(cls, path: str | Path) -> "LinkModel":
        """Read a file; missing values have their defaults.

        Raises
        ------
        TopologyError
            If the file has another format, is too large, or has a number out of range.
        """
        try:
            tables = "latency", "efficiency", "assumed"
            document = _document(path, (*tables, *NUMBERS))
            seconds = _table(document.get("latency"), PathType.__members__, 0.0, 1.0)
            kinds = {kind.value: kind for kind in LinkKind}
            speeds = {name: name for name in assumed_speeds.names()}
            return cls(
                {**LATENCY, **seconds},
                efficiency=_table(
                    document.get("efficiency"), kinds, LEAST_EFFICIENCY, 1.0
                ),
                assumed=_table(
                    document.get("assumed"), speeds, LEAST_SPEED, MOST_SPEED
                ),
                **_numbers(document),
            )
        except ValueError as error:
            raise TopologyError(f"{path}: {error}") from None


def _document(path: str | Path, known: Iterable[str]) -> dict[str, Any]:
    """The content of a file, with known keys only."""
    from collalgo.topology.readers.text import yaml_of

    (document,) = yaml_of(read_text(path, LARGEST))
    if not isinstance(document, dict) or document.get("collalgo") != FORMAT:
        raise TopologyError(f"the first line must be collalgo: {FORMAT}")
    if unknown := set(document) - {"collalgo", *known}:
        raise TopologyError(
            f"unknown key {min(map(str, unknown))}; the keys are {', '.join(known)}"
        )
    return document


def _numbers(document: dict[str, Any]) -> dict[str, Any]:
    """The numbers that a file gives, by their names."""
    from collalgo.topology.values import number

    given = [name for name in NUMBERS if name in document]
    return {name: number(document[name], name, 0.0, 1.0) for name in given}


def _table(
    given: Any, names: Mapping[str, Any], least: float, most: float
) -> dict[Any, float]:
    """Numbers within limits by known names."""
    from collalgo.topology.values import number

    if given is None:
        return {}
    if not isinstance(given, dict):
        raise TopologyError(f"{given!r:.80} must map names to numbers")
    found = {}
    for name, value in given.items():
        if name not in names:
            raise TopologyError(
                f"unknown name {name!r}; choose from {', '.join(names)}"
            )
        found[names[name]] = number(value, str(name), least, most)
    return found


DEFAULTS = LinkModel()
