"""Who decides when not the price: the user, by the environment or a file, or a peer."""

import os
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from collalgo.selection.policies import nccl
from collalgo.selection.policies.nccl import World
from collalgo.selection.rules import Rules, of_peer

#: The peers whose default decisions can be had.
PEERS = ("openmpi", "mpich", "nccl", "gloo")

#: The environment variable that names a file of rules.
FILE = "COLLALGO_RULES"


class Override(NamedTuple):
    """The name of an algorithm, or several of which the cheapest, and who asks."""

    algorithm: str | tuple[str, ...]
    decider: str


def from_environment(collective: str, size: int, nbytes: int) -> Override | None:
    """What the environment or a file of rules says, None if neither does.

    ``COLLALGO_ALLREDUCE=ring`` names the algorithm of a collective, ``COLLALGO_RULES``
    a file of :mod:`collalgo.selection.rules`. All ranks need the same.
    """
    variable = f"COLLALGO_{collective.upper()}"
    if algorithm := os.environ.get(variable):
        return Override(algorithm, f"the environment ({variable})")
    path = os.environ.get(FILE)
    rules = _rules(path, _changed(path)) if path else None
    if rules and (algorithm := rules.choose(collective, size, nbytes)):
        return Override(algorithm, f"the file {path}")
    return None


def _changed(path: str) -> float:
    """When a file was changed, so that it is read again."""
    return Path(path).stat().st_mtime if Path(path).exists() else 0.0


@lru_cache(maxsize=8)
def _rules(path: str, _when: float) -> Rules:
    return Rules.read(path)


@lru_cache(maxsize=8)
def rules_of(name: str) -> Rules:
    """The rules of a peer, or of a file."""
    if name in PEERS:
        return of_peer(name)
    if Path(name).suffix not in (".yaml", ".yml", ".json"):
        raise ValueError(
            f"there is no policy {name!r}; choose one of {', '.join(PEERS)}, or a file "
            "of rules (.yaml)"
        )
    return Rules.read(name)


def of_policy(
    policy: str, collective: str, size: int, nbytes: int, world: World | None
) -> Override | None:
    """What a peer would run, None where it does not say.

    Raises
    ------
    ValueError
        For a policy that does not exist, or that of NCCL without a topology.
    """
    if policy == "nccl":
        if world is None:
            raise ValueError("the policy of NCCL needs a topology")
        if collective not in nccl.COLLECTIVES:
            return None
        shape, protocol = nccl.choose(collective, world, nbytes)
        names = nccl.ours(collective, shape)
        return Override(names, f"the policy of NCCL ({shape}, {protocol})")
    algorithm = rules_of(policy).choose(collective, size, nbytes)
    decider = f"the policy of {rules_of(policy).name}"
    return Override(algorithm, decider) if algorithm else None
