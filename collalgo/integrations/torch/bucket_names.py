"""The names of the calls that DDP makes: the number of the bucket in its pass."""

import os
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, Protocol, TypeVar

import torch
import typing_extensions

from collalgo._kernels.comm.call_site import skip_callers
from collalgo.comm.communicator import Communicator
from collalgo.comm.current import runner_of
from collalgo.comm.tracing.names import name_calls
from collalgo.integrations.torch.backward import NO_PASS
from collalgo.integrations.torch.buckets import ENGINE

#: The beginnings of the file names of code that is not the user's.
OF_COLLALGO = str(Path(__file__).parents[2]) + os.sep
skip_callers(str(Path(torch.__file__).parent) + os.sep)
skip_callers(typing_extensions.__file__)  # whose deprecated() torch uses


class BucketNames:
    """Numbers the buckets of a pass."""

    def __init__(self) -> None:
        self._pass, self._buckets = NO_PASS, 0

    def find(self) -> str:
        """The name of the call that is being made, "" if it has none.

        The C++ of DDP calls out of the backward pass, with no Python code in between.
        """
        frame = sys._getframe(1)
        while frame.f_back and frame.f_code.co_filename.startswith(OF_COLLALGO):
            frame = frame.f_back
        if frame.f_code is not ENGINE:
            return ""
        current = torch._C._current_graph_task_id()
        self._buckets = self._buckets + 1 if current == self._pass else 0
        self._pass = current
        return f"bucket {self._buckets}"


class HasCalls(Protocol):
    """A process group on a communicator, with the names of its calls."""

    comm: Communicator
    bucket_names: BucketNames


Group = TypeVar("Group", bound=HasCalls)
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def named(
    make: Callable[Concatenate[Group, Arguments], Result],
) -> Callable[Concatenate[Group, Arguments], Result]:
    """Note the name of each call for the flight recorder."""

    @wraps(make)
    def made(
        group: Group, /, *args: Arguments.args, **keywords: Arguments.kwargs
    ) -> Result:
        name = group.bucket_names.find()
        if not name:
            return make(group, *args, **keywords)
        recorder = runner_of(group.comm).recorder
        before = recorder.count
        try:
            return make(group, *args, **keywords)
        finally:
            name_calls(recorder, range(before + 1, recorder.count + 1), name)

    return made
