"""Trees of arrays: lists, tuples and dictionaries, of arrays or of further ones.

The leaves are ordered by place, in a dictionary by key, whatever the order in which the
keys were added: ranks may differ in it. None has no leaves.
"""

from collections.abc import Iterator
from copy import copy
from typing import Any, NamedTuple

from collalgo.base.integers import shown


class Leaves(NamedTuple):
    """The leaves of a tree.

    Attributes
    ----------
    arrays : list
        The leaves, in their order.
    names : list of str
        Their places, as ``[0]['a']``.
    """

    arrays: list[Any]
    names: list[str]


def leaves_of(tree: Any) -> Leaves:
    """The leaves of a tree; an array is its only leaf."""
    found = Leaves([], [])
    _collect(tree, "", found)
    return found


def _collect(node: Any, name: str, found: Leaves) -> None:
    if isinstance(node, dict):
        for key in _keys(node):
            _collect(node[key], f"{name}[{key!r}]", found)
    elif isinstance(node, list | tuple):
        for place, child in enumerate(node):
            _collect(child, f"{name}[{place}]", found)
    elif node is not None:
        found.arrays.append(node)
        found.names.append(name)


def _keys(node: dict[Any, Any]) -> list[Any]:
    """The keys in ascending order, or in theirs if they cannot be compared."""
    try:
        return sorted(node)
    except TypeError:
        return list(node)


def results_like(tree: Any, out: Any, caller: str) -> list[Any]:
    """The leaves of ``out``, which has the structure of ``tree``.

    Raises
    ------
    ValueError
        If it has another structure.
    """
    wanted, found = leaves_of(tree), leaves_of(out)
    if wanted.names == found.names:
        return found.arrays
    pairs = zip(wanted.names, found.names, strict=False)
    place = next((one for one, other in pairs if one != other), None)
    if place is None:
        longer = max(wanted.names, found.names, key=len)
        place = longer[min(len(wanted.names), len(found.names))]
    what = shown(len(found.names))
    raise ValueError(
        f"{caller}: out has {what} arrays and buf has {len(wanted.names)}, and they "
        f"differ at {place}; pass lists, tuples and dictionaries of the same structure"
    )


def rebuilt(tree: Any, leaves: Iterator[Any]) -> Any:
    """A tree of the same structure with other leaves."""
    if isinstance(tree, dict):
        found = copy(tree)
        for key in _keys(tree):
            found[key] = rebuilt(tree[key], leaves)
        return found
    if isinstance(tree, list):
        return [rebuilt(child, leaves) for child in tree]
    if isinstance(tree, tuple):
        children = [rebuilt(child, leaves) for child in tree]
        return type(tree)(*children) if hasattr(tree, "_fields") else tuple(children)
    return None if tree is None else next(leaves)
