"""Child processes of a launcher: their output, signals and end."""

import math
import os
import select
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import TypeVar

from collalgo.launch.binding import Cpus
from collalgo.launch.log_files import STDERR, STDOUT
from collalgo.launch.output import Sinks, Stream
from collalgo.launch.process import Process, end_with_parent, processes, send_signal
from collalgo.launch.signals import clear_wakeup, register_wakeup


class Child:
    """A child process in its own session, which is killed with the launcher.

    Parameters
    ----------
    command
        Its command line.
    sinks
        Destinations of its output.
    rank
        Its rank, the prefix of each line of output; None if the lines have theirs.
    stdin
        As for :class:`subprocess.Popen`.
    environment
        By default that of this process.
    cpus
        The hardware threads that it is bound to; None: those of this process.
    """

    def __init__(
        self,
        command: Sequence[str],
        sinks: Sinks,
        rank: int | None = None,
        stdin: int | None = None,
        environment: Mapping[str, str] | None = None,
        cpus: Cpus | None = None,
    ):
        self.returncode: int | None = None
        self.process = _started(command, stdin, environment, cpus)
        with ExitStack() as undone:
            undone.enter_context(self.process)
            undone.callback(self.process.kill)
            self.streams = _streams(self.process, sinks, rank)
            self.descriptor = os.pidfd_open(self.process.pid)
            undone.pop_all()

    @property
    def ended(self) -> bool:
        """Whether the process has ended and its output was forwarded."""
        return self.returncode is not None

    def drain(self) -> None:
        """Forward the rest of the output of the ended process.

        It is not reaped, so that no other session gets its number.
        """
        code = self.await_end()
        for stream in self.streams:
            stream.drain()
        self.returncode = code

    def await_end(self, seconds: float | None = None) -> int | None:
        """The exit code of the process once it has ended; None if not in some seconds.

        It is not reaped.
        """
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        if not poll.poll(None if seconds is None else seconds * 1e3):
            return None
        end = os.waitid(os.P_PIDFD, self.descriptor, os.WEXITED | os.WNOWAIT)
        assert end is not None
        exited = end.si_code == os.CLD_EXITED
        return end.si_status if exited else -end.si_status

    def kill(self) -> None:
        """Kill the process; unlike that of its Popen, this never reaps it."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.descriptor, signal.SIGKILL)

    def close(self) -> None:
        """Kill the remaining descendants, and close the descriptors."""
        close_children([self])

    def release_descriptors(self) -> None:
        """Close the descriptors of a process that has ended, and do not reap it."""
        if self.process.stdin is not None:
            with suppress(BrokenPipeError):  # with what it did not read
                self.process.stdin.close()
        for stream in self.streams:
            stream.pipe.close()
        if self.descriptor >= 0:
            os.close(self.descriptor)
        self.descriptor = -1

    def _release(self) -> None:
        """Reap the process, and close the descriptors."""
        self.process.wait()
        self.release_descriptors()


def signal_children(children: Iterable[Child], number: int) -> None:
    """Send a signal to some processes and to all that they started in their sessions.

    The group of each gets it at once, then other groups, as shells with job control
    make them. One scan of the processes of the host finds those of all children.
    """
    leaders = {child.process.pid for child in children}
    signal_groups(leaders, number)
    for process in _outside_groups(leaders):
        send_signal(process, number)


def kill_children(children: Iterable[Child]) -> None:
    """Kill some processes, and all that they started in their sessions."""
    leaders, killed = {child.process.pid for child in children}, set[int]()
    signal_groups(leaders, signal.SIGKILL)
    # A process may have started another one before it was killed.
    while new := [p for p in _outside_groups(leaders) if p.number not in killed]:
        for process in new:
            send_signal(process, signal.SIGKILL)
            killed.add(process.number)


def close_children(
    children: Sequence[Child], killed: Callable[[], None] | None = None
) -> None:
    """Kill descendants of some processes, reap these and close their descriptors.

    ``killed`` is called in between, while nothing else can get their numbers.
    """
    kill_children(children)
    if killed is not None:
        killed()
    for child in children:
        child._release()


def signal_groups(leaders: Iterable[int], number: int) -> None:
    """Send a signal to the process groups of processes that are not reaped yet."""
    for leader in leaders:
        with suppress(ProcessLookupError):
            os.killpg(leader, number)


def _outside_groups(leaders: set[int]) -> Iterator[Process]:
    """The processes of some sessions that are not in the groups of the leaders."""
    for process in processes() if leaders else ():
        if process.session in leaders and process.group not in leaders:
            yield process


def _started(
    command: Sequence[str],
    stdin: int | None,
    environment: Mapping[str, str] | None,
    cpus: Cpus | None,
) -> subprocess.Popen[bytes]:
    """The process of a child, in a session of its own."""
    return subprocess.Popen(
        command,
        env=environment,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=partial(_begin, os.getpid(), cpus),  # noqa: PLW1509 (takes no lock)
    )


def _streams(
    process: subprocess.Popen[bytes], sinks: Sinks, rank: int | None
) -> list[Stream]:
    """Standard output and error of a process, which may be a rank."""
    assert process.stdout is not None
    assert process.stderr is not None
    prefix = b"" if rank is None else f"[{rank}] ".encode()
    out, err = sinks.log(rank, STDOUT), sinks.log(rank, STDERR)
    tracebacks = sinks.tracebacks(rank)
    return [
        Stream(process.stdout, sinks.out, prefix, out, sinks.stamp),
        Stream(process.stderr, sinks.err, prefix, err, sinks.stamp, tracebacks),
    ]


def _begin(launcher: int, cpus: Cpus | None) -> None:
    """Let the new process end with the launcher and keep to its cores."""
    end_with_parent(launcher)
    if cpus is not None:
        os.sched_setaffinity(0, cpus)


class Deadline:
    """A deadline, by default infinite, that can be brought forward."""

    def __init__(self, seconds: float = math.inf):
        self._time = time.monotonic() + seconds

    def at_most(self, seconds: float) -> None:
        """Bring the deadline forward to ``seconds`` from now, unless it is earlier."""
        self._time = min(self._time, time.monotonic() + seconds)

    def left(self) -> float | None:
        """Seconds left, at least 0; None if infinite."""
        left = self._time - time.monotonic()
        return None if math.isinf(left) else max(left, 0.0)


AChild = TypeVar("AChild", bound=Child)


def _flush_late(streams: Iterable[Stream]) -> None:
    """Forward unfinished lines that have waited long enough for their end."""
    for stream in streams:
        if stream.seconds_left() == 0 and not stream.has_more():
            stream.flush()


def as_completed(children: Sequence[AChild], deadline: Deadline) -> Iterator[AChild]:
    """Forward the output and yield each child when it ends, until the deadline."""
    with selectors.DefaultSelector() as selector:
        register_wakeup(selector)
        running = {child.descriptor: child for child in children if not child.ended}
        for child in running.values():
            _register(selector, child)
        while running and deadline.left() != 0:
            unfinished = _unfinished(running.values())
            waits = [deadline.left(), *(s.seconds_left() for s in unfinished)]
            finite = [seconds for seconds in waits if seconds is not None]
            for key, _ in selector.select(min(finite, default=None)):
                if key.data is clear_wakeup:
                    clear_wakeup()
                elif key.data is None:
                    selector.unregister(key.fileobj)
                    child = running.pop(key.fd)
                    child.drain()
                    yield child
                elif not key.data.forward():
                    selector.unregister(key.fileobj)
            _flush_late(unfinished)


def _register(selector: selectors.BaseSelector, child: Child) -> None:
    """Select the end of a child and its output."""
    selector.register(child.descriptor, selectors.EVENT_READ)
    for stream in child.streams:
        selector.register(stream.pipe, selectors.EVENT_READ, stream)


def _unfinished(children: Iterable[Child]) -> list[Stream]:
    """The streams with an unfinished line."""
    streams = (stream for child in children for stream in child.streams)
    return [stream for stream in streams if stream.seconds_left() is not None]
