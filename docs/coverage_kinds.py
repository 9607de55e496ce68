"""The kinds of arrays of the coverage: those of NumPy, torch and JAX, and others."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collalgo.base.foreign import package_of
from collalgo.engine.arrays import PACKED, as_array


class Missing(Exception):
    """A kind of array does not have the dtype."""


def _tensor(array: NDArray[Any]) -> Any:
    """A tensor of torch of the same elements."""
    import torch

    kind = getattr(torch, array.dtype.name, None)
    is_known = isinstance(kind, torch.dtype) and array.dtype.isnative
    if not is_known or array.dtype.name in PACKED:
        raise Missing
    if array.dtype.isbuiltin == 1:
        return torch.from_numpy(array.copy())
    words = array.copy().view(f"i{array.itemsize}")
    return torch.from_numpy(words).view(kind)


def _strided_tensor(array: NDArray[Any]) -> Any:
    return _tensor(np.repeat(array, 2, axis=-1))[..., ::2]


def _array_of_jax(array: NDArray[Any]) -> Any:
    """An array of JAX of the same elements, also of 64 bits."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax

    wide: AbstractContextManager[Any] = jax.enable_x64(True)
    with wide:
        try:
            found = jax.device_put(array)
        except (TypeError, ValueError):
            raise Missing from None
    if found.dtype != array.dtype:
        raise Missing
    return found


def _memoryview(array: NDArray[Any]) -> memoryview:
    if (
        array.dtype.type is np.void and not array.dtype.names
    ):  # which NumPy reads otherwise
        raise Missing
    return memoryview(array.copy())


def _list_of_numbers(array: NDArray[Any]) -> Any:
    if array.dtype.kind not in "biufc" or array.dtype.char in "gG":
        raise Missing
    return array.tolist()


#: By the kind of array, its form on the elements.
KINDS: dict[str, Callable[[NDArray[Any]], Any]] = {
    "array": lambda array: array.copy(),
    "strided array": lambda array: np.repeat(array, 2, axis=-1)[..., ::2],
    "reversed array": lambda array: array[..., ::-1].copy()[..., ::-1],
    "memoryview": _memoryview,
    "tensor of torch": _tensor,
    "strided tensor of torch": _strided_tensor,
    "array of JAX": _array_of_jax,
    "list of numbers": _list_of_numbers,
    "None": lambda _: None,
}

#: The packages of the kinds that need one.
PACKAGES = {
    "tensor of torch": "torch",
    "strided tensor of torch": "torch",
    "array of JAX": "jax",
}


def kinds_here() -> list[str]:
    """The kinds of which the package is installed here."""
    return [kind for kind in KINDS if kind not in PACKAGES or find_spec(PACKAGES[kind])]


def is_of_kind(found: Any, kind: str) -> bool:
    """Whether a result is an array of the package of the argument."""
    package = package_of(found)
    wanted = PACKAGES.get(kind)
    return package not in ("torch", "jaxlib") if wanted is None else wanted in package


def values_of(found: Any) -> NDArray[Any]:
    """The elements of a result of any kind."""
    return as_array(found, "coverage")
