"""The algorithms that peers have, by their names, with the equals of collalgo."""

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import NamedTuple, TypeAlias

import yaml

from collalgo.algorithms.catalogue import candidates
from collalgo.selection.policies import nccl

#: The decision of the peer itself, as without a file.
DEFAULT = "default"

#: The peers whose algorithms are known.
PEERS = ("openmpi", "mpich", "nccl", "ucc")

#: The collectives of peers whose name differs from that of collalgo.
OURS = {
    "bcast": "broadcast",
    "reduce_scatter_block": "reduce_scatter",
    "reducescatter": "reduce_scatter",
}

#: What a tuning file says: for each collective of the peer and each number of ranks the
#: names of its algorithms from least sizes in bytes on. The size is that of all blocks.
Table: TypeAlias = Mapping[str, Mapping[int, Mapping[int, str]]]


class PeerAlgorithm(NamedTuple):
    """An algorithm of a peer.

    Attributes
    ----------
    name : str
        The name of the peer, with its parameters as in ``k_brucks(k=4)``.
    number : int
        Its place in the list of the peer, from 1.
    ours : tuple of str
        The equals of collalgo, of which the cheapest gives its price.
    fit : str
        The numbers of ranks that it can run on: ``""`` for all, ``"two"``, ``"even"``,
        ``"power of two"`` or ``"one on each host"``.
    """

    name: str
    number: int
    ours: tuple[str, ...] = ()
    fit: str = ""

    def fits(self, ranks: int, hosts: int = 1) -> bool:
        """Whether it can run on a number of ranks."""
        return {
            "two": ranks == 2,
            "even": ranks % 2 == 0,
            "power of two": ranks & (ranks - 1) == 0,
            "one on each host": ranks == hosts,
        }.get(self.fit, True)


@cache
def algorithms_of(peer: str) -> dict[str, tuple[PeerAlgorithm, ...]]:
    """The algorithms of each collective of a peer."""
    if peer == "nccl":
        return _of_nccl()
    file = resources.files(__package__) / "algorithms.yaml"
    table = yaml.safe_load(file.read_text(encoding="utf-8"))[peer]
    return {
        collective: tuple(
            _algorithm(number, *row) for number, row in enumerate(rows, 1)
        )
        for collective, rows in table.items()
    }


def _algorithm(number: int, name: str, ours: str = "", fit: str = "") -> PeerAlgorithm:
    return PeerAlgorithm(name, number, (ours,) if ours else (), fit)


def _of_nccl() -> dict[str, tuple[PeerAlgorithm, ...]]:
    """The shapes of NCCL, by the names in the file of its example tuner."""
    found = {}
    for collective in nccl.COLLECTIVES:
        known = {row.name for row in candidates(collective)}
        rows = [
            PeerAlgorithm(
                shape,
                number,
                tuple(name for name in nccl.ours(collective, shape) if name in known),
            )
            for number, shape in enumerate(nccl.shapes(collective), 1)
        ]
        if collective in nccl.PAT:
            fit = "one on each host"
            rows.append(PeerAlgorithm("pat", len(rows) + 1, ("pat",), fit))
        found[collective.replace("_", "")] = tuple(rows)
    return found


def find(peer: str, collective: str, name: str) -> PeerAlgorithm:
    """The algorithm of a name."""
    return next(one for one in algorithms_of(peer)[collective] if one.name == name)


def ours(collective: str) -> str:
    """The collective of collalgo that a collective of a peer is."""
    return OURS.get(collective, collective)


def base_and_parameters(name: str) -> tuple[str, dict[str, str]]:
    """A name without its parameters, and these.

    >>> base_and_parameters("chain(fanout=4, segsize=65536)")
    ('chain', {'fanout': '4', 'segsize': '65536'})
    """
    base, _, rest = name.partition("(")
    return base, dict(re.findall(r"(\w+)=(\w+)", rest))
