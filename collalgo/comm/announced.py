"""A broadcast of arrays that only the root knows: their shapes and dtypes travel first.

They travel as JSON, which the other ranks parse; nothing is unpickled.
"""

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collalgo._kernels.comm.composed import run_then
from collalgo._kernels.engine.transport.transport import PART_OF_NEXT
from collalgo.base.foreign import is_immutable, package_of
from collalgo.base.hooks import hook
from collalgo.comm.call_text import EXCHANGE
from collalgo.comm.frame_exchange import invalid_elsewhere
from collalgo.comm.tree import leaves_of, rebuilt
from collalgo.engine.arrays import as_array
from collalgo.engine.call import Call
from collalgo.engine.devices.arrays import Shadow
from collalgo.engine.results import result_array

#: The bytes of the first message, which has a length and the text if that is short.
HEAD = 256

NAME = "broadcast"


def broadcast_like(
    runner: Any,
    buf: Any,
    root: int,
    like: Any,
    timeout: float | None,
    rest: Callable[[Any], Any],
) -> Any:
    """Make a broadcast for which ``like`` describes the arrays of the root.

    Parameters
    ----------
    runner
        The runner of the communicator.
    buf
        At the root its array, or a tree of arrays.
    root
        The rank whose arrays they are.
    like
        Elsewhere, arrays like those of the root; None on all ranks if unknown.
    timeout
        The seconds to wait for the others.
    rest
        Makes the broadcast of ``buf`` at the root, to new arrays elsewhere. For those
        of JAX, which cannot change, it makes others; their memory is never touched.
    """
    if isinstance(like, str):
        raise TypeError(
            f"{NAME}: like is {like!r}; pass None or an array, or leave it out"
        )
    if like is not None:
        return rest(buf if runner.rank == root else _new_like(like))
    return Announcement(runner, buf, root, timeout, rest).make()


class Announcement:
    """The description of the arrays of the root, and the broadcast that follows.

    Parameters
    ----------
    runner, buf, root, timeout, rest
        As of :func:`broadcast_like`.
    """

    def __init__(
        self,
        runner: Any,
        buf: Any,
        root: int,
        timeout: float | None,
        rest: Callable[[Any], Any],
    ):
        self._runner, self._buf, self._rest = runner, buf, rest
        self._root, self._timeout = root, timeout
        self._at_root = runner.rank == root
        self._content = b""
        self._failure: Exception | None = None
        if self._at_root:
            self._describe()

    def _describe(self) -> None:
        try:
            leaves_of(self._buf)  # which refuses too many levels
            self._content = json.dumps(described(self._buf)).encode()
        except (TypeError, ValueError) as error:
            self._failure = error

    def make(self) -> Any:
        """Broadcast the first message, then make the broadcast."""
        head = np.zeros(HEAD, np.uint8)
        if self._at_root:
            length = len(self._content).to_bytes(8, "little")
            first = length + self._content[: HEAD - 8]
            head[: len(first)] = np.frombuffer(first, np.uint8)
        self._runner.check_open(NAME)
        program = self._runner.programs.named(
            self._call(HEAD), EXCHANGE + NAME, PART_OF_NEXT
        )
        target = None if self._at_root else head
        rest = partial(self._after_head, head)
        return run_then(self._runner, program, head, target, self._timeout, NAME, rest)

    def _call(self, length: int) -> Call:
        """A broadcast of bytes."""
        return Call(NAME, np.dtype(np.uint8), length, root=self._root)

    def _after_head(self, head: NDArray[np.uint8]) -> Any:
        """Make the broadcast, once the first message of the root is known."""
        length = int.from_bytes(head[:8].tobytes(), "little")
        content = head[8 : 8 + length]
        if length > len(content):
            content = self._whole(length)
        if self._failure is not None:
            raise self._failure
        if not length:
            what = "no arrays that can be described"
            raise invalid_elsewhere(self._runner, NAME, self._root, what)
        if self._at_root:
            return self._rest(self._buf)
        return self._rest(made_from(json.loads(content.tobytes().decode())))

    def _whole(self, length: int) -> NDArray[np.uint8]:
        """The description of the root, which does not fit into the first message."""
        found = np.empty(length, np.uint8)
        if self._at_root:
            found[:] = np.frombuffer(self._content, np.uint8)
        target = None if self._at_root else found
        options: dict[str, Any] = {"counted": PART_OF_NEXT, "timeout": self._timeout}
        self._runner.run_for(NAME, self._call(length), found, target, **options)
        return found


def _new_like(tree: Any) -> Any:
    """New arrays like others."""
    leaves = []
    for leaf in leaves_of(tree):
        array = as_array(leaf, f"{NAME}: like")
        leaves.append(result_array(leaf, None, array, array.shape, NAME)[0])
    return rebuilt(tree, iter(leaves))


def described(tree: Any) -> Any:
    """A tree of arrays as values of JSON.

    Raises
    ------
    TypeError
        If a leaf is not an array of the host, or a key neither a text nor a number.
    """
    if tree is None:
        return None
    if isinstance(tree, dict):
        return {"dict": [[_key(key), described(node)] for key, node in tree.items()]}
    if isinstance(tree, list | tuple):
        kind = "list" if isinstance(tree, list) else "tuple"
        return {kind: [described(node) for node in tree]}
    return _described_array(tree)


def _described_array(leaf: Any) -> dict[str, Any]:
    """An array as values of JSON."""
    array = as_array(leaf, NAME)
    if isinstance(array, Shadow):
        raise TypeError(
            f"{NAME}: like=None is for arrays in host memory; pass an array of the "
            "shape of the root's on each device"
        )
    if package_of(leaf) != "torch":
        kind = "jax" if is_immutable(leaf) else "dtype"
        return {kind: _name_of(array.dtype), "shape": list(array.shape)}
    if array.dtype.names:
        raise TypeError(
            f"{NAME}: with like=None the scale of {leaf.dtype} is unknown elsewhere; "
            "pass a quantised tensor on every rank"
        )
    return {"torch": str(leaf.dtype), "shape": list(array.shape)}


def _key(key: object) -> str | int:
    if isinstance(key, str | int) and not isinstance(key, bool):
        return key
    raise TypeError(
        f"{NAME}: a dictionary has the key {key!r}; with like=None keys are text or "
        "integers"
    )


def _name_of(dtype: np.dtype[Any]) -> Any:
    """A dtype as NumPy writes it in files, or the name of one of ``ml_dtypes``."""
    if dtype.type.__module__ == "ml_dtypes":
        return {"ml_dtypes": dtype.name}
    named = np.lib.format.dtype_to_descr(dtype)
    if _dtype_of(json.loads(json.dumps(named))) != dtype:
        raise TypeError(
            f"{NAME}: with like=None {dtype} cannot be described to the other ranks; "
            "pass an array of this dtype and of the shape of the root's on every rank"
        )
    return named


def made_from(node: Any) -> Any:
    """New arrays as described by the root."""
    if node is None:
        return None
    if "dict" in node:
        return {key: made_from(child) for key, child in node["dict"]}
    if "list" in node:
        return [made_from(child) for child in node["list"]]
    if "tuple" in node:
        return tuple(made_from(child) for child in node["tuple"])
    return _made_array(node, tuple(map(int, node["shape"])))


def _made_array(node: Any, shape: tuple[int, ...]) -> Any:
    if "torch" in node:
        return hook("empty tensor of torch")(node["torch"], shape)
    if "jax" in node:
        return hook("new array of JAX")(shape, _dtype_of(node["jax"]), NAME)[0]
    return np.empty(shape, _dtype_of(node["dtype"]))


def _dtype_of(named: Any) -> np.dtype[Any]:
    """The dtype of a name."""
    if isinstance(named, dict):
        import ml_dtypes

        narrow: np.dtype[Any] = np.dtype(getattr(ml_dtypes, named["ml_dtypes"]))
        return narrow
    found: np.dtype[Any] = np.lib.format.descr_to_dtype(_as_tuples(named))
    return found


def _as_tuples(named: Any) -> Any:
    """The fields of a dtype, which JSON has as lists, as tuples."""
    if isinstance(named, str):
        return named
    return [_field(*field) for field in named]


def _field(name: Any, kind: Any, shape: Sequence[int] | None = None) -> Any:
    whole = tuple(name) if isinstance(name, list) else name
    found = whole, _as_tuples(kind)
    return found if shape is None else (*found, tuple(shape))
