"""The values of a state: nested containers whose leaves are arrays and plain values.

A tree is taken apart into its arrays and a skeleton, which is JSON: it goes to other
members and into checkpoints, and nothing is ever unpickled.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from collalgo.elastic.leaves import ArrayLeaf, Form, form_of, is_array, is_tensor
from collalgo.errors import CollalgoError

#: Plain values, which JSON holds as they are.
PLAIN = (bool, int, float, str, type(None))

#: The levels of containers in a skeleton from others, at most.
MOST_LEVELS = 100


#: The classes whose subclasses would be lost: the first of each is restored.
CLASSES: dict[type, tuple[type, ...]] = {
    np.ndarray: (np.ndarray, np.memmap),
    dict: (dict,),
    list: (list,),
    tuple: (tuple,),
    int: (int, bool),
    float: (float, np.float64),
    str: (str, np.str_),
}


#: The most usual classes of leaves.
LEAVES = frozenset({np.ndarray, *PLAIN})


def has_state_dict(value: object) -> bool:
    """Whether a value is an object that keeps and gives its state."""
    names = "state_dict", "load_state_dict"
    return type(value) not in LEAVES and all(hasattr(value, name) for name in names)


def flatten(value: Any, where: str) -> tuple[Any, list[ArrayLeaf]]:
    """The skeleton of a tree, and its arrays in order.

    Parameters
    ----------
    value
        Dictionaries, lists and tuples of arrays and plain values.
    where
        Its name in errors.

    Raises
    ------
    TypeError
        If something else is in it.
    """
    arrays: list[ArrayLeaf] = []
    return _skeleton(value, where, arrays), arrays


def check_classes(value: Any, where: str, levels: int = MOST_LEVELS) -> None:
    """Check that a tree can be restored: its classes are not subclasses.

    Raises
    ------
    TypeError
        If a part is of another class, or is nested too deep.
    """
    if type(value) in LEAVES:
        return
    for known, plainly in CLASSES.items():
        if isinstance(value, known) and type(value) not in plainly:
            raise TypeError(
                f"{where} is of type {type(value).__name__}, but would be restored as "
                f"{plainly[0].__name__}; convert it, or pass an object with "
                "state_dict() and load_state_dict()"
            )
    if not isinstance(value, (dict, list, tuple)):
        return
    if not levels:
        raise TypeError(f"{where[:80]}... is nested deeper than {MOST_LEVELS} levels")
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, part in items:
        check_classes(part, f"{where}[{key!r}]", levels - 1)


def _skeleton(value: Any, where: str, arrays: list[ArrayLeaf]) -> Any:
    """The skeleton of a part; its arrays are appended."""
    if isinstance(value, PLAIN) and not isinstance(value, np.generic):
        return value
    if is_array(value) or isinstance(value, np.generic):
        arrays.append(_leaf(value, where))
        return [_kind_of(value), *form_of(arrays[-1])]
    if isinstance(value, complex):
        return ["complex", value.real, value.imag]
    if isinstance(value, dict) and all(isinstance(key, (str, int)) for key in value):
        names = [f"{where}[{key!r}]" for key in value]
        parts = _parts(list(value.values()), names, arrays)
        return ["dict", [list(item) for item in zip(value, parts, strict=True)]]
    if isinstance(value, (list, tuple)):
        names = [f"{where}[{number}]" for number in range(len(value))]
        return [_kind_of(value), _parts(value, names, arrays)]
    dtype = f" and dtype {value.dtype}" if isinstance(value, np.ndarray) else ""
    raise TypeError(
        f"{where} is of type {type(value).__name__}{dtype}, which an elastic state "
        "cannot copy; pass arrays of numbers, numbers, texts, lists, tuples, dicts of "
        "str and int keys, or an object with state_dict() and load_state_dict()"
    )


def _leaf(value: Any, where: str) -> ArrayLeaf:
    """The array of a leaf, after a check that it has an element for each place."""
    if not is_tensor(value):
        return np.asarray(value) if isinstance(value, np.generic) else value
    layout = str(value.layout).removeprefix("torch.")
    kinds = {"meta": value.is_meta, "quantised": value.is_quantized}
    kinds |= {layout: layout != "strided"}
    if kind := next((name for name, found in kinds.items() if found), ""):
        raise TypeError(
            f"{where} is a {kind} tensor, which an elastic state cannot copy; pass a "
            "dense one"
        )
    return value


def _kind_of(value: Any) -> str:
    """The name of a leaf with elements, or of a sequence, in a skeleton."""
    if isinstance(value, (list, tuple)):
        return "tuple" if isinstance(value, tuple) else "list"
    return "scalar" if isinstance(value, np.generic) else "array"


def _parts(
    values: Sequence[Any], names: Sequence[str], arrays: list[ArrayLeaf]
) -> list[Any]:
    """The skeletons of the parts of a container."""
    pairs = zip(values, names, strict=True)
    return [_skeleton(value, name, arrays) for value, name in pairs]


def forms(skeleton: Any) -> Iterator[Form]:
    """The forms of the arrays of a tree, in order."""
    if isinstance(skeleton, list):
        kind, *rest = skeleton
        if kind in ("array", "scalar"):
            yield Form(rest[0], rest[1], tuple(rest[2]))
        elif kind == "dict":
            for _, part in rest[0]:
                yield from forms(part)
        elif kind != "complex":
            for part in rest[0]:
                yield from forms(part)


def unflatten(skeleton: Any, take: Callable[[], ArrayLeaf]) -> Any:
    """The tree of a skeleton; ``take`` returns one of its arrays after the other."""
    if not isinstance(skeleton, list):
        return skeleton
    kind, *rest = skeleton
    if kind == "array":
        return take()
    if kind == "scalar":
        return take()[()]
    if kind == "complex":
        return complex(*rest)
    if kind == "dict":
        return {key: unflatten(part, take) for key, part in rest[0]}
    parts = [unflatten(part, take) for part in rest[0]]
    return tuple(parts) if kind == "tuple" else parts


def encode(skeleton: Any) -> bytes:
    """A skeleton as bytes."""
    return json.dumps(skeleton, separators=(",", ":")).encode()


def decode(data: bytes, source: str) -> Any:
    """The skeleton that some bytes hold.

    Raises
    ------
    CollalgoError
        If they are damaged.
    """
    try:
        skeleton = json.loads(data)
        check(skeleton)
    except (ValueError, TypeError, RecursionError) as error:
        raise CollalgoError(f"the state of {source} is damaged: {error}") from None
    return skeleton


def check(skeleton: Any, levels: int = MOST_LEVELS) -> None:
    """Raise ValueError unless this is a skeleton."""
    if isinstance(skeleton, PLAIN):
        return
    match skeleton if levels else None:
        case ["array" | "scalar", "numpy" | "torch", str(), [*lengths]]:
            found = all(type(n) is int and n >= 0 for n in lengths)
        case ["complex", float() | int(), float() | int()]:
            found = True
        case ["dict", [*items]]:
            found = all(_is_item(item, levels - 1) for item in items)
        case ["list" | "tuple", [*parts]]:
            found = True
            for part in parts:
                check(part, levels - 1)
        case _:
            found = False
    if not found:
        raise ValueError(f"{str(skeleton)[:40]!r} is not a part of a state")


def _is_item(item: Any, levels: int) -> bool:
    """Whether this is an item of a dictionary; ValueError for a wrong value."""
    match item:
        case [str() | int(), part]:
            check(part, levels)
            return True
    return False
