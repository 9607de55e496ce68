"""Functions of higher layers that lower ones call without importing them.

The layer that has a function registers where it is; it is imported at its first call.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

_places: dict[str, str] = {}


def register(name: str, place: str) -> None:
    """Let ``name`` be the function at ``place``, given as ``module:function``."""
    _places[name] = place


def hook(name: str) -> Callable[..., Any]:
    """The function that was registered under ``name``.

    Raises
    ------
    KeyError
        If no layer has registered one.
    """
    module, _, function = _places[name].partition(":")
    found: Callable[..., Any] = getattr(import_module(module), function)
    return found


def is_registered(name: str) -> bool:
    """Whether a layer has registered a function under ``name``."""
    return name in _places
