"""Forward the output of a rank of mpiexec in whole lines, and copy it to files.

The mpiexec of MPICH and Intel MPI forwards what it has read of a rank, at most 64 KiB,
so that more of it is cut within a line, and lines of several ranks mix.
"""

import os
import selectors
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from collalgo.launch.destination import Destination
from collalgo.launch.log_files import STDERR, STDOUT, LogFiles
from collalgo.launch.output import Stream

#: The descriptors of the outputs of a rank, and the names of their files.
OUTPUTS = {1: STDOUT, 2: STDERR}


def relay_output(rank: int, logs: LogFiles | None = None) -> None:
    """Let another process forward what this one and its children write.

    Parameters
    ----------
    rank
        The rank of this process.
    logs
        The files that get a copy.
    """
    pipes = {descriptor: os.pipe() for descriptor in OUTPUTS}
    child = os.fork()
    if not child:
        _become_relay({d: reader for d, (reader, _) in pipes.items()}, rank, logs)
    os.waitpid(child, 0)
    for descriptor, (reader, writer) in pipes.items():
        os.dup2(writer, descriptor)
        os.close(reader)
        os.close(writer)


def _become_relay(
    readers: dict[int, int], rank: int, logs: LogFiles | None
) -> NoReturn:
    """Become the relay, outside the children of the rank and without its signals."""
    with suppress(BrokenPipeError):  # the launcher has ended
        if not os.fork():
            os.setsid()
            _keep_open({*OUTPUTS, *readers.values()})
            forward([_stream(d, reader, rank, logs) for d, reader in readers.items()])
    os._exit(0)


def _stream(descriptor: int, reader: int, rank: int, logs: LogFiles | None) -> Stream:
    """The stream from a pipe to an output of this process, and to a file."""
    name = OUTPUTS[descriptor]
    file = os.fdopen(descriptor, "wb", 0, closefd=False)
    log = None if logs is None else logs.of_rank(rank, name)
    return Stream(os.fdopen(reader, "rb", 0), Destination(file, name), log=log)


def _keep_open(kept: set[int]) -> None:
    """Close all other descriptors, as the one by which the launcher knows the rank."""
    for each in [*Path("/proc/self/fd").iterdir()]:
        if int(each.name) not in kept:
            with suppress(OSError):
                os.close(int(each.name))
    os.open(os.devnull, os.O_RDONLY)  # for standard input


def forward(streams: Sequence[Stream]) -> None:
    """Forward streams until all of them have ended."""
    with selectors.DefaultSelector() as selector:
        for stream in streams:
            selector.register(stream.pipe, selectors.EVENT_READ, stream)
        while selector.get_map():
            waits = [s for each in streams if (s := each.seconds_left()) is not None]
            for key, _ in selector.select(min(waits, default=None)):
                if not key.data.forward():
                    selector.unregister(key.fileobj)
            for stream in streams:
                if stream.seconds_left() == 0:
                    stream.flush()
