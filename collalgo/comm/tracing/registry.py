"""The communicators of this process, whose calls are dumped and counted."""

import weakref
from collections.abc import Callable
from typing import Protocol

from collalgo._kernels.comm.recorder import Recorder
from collalgo.errors import CollalgoError


class Remembered(Protocol):
    """A communicator whose calls are dumped and counted."""

    rank: int
    size: int
    recorder: Recorder

    @property
    def label(self) -> str:
        """Its name in dumps."""

    @property
    def forked(self) -> bool:
        """Whether it belongs to the parent of this process."""


_open: "weakref.WeakSet[Remembered]" = weakref.WeakSet()

#: Called with each new communicator.
_watchers: list[Callable[[Remembered], None]] = []


def remember(runner: Remembered) -> None:
    """Include the calls of a communicator in what this process dumps and counts."""
    _open.add(runner)
    for watch in _watchers:
        watch(runner)


def watch(function: Callable[[Remembered], None]) -> None:
    """Call a function with each communicator, those that exist and new ones."""
    _watchers.append(function)
    for runner in _present():
        if not runner.forked:
            function(runner)


def own_communicators(call: str) -> list[Remembered]:
    """The communicators of this process, not those of its parent, by their labels.

    Raises
    ------
    CollalgoError
        In a forked process that has no communicator of its own; it names the call.
    """
    present = _present()
    own = sorted((one for one in present if not one.forked), key=lambda one: one.label)
    if present and not own:
        raise CollalgoError(
            f"{call}: this process was forked, and only its parent has made calls; "
            f"call {call} in the parent"
        )
    return own


def _present() -> list[Remembered]:
    """All communicators; a handler of a signal may ask, which excludes a lock."""
    while True:
        try:
            return list(_open)
        except RuntimeError:  # another thread has added one meanwhile
            continue
