"""The addresses by which the hosts of a job reach each other, found by tests.

Each agent listens while the job starts and sends a random word to each connection.
Agents connect to all addresses of some other hosts, and compare the word: the bridge of
containers on this host has the address of that on every other one. An address that
some hosts reach and others do not, as that of a cable between two, comes after those
that every host reaches.
"""

import secrets
import selectors
import socket
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Thread
from typing import NamedTuple

from collalgo.base.threads import start
from collalgo.base.units import counted
from collalgo.bootstrap.interfaces import Interface, interfaces, selected
from collalgo.errors import BootstrapError

#: Seconds in which an address has to answer.
ANSWER_SECONDS = 3.0

#: Seconds before a listener that could not accept a connection tries again.
PAUSE = 0.1

#: Characters of the word that a listener sends.
WORD = 32


@dataclass(frozen=True)
class Endpoint:
    """The address at which a host can be tried.

    Attributes
    ----------
    host : str
        Its name.
    port : int
        The port of its listener.
    word : str
        The word that the listener sends.
    interfaces : sequence of Interface
        Its interfaces that are up, loopback last.
    bridges : sequence of str
        The names of those that are bridges.
    """

    host: str
    port: int
    word: str
    interfaces: Sequence[Interface]
    bridges: Sequence[str] = ()

    @property
    def outward(self) -> list[Interface]:
        """The interfaces without loopback."""
        return [each for each in self.interfaces if not each.is_loopback]


class Listener:
    """Sends a random word to each connection, until it is closed."""

    def __init__(self) -> None:
        self.word = secrets.token_hex(WORD // 2)
        self._socket = socket.create_server(("", 0), backlog=128)
        self.port: int = self._socket.getsockname()[1]
        self._is_closed = False
        start(Thread(target=self._serve, name="collalgo listener", daemon=True))

    def _serve(self) -> None:
        while not self._is_closed:
            try:
                connection, _ = self._socket.accept()
            except OSError:  # it is closed, or there are too few descriptors
                time.sleep(PAUSE)
                continue
            with suppress(OSError), connection:
                connection.send(self.word.encode())

    def close(self) -> None:
        """Stop."""
        self._is_closed = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def endpoint(self, host: str) -> Endpoint:
        """The address at which this host can be tried."""
        found = sorted(interfaces(), key=lambda each: each.is_loopback)
        bridges = [each.name for each in found if each.is_bridge]
        return Endpoint(host, self.port, self.word, found, bridges)


def reached(endpoint: Endpoint) -> list[str]:
    """The addresses by which this host reaches another, tried all at once."""
    deadline = time.monotonic() + ANSWER_SECONDS
    found = []
    with selectors.DefaultSelector() as selector:
        for address in dict.fromkeys(each.address for each in endpoint.interfaces):
            _begin(selector, address, endpoint.port)
        while selector.get_map() and time.monotonic() < deadline:
            for key, _ in selector.select(max(deadline - time.monotonic(), 0)):
                said, address = _said(key.fileobj), key.data
                selector.unregister(key.fileobj)
                if said == endpoint.word.encode():
                    found.append(address)
        for key in list(selector.get_map().values()):
            _close(key.fileobj)
    return found


def _begin(selector: selectors.BaseSelector, address: str, port: int) -> None:
    """Begin to connect to an address."""
    attempt = socket.socket()
    attempt.setblocking(False)
    attempt.connect_ex((address, port))  # a failed attempt is readable at once
    selector.register(attempt, selectors.EVENT_READ, address)


def _said(attempt: object) -> bytes:
    """The word that a listener has sent; empty without one."""
    assert isinstance(attempt, socket.socket)
    with attempt, suppress(OSError):
        return attempt.recv(WORD)
    return b""


def _close(attempt: object) -> None:
    assert isinstance(attempt, socket.socket)
    attempt.close()


def targets(number: int, count: int) -> list[int]:
    """The hosts that one of ``count`` hosts tries; none if it is alone.

    Both neighbours, a host far away, as hosts of one rack may reach each other in ways
    that others have not, and the first host, whose address all are given.
    """
    found = (number + 1, number - 1, number + count // 2, 0)
    others = dict.fromkeys(each % count for each in found)
    return [other for other in others if other != number]


@dataclass(frozen=True)
class HostNetwork:
    """The interfaces by which the other hosts reach a host.

    Attributes
    ----------
    host : str
        Its name.
    working : sequence of Interface
        Those that every host reaches that has tried, the best one first; otherwise
        those that some reach.
    partial : mapping
        How many of how many hosts reach an interface that some do not, in words.
    unreached : sequence of Interface
        Those that none reaches, without loopback.
    isolated : sequence of Interface
        Those of them that cannot lead to other hosts: bridges, and those whose address
        other hosts have, too.
    """

    host: str
    working: Sequence[Interface]
    partial: Mapping[Interface, str] = field(default_factory=dict)
    unreached: Sequence[Interface] = ()
    isolated: Sequence[Interface] = ()

    def __str__(self) -> str:
        words = [self._words(each) for each in self.working]
        words += [self._words(e) for e in self.partial if e not in self.working]
        words += [f"not {each.name} {each.address}" for each in self.unreached]
        return ", ".join(words) or "none"

    def _words(self, each: Interface) -> str:
        some = f" ({self.partial[each]})" if each in self.partial else ""
        return f"{each.name} {each.address}{some}"

    @property
    def restricted(self) -> list[str]:
        """The interfaces that the engine may use; empty for all."""
        if not self.isolated:
            return []
        isolated = {each.name for each in self.isolated}
        others = {e.name for e in (*self.working, *self.partial, *self.unreached)}
        return sorted(others - isolated)


class Answers(NamedTuple):
    """The addresses at which a host was reached.

    Attributes
    ----------
    times : Counter
        How many hosts reached it at each address.
    tries : int
        The number of hosts that have tried.
    by_shell : str
        The address that the remote shell has connected to, if it is known.
    """

    times: Counter[str]
    tries: int
    by_shell: str = ""

    def order(self, interface: Interface) -> tuple[int, bool]:
        """Sorts interfaces: those first that most hosts reach, then the shell's."""
        return -self.times[interface.address], interface.address != self.by_shell


def networks(
    endpoints: Sequence[Endpoint],
    answers: Sequence[Answers],
    nics: Sequence[str] = (),
) -> Iterator[HostNetwork]:
    """The networks of all hosts, from the addresses at which each was reached.

    Parameters
    ----------
    endpoints
        Of the hosts.
    answers
        The addresses at which each was reached.
    nics
        The interfaces that the user wants; none: those that work.

    Raises
    ------
    BootstrapError
        If a host was not reached, or not by a wanted interface.
    """
    known = Counter(one.address for each in endpoints for one in each.interfaces)
    for endpoint, answer in zip(endpoints, answers, strict=True):
        times, tries = answer.times, answer.tries
        partial = {
            e: f"by {times[e.address]} of {counted(tries, 'host')}"
            for e in endpoint.outward
            if 0 < times[e.address] < tries
        }
        bad = [e for e in endpoint.outward if not times[e.address]]
        isolated = [
            e for e in bad if e.name in endpoint.bridges or known[e.address] > 1
        ]
        working = _wanted(endpoint, answer, nics) if nics else _best(endpoint, answer)
        yield HostNetwork(endpoint.host, working, partial, bad, isolated)


def _wanted(
    endpoint: Endpoint, answer: Answers, nics: Sequence[str]
) -> list[Interface]:
    """The interfaces that the user names; a host must be reachable through each."""
    wanted = selected(endpoint.outward, nics, endpoint.host)
    failed = [each for each in wanted if answer.times[each.address] < answer.tries]
    if failed:
        raise _not_reached(endpoint, failed, answer)
    return wanted


def _best(endpoint: Endpoint, answer: Answers) -> list[Interface]:
    """The interfaces by which a host was reached by all others, or else by some.

    Loopback leads to another host only if it is another name of this one.
    """
    outward = sorted(endpoint.outward, key=answer.order)
    local = [each for each in endpoint.interfaces if each.is_loopback]
    for least in (max(answer.tries, 1), 1):
        for each in (outward, local):
            if found := [e for e in each if answer.times[e.address] >= least]:
                return found
    raise _not_reached(endpoint, endpoint.outward, answer)


def _not_reached(
    endpoint: Endpoint, failed: Sequence[Interface], answer: Answers
) -> BootstrapError:
    tried = ", ".join(
        f"{e.name} {e.address} (by {answer.times[e.address]} of "
        f"{counted(answer.tries, 'host')})"
        for e in failed
    )
    return BootstrapError(
        f"host {endpoint.host} is not reached by all other hosts of the job at "
        f"{tried or 'any address'}; check its firewall and routes, or name other "
        "interfaces: --interfaces eth0"
    )
