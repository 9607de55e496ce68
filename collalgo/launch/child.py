"""Processes that a launcher has started, and what it does until they end."""

import math
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

from collalgo.launch.output import Sinks, Stream
from collalgo.launch.process import die_with


class Child:
    """A process that ends with this one, in a group of its own, and its outputs.

    Parameters
    ----------
    command
        What it runs.
    sinks
        Where its output goes.
    prefix
        What is put in front of each line.
    stdin
        As for :class:`subprocess.Popen`.
    environment
        By default that of this process.
    """

    def __init__(
        self,
        command: Sequence[str],
        sinks: Sinks,
        prefix: bytes = b"",
        stdin: int | None = None,
        environment: Mapping[str, str] | None = None,
    ):
        launcher = os.getpid()
        self.ended = False
        self.process = subprocess.Popen(
            command,
            env=environment,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=lambda: die_with(launcher),  # noqa: PLW1509 (no threads here)
        )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.streams = [
            Stream(self.process.stdout, sinks.out, prefix),
            Stream(self.process.stderr, sinks.err, prefix),
        ]
        self.descriptor = os.pidfd_open(self.process.pid)

    def signal(self, number: int) -> None:
        """Send a signal to the process and to all it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def close(self) -> None:
        """End what the process has left behind and release the descriptors."""
        self.signal(signal.SIGKILL)
        self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()
        for stream in self.streams:
            stream.pipe.close()
        os.close(self.descriptor)


class Deadline:
    """A time by which to be done; never, until something is said."""

    def __init__(self, seconds: float = math.inf):
        self._time = time.monotonic() + seconds

    def at_most(self, seconds: float) -> None:
        """Bring the time forward, unless it is nearer already."""
        self._time = min(self._time, time.monotonic() + seconds)

    def left(self) -> float | None:
        """Seconds to go, not below 0; None for ever."""
        left = self._time - time.monotonic()
        return None if math.isinf(left) else max(left, 0.0)


AChild = TypeVar("AChild", bound=Child)


def ends(children: Sequence[AChild], deadline: Deadline) -> Iterator[AChild]:
    """Forward the output and yield each child when it ends, until the deadline."""
    with selectors.DefaultSelector() as selector:
        running = {child.descriptor: child for child in children if not child.ended}
        for descriptor, child in running.items():
            selector.register(descriptor, selectors.EVENT_READ)
            for stream in child.streams:
                selector.register(stream.pipe, selectors.EVENT_READ, stream)
        while running and deadline.left() != 0:
            for key, _ in selector.select(deadline.left()):
                if key.data is not None:
                    if not key.data.forward():
                        selector.unregister(key.fileobj)
                    continue
                selector.unregister(key.fileobj)
                child = running.pop(key.fd)
                child.process.wait()
                for stream in child.streams:
                    stream.drain()
                child.ended = True
                yield child
