"""Imports at the start of a rank."""

import gc
from importlib import import_module
from types import ModuleType


def imported(name: str) -> ModuleType:
    """Import a module without collections of garbage in between, which find none."""
    collects = gc.isenabled()
    gc.disable()
    try:
        return import_module(name)
    finally:
        if collects:
            gc.enable()
