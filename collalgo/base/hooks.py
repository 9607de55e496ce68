"""Hooks: functions of higher layers that lower layers call without importing them.

The higher layer registers the location of a function; the first call imports it.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

_places: dict[str, str] = {}


def register(name: str, place: str) -> None:
    """Register the function at ``place``, written ``module:function``, as ``name``."""
    _places[name] = place


def hook(name: str) -> Callable[..., Any]:
    """The function registered under ``name``.

    Raises
    ------
    KeyError
        If no function is registered under ``name``.
    """
    module, _, function = _places[name].partition(":")
    found: Callable[..., Any] = getattr(import_module(module), function)
    return found


def is_registered(name: str) -> bool:
    """Whether a layer has registered a function under ``name``."""
    return name in _places
