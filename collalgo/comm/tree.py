"""Trees of arrays: lists, tuples and dictionaries, of arrays or of further ones.

The leaves are ordered by place, in a dictionary by key, whatever the order in which the
keys were added: ranks may differ in it. Only keys of one type that cannot be compared
keep their order, which must then be the same on all ranks. None has no leaves.
"""

from collections.abc import Iterator
from copy import copy
from itertools import repeat
from typing import Any

import numpy as np

from collalgo.engine.dtypes import dtype_description
from collalgo.engine.results import in_place_of

#: The most levels of a tree, so that a list that contains itself has an error.
MOST_LEVELS = 100


def leaves_of(tree: Any) -> list[Any]:
    """The leaves of a tree, in their order; an array is its only leaf.

    Raises
    ------
    ValueError
        If the tree is too deep.
    """
    found: list[Any] = []
    _collect(tree, found, 0)
    return found


def _collect(node: Any, found: list[Any], level: int) -> None:
    if isinstance(node, dict):
        check_level(level)
        for key in _keys(node):
            _collect(node[key], found, level + 1)
    elif isinstance(node, list | tuple):
        check_level(level)
        for child in node:
            _collect(child, found, level + 1)
    elif node is not None:
        found.append(node)


def check_level(level: int) -> None:
    """Check that lists, tuples and dictionaries are not nested too deeply."""
    if level >= MOST_LEVELS:
        raise ValueError(
            f"the arrays are in more than {MOST_LEVELS} levels of lists, tuples or "
            "dictionaries, of which one may contain itself; pass fewer levels"
        )


def names_of(tree: Any, name: str = "", level: int = 0) -> list[str]:
    """The places of the leaves, as ``[0]['a']``.

    Raises
    ------
    ValueError
        If the tree is too deep.
    """
    if isinstance(tree, dict):
        children = [(tree[key], f"{name}[{key!r}]") for key in _keys(tree)]
    elif isinstance(tree, list | tuple):
        children = [(child, f"{name}[{place}]") for place, child in enumerate(tree)]
    else:
        return [] if tree is None else [name]
    check_level(level)
    return [
        place
        for child, inner in children
        for place in names_of(child, inner, level + 1)
    ]


def keys_of(tree: Any) -> list[str] | None:
    """The places of the leaves if dictionaries are in the tree, else None.

    Raises
    ------
    ValueError
        If the tree is too deep.
    """
    return names_of(tree) if _has_keys(tree, 0) else None


def mixed_in_words(arrays: tuple[bytes, tuple[Any, ...], Any, Any]) -> str:
    """Arrays of several dtypes, as the ranks compare them.

    Parameters
    ----------
    arrays
        Their counts of 64 bits, their dtypes, the dtype of which they are by default,
        and their places if these are compared.
    """
    counts, dtypes, usual, keys = arrays
    found = []
    for place, count in enumerate(np.frombuffer(counts, np.int64).tolist()):
        words = [str(count)]
        if dtypes[place] != usual:
            words.append(dtype_description(dtypes[place]))
        found.append(" ".join(words if keys is None else [*words, keys[place]]))
    return "+".join(found)


def _has_keys(tree: Any, level: int) -> bool:
    if isinstance(tree, list | tuple):
        check_level(level)
        return any(map(_has_keys, tree, repeat(level + 1)))
    return isinstance(tree, dict)


def _keys(node: dict[Any, Any]) -> list[Any]:
    """The keys in ascending order, of several types by the names of these."""
    try:
        return sorted(node)
    except TypeError:
        pass
    try:
        return sorted(node, key=lambda key: (type(key).__name__, key))
    except TypeError:
        return list(node)


def results_like(tree: Any, out: Any, caller: str) -> list[Any]:
    """The leaves of ``out``, which has the structure of ``tree``.

    Raises
    ------
    ValueError
        If it has another structure.
    """
    wanted, found = names_of(tree), names_of(out)
    if wanted == found:
        return leaves_of(out)
    pairs = zip(wanted, found, strict=False)
    place = next((one for one, other in pairs if one != other), None)
    if place is None:
        place = max(wanted, found, key=len)[min(len(wanted), len(found))]
    raise ValueError(
        f"{caller}: out has {len(found)} arrays and buf has {len(wanted)}, and they "
        f"differ at {place}; pass lists, tuples and dictionaries of the same structure"
    )


def results_in_place(
    tree: Any, arrays: list[Any], caller: str
) -> tuple[Any, list[Any]]:
    """The result of a call in place on a tree, and the arrays to write to.

    Both have new arrays for those that cannot change; ``arrays`` are on the leaves.
    """
    if all(array.flags.writeable for array in arrays):
        return tree, arrays
    leaves = leaves_of(tree)
    pairs = [in_place_of(*each, caller) for each in zip(leaves, arrays, strict=True)]
    return rebuilt(tree, (result for result, _ in pairs)), [array for _, array in pairs]


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
