"""Decisions that override the price: of the environment, of rules, of a peer."""

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from collalgo.base.environment import RULES, Variable, algorithm
from collalgo.errors import RulesError

if TYPE_CHECKING:  # imported where they are used, as few jobs need them
    from collalgo.selection.policies.nccl import World
    from collalgo.selection.rules import Rules

#: The peers whose default decisions are known.
PEERS = ("openmpi", "mpich", "nccl", "gloo")


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


#: Overrides from least sizes in bytes on, the first from 0; None where the price
#: decides.
BySize: TypeAlias = tuple[tuple[int, Override | None], ...]

#: The price decides for all sizes.
NOTHING: BySize = ((0, None),)


def variables_of(collective: str) -> tuple[Variable, Variable]:
    """The variables by which the environment decides on a collective."""
    return algorithm(collective), RULES


def of_environment(collective: str, size: int) -> BySize:
    """The decisions of the environment or of a rules file.

    ``COLLALGO_ALLREDUCE=ring`` names the algorithm of a collective, ``COLLALGO_RULES``
    a file of :mod:`collalgo.selection.rules`. All ranks need the same.
    """
    variable = algorithm(collective)
    if name := variable.given():
        return ((0, Override.of_name(name, f"the environment ({variable.name})")),)
    if path := RULES.given():
        rules = _rules_of_environment(path)
        return _of_rules(rules, collective, size, f"the file {path}")
    return NOTHING


def _of_rules(rules: "Rules", collective: str, size: int, decider: str) -> BySize:
    """The decisions of rules."""
    return tuple(
        (least, Override.of_name(name, decider) if name else None)
        for least, name in rules.by_size(collective, size)
    )


def _rules_of_environment(path: str) -> "Rules":
    """The rules of the file that the environment names."""
    try:
        return _rules(path, _changed(path))
    except (OSError, RulesError) as error:
        raise RulesError(str(RULES.wrong(f"cannot be used: {error}"))) from None


def _changed(path: str) -> float:
    """The time of a file's last change: after the next one it is read again."""
    return Path(path).stat().st_mtime if Path(path).exists() else 0.0


@lru_cache(maxsize=8)
def _rules(path: str, _when: float) -> "Rules":
    from collalgo.selection.rules import Rules

    return Rules.read(path)


@lru_cache(maxsize=8)
def _of_peer(name: str) -> "Rules":
    from collalgo.selection.rules import of_peer

    return of_peer(name)


def rules_of(name: str) -> "Rules":
    """The rules of a peer, or of a file as it is now."""
    if name in PEERS:
        return _of_peer(name)
    if Path(name).suffix not in (".yaml", ".yml", ".json"):
        raise ValueError(
            f"there is no policy {name!r}; choose one of {', '.join(PEERS)}, or a "
            "rules file (.yaml)"
        )
    return _rules(name, _changed(name))


def of_policy(policy: str, collective: str, size: int, world: "World | None") -> BySize:
    """The default decisions of a peer or of a rules file.

    Raises
    ------
    ValueError
        For a policy that does not exist, or that of NCCL without a topology.
    """
    if policy != "nccl":
        rules = rules_of(policy)
        return _of_rules(rules, collective, size, f"the policy of {rules.name}")
    if world is None:
        raise ValueError("the policy of NCCL needs a topology")
    from collalgo.selection.policies import nccl

    if collective not in nccl.COLLECTIVES:
        return NOTHING
    return tuple(
        (least, Override((nccl.ours(collective, shape),), _of_nccl(shape, protocol)))
        for least, (shape, protocol) in nccl.by_size(collective, world)
    )


def _of_nccl(shape: str, protocol: str) -> str:
    return f"the policy of NCCL ({shape}, {protocol})"
