"""Decisions that override the price: of the environment, of rules, of a peer."""

import os
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from collalgo.selection.policies import nccl
from collalgo.selection.policies.nccl import World
from collalgo.selection.rules import Rules, of_peer

#: The peers whose default decisions are known.
PEERS = ("openmpi", "mpich", "nccl", "gloo")

#: The environment variable that names a file of rules.
FILE = "COLLALGO_RULES"


class Override(NamedTuple):
    """A decision that the price does not make.

    Attributes
    ----------
    preferences : tuple of tuple of str
        Names of algorithms in order of preference: of each tuple the cheapest.
    decider : str
        The origin of the decision, for users.
    """

    preferences: tuple[tuple[str, ...], ...]
    decider: str

    @classmethod
    def of_name(cls, name: str, decider: str) -> "Override":
        """The decision for one algorithm."""
        return cls(((name,),), decider)


def from_environment(collective: str, size: int, nbytes: int) -> Override | None:
    """The decision of the environment or of a file of rules; None if of neither.

    ``COLLALGO_ALLREDUCE=ring`` names the algorithm of a collective, ``COLLALGO_RULES``
    a file of :mod:`collalgo.selection.rules`. All ranks need the same.
    """
    variable = f"COLLALGO_{collective.upper()}"
    if algorithm := os.environ.get(variable):
        return Override.of_name(algorithm, f"the environment ({variable})")
    path = os.environ.get(FILE)
    rules = _rules(path, _changed(path)) if path else None
    if rules and (algorithm := rules.choose(collective, size, nbytes)):
        return Override.of_name(algorithm, f"the file {path}")
    return None


def _changed(path: str) -> float:
    """The time of a file's last change: after the next one it is read again."""
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
    """The default decision of a peer or a file of rules; None if it has none.

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
        return Override((names,), f"the policy of NCCL ({shape}, {protocol})")
    algorithm = rules_of(policy).choose(collective, size, nbytes)
    decider = f"the policy of {rules_of(policy).name}"
    return Override.of_name(algorithm, decider) if algorithm else None
