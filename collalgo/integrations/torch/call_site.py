"""The origin of the calls of a process group: the user's line, and DDP's bucket."""

import os
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, Protocol, TypeVar

import torch
import typing_extensions

from collalgo._kernels.comm.recorder import skip_callers
from collalgo.comm.communicator import Communicator
from collalgo.comm.current import runner_of
from collalgo.comm.tracing.notes import CallNote, remember
from collalgo.integrations.torch.backward import NO_PASS
from collalgo.integrations.torch.buckets import ENGINE

#: The beginnings of the file names of code that is not the user's.
OF_COLLALGO = str(Path(__file__).parents[2]) + os.sep
OF_TORCH = str(Path(torch.__file__).parent) + os.sep
OF_WRAPPERS = typing_extensions.__file__  # whose deprecated() torch uses
skip_callers(OF_TORCH)
skip_callers(OF_WRAPPERS)


class CallSites:
    """Locates the calls of a process group, and numbers the buckets of a pass."""

    def __init__(self) -> None:
        self._pass, self._buckets = NO_PASS, 0

    def find(self) -> CallNote:
        """The place of the call that is being made.

        The C++ of DDP calls out of the backward pass, with no Python code in between.
        """
        frame = sys._getframe(1)
        while frame.f_back and frame.f_code.co_filename.startswith(OF_COLLALGO):
            frame = frame.f_back
        name = self._bucket() if frame.f_code is ENGINE else ""
        while frame.f_back and frame.f_code.co_filename.startswith(
            (OF_TORCH, OF_WRAPPERS)
        ):
            frame = frame.f_back
        return CallNote(frame.f_code, frame.f_lasti, name)

    def _bucket(self) -> str:
        """The name of the next bucket of the current backward pass."""
        current = torch._C._current_graph_task_id()
        self._buckets = self._buckets + 1 if current == self._pass else 0
        self._pass = current
        return f"bucket {self._buckets}"


class HasCalls(Protocol):
    """A process group on a communicator, with the places of its calls."""

    comm: Communicator
    call_sites: CallSites


Group = TypeVar("Group", bound=HasCalls)
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def located(
    make: Callable[Concatenate[Group, Arguments], Result],
) -> Callable[Concatenate[Group, Arguments], Result]:
    """Note the place of each call in the flight recorder."""

    @wraps(make)
    def made(
        group: Group, /, *args: Arguments.args, **named: Arguments.kwargs
    ) -> Result:
        recorder, note = runner_of(group.comm).recorder, group.call_sites.find()
        before = recorder.count
        try:
            return make(group, *args, **named)
        finally:
            remember(recorder, range(before + 1, recorder.count + 1), note)

    return made
