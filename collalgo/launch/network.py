"""Which addresses the hosts of a job reach each other by: it is tried, not guessed.

Each agent listens while the job starts and tells who connects a random word. Agents
connect to all addresses of their neighbours, and compare the word: the bridge of
containers on this host has the address of that on every other one.
"""

import secrets
import selectors
import socket
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Thread

from collalgo.bootstrap.interfaces import Interface, interfaces, selected
from collalgo.errors import BootstrapError

#: Seconds in which an address has to answer.
ANSWER_SECONDS = 3.0

#: The neighbours of a host that try its addresses: those so far after it.
DISTANCES = (1, -1)

#: Characters of the word that a listener tells.
WORD = 32


@dataclass(frozen=True)
class Endpoint:
    """Where a host can be tried.

    Attributes
    ----------
    host : str
        Its name.
    port : int
        The port of its listener.
    word : str
        What the listener tells.
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
    """Tells who connects a random word, until it is closed."""

    def __init__(self) -> None:
        self.word = secrets.token_hex(WORD // 2)
        self._socket = socket.create_server(("", 0), backlog=128)
        self.port: int = self._socket.getsockname()[1]
        Thread(target=self._serve, name="collalgo listener", daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:  # it is closed
                return
            with suppress(OSError), connection:
                connection.send(self.word.encode())

    def close(self) -> None:
        """Stop."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def endpoint(self, host: str) -> Endpoint:
        """Where this host can be tried."""
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
    attempt.connect_ex((address, port))  # what fails at once is readable at once
    selector.register(attempt, selectors.EVENT_READ, address)


def _said(attempt: object) -> bytes:
    """What a listener has told; empty if there is none."""
    assert isinstance(attempt, socket.socket)
    with attempt, suppress(OSError):
        return attempt.recv(WORD)
    return b""


def _close(attempt: object) -> None:
    assert isinstance(attempt, socket.socket)
    attempt.close()


def neighbours(number: int, count: int) -> list[int]:
    """The hosts that one of ``count`` hosts tries; none if it is alone."""
    found = ((number + distance) % count for distance in DISTANCES)
    return [other for other in dict.fromkeys(found) if other != number]


@dataclass(frozen=True)
class HostNetwork:
    """The interfaces by which the other hosts reach a host.

    Attributes
    ----------
    host : str
        Its name.
    working : sequence of Interface
        They, the best one first.
    unreached : sequence of Interface
        The others, without loopback.
    isolated : sequence of Interface
        Those of the others that cannot lead to other hosts: bridges, and those whose
        address other hosts have, too.
    """

    host: str
    working: Sequence[Interface]
    unreached: Sequence[Interface] = ()
    isolated: Sequence[Interface] = ()

    def __str__(self) -> str:
        words = [f"{each.name} {each.address}" for each in self.working]
        words += [f"not {each.name} {each.address}" for each in self.unreached]
        return ", ".join(words) or "none"

    @property
    def restricted(self) -> list[str]:
        """The interfaces that the engine may use; empty for all."""
        if not self.isolated:
            return []
        isolated = {each.name for each in self.isolated}
        others = {each.name for each in (*self.working, *self.unreached)} - isolated
        return sorted(others)


def networks(
    endpoints: Sequence[Endpoint],
    answers: Sequence[Sequence[str]],
    nics: Sequence[str] = (),
) -> Iterator[HostNetwork]:
    """The networks of all hosts, from the addresses at which each was reached.

    Parameters
    ----------
    endpoints
        Of the hosts.
    answers
        The addresses at which each was reached, once for each host that has tried.
    nics
        The interfaces that the user wants; none: those that work.

    Raises
    ------
    BootstrapError
        If a host was not reached, or not by a wanted interface.
    """
    known = Counter(one.address for each in endpoints for one in each.interfaces)
    for endpoint, answer in zip(endpoints, answers, strict=True):
        times = Counter(answer)
        working = _working(endpoint, times, nics)
        bad = [e for e in endpoint.outward if not times[e.address]]
        isolated = [
            e for e in bad if e.name in endpoint.bridges or known[e.address] > 1
        ]
        yield HostNetwork(endpoint.host, working, bad, isolated)


def _working(
    endpoint: Endpoint, times: Counter[str], nics: Sequence[str]
) -> list[Interface]:
    """The interfaces by which a host was reached, the most often reached one first."""
    outward = endpoint.outward
    wanted = selected(outward, nics, endpoint.host) if nics else outward
    failed = [each for each in wanted if not times[each.address]]
    if not nics:  # loopback leads to another host only if it is another name of this
        wanted = [e for e in wanted if times[e.address]] or [
            e for e in endpoint.interfaces if times[e.address]
        ]
    if not wanted or (nics and failed):
        tried = ", ".join(f"{each.name} {each.address}" for each in failed)
        raise BootstrapError(
            f"host {endpoint.host} is not reached by other hosts of the job at "
            f"{tried or 'any address'}; check its firewall and routes, or name other "
            "interfaces: --nics eth0"
        )
    return wanted if nics else sorted(wanted, key=lambda e: -times[e.address])
