"""The members of an etcd cluster: connections with them, and their status."""

import json
import re
import ssl
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from time import monotonic
from typing import Any
from urllib.parse import SplitResult, urlsplit

from collalgo.base.finalizers import Lock
from collalgo.bootstrap.store.etcd_messages import accepted, as_object, term_of, text
from collalgo.bootstrap.store.protocol import ANSWER_SECONDS, StoreError
from collalgo.bootstrap.store.race import Server

#: The port of etcd.
PORT = 2379

#: Seconds in which a member answers that is asked whether it works.
PROBE_SECONDS = 0.25

#: Seconds for which a cluster counts as disturbed after a member without a leader, or
#: whose host did not answer.
DISTURBED_SECONDS = 10.0

#: A read that etcd answers only while it reaches its leader.
READ = {"key": text(b"collalgo"), "count_only": True}


class Members:
    """The members of a cluster, of which one is the current: requests go to it.

    Parameters
    ----------
    members
        Host and port of each.
    context
        For HTTPS, if any.

    Attributes
    ----------
    term : int
        The last term of a leader that a member has named.
    abandoned : int
        The number of successive requests that were sent to another member because the
        first was slow.
    """

    def __init__(self, members: Sequence[Server], context: ssl.SSLContext | None):
        self._order, self._context = list(members), context
        if context is not None:
            # In 1.3 tickets follow the handshake, which would pass for an answer.
            context.maximum_version = ssl.TLSVersion.TLSv1_2
        self._lock = Lock()
        self._left: dict[Server, float] = {}
        self._disturbed_until = 0.0
        self.term = self.abandoned = 0

    # ---- the current member

    def in_order(self) -> list[Server]:
        """All members, the current one first."""
        with self._lock:
            return list(self._order)

    def others(self, member: Server) -> list[Server]:
        """All members but one."""
        return [each for each in self.in_order() if each != member]

    def turn_to(self, member: Server) -> None:
        """Make a member the current one."""
        with self._lock:
            place = self._order.index(member)
            self._order = self._order[place:] + self._order[:place]

    def leave(self, member: Server) -> None:
        """Make another member the current one, if it is this one, which has failed."""
        with self._lock:
            self._left[member] = monotonic()
            if self._order[0] == member:
                self._order.append(self._order.pop(0))

    def was_left(self, member: Server, since: float) -> bool:
        """Whether a member has failed since some time."""
        return self._left.get(member, 0.0) > since

    # ---- disturbances

    def disturb(self) -> None:
        """Record that a member has no leader, or that its host does not answer."""
        self._disturbed_until = monotonic() + DISTURBED_SECONDS

    @property
    def is_disturbed(self) -> bool:
        """Whether there was a disturbance a short time ago."""
        return monotonic() < self._disturbed_until

    # ---- connections

    def connection(
        self, member: Server, timeout: float = ANSWER_SECONDS
    ) -> HTTPConnection:
        """A connection with a member, which is not begun yet."""
        if self._context is None:
            return HTTPConnection(*member, timeout=timeout)
        return HTTPSConnection(*member, timeout=timeout, context=self._context)

    def secure(self, connection: HTTPConnection) -> None:
        """Begin TLS on a new connection, if there are certificates."""
        is_secure = isinstance(connection.sock, ssl.SSLSocket)
        if self._context is not None and not is_secure:
            connection.sock = self._context.wrap_socket(
                connection.sock, server_hostname=connection.host
            )

    def status(self, member: Server) -> dict[str, Any]:
        """The status of a member; empty if it reports nothing at once."""
        return self._probe(member, "maintenance/status", {})

    def answers(self, member: Server) -> bool:
        """Whether a member reaches its leader, and answers at once."""
        return term_of(self._probe(member, "kv/range", READ)) > 0

    def _probe(
        self, member: Server, path: str, body: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The answer of a member; empty without one at once."""
        connection = self.connection(member, PROBE_SECONDS)
        with suppress(OSError, HTTPException, StoreError), closing(connection):
            connection.request("POST", f"/v3/{path}", json.dumps(body))
            return as_object(accepted(connection, path).read())
        return {}


def split_url(url: str) -> SplitResult:
    """The parts of a URL, whose place may have several hosts, separated by commas.

    By itself ``urlsplit`` refuses the brackets of an IPv6 address behind another host
    from CPython 3.14 on, and from late patches of older ones.

    Raises
    ------
    ValueError
        If a host has brackets that do not match, or that are around no address.
    """
    scheme, _, rest = url.partition("://")
    hosts = re.split("[/?#]", rest, maxsplit=1)[0]
    netloc = ",".join(urlsplit(f"//{host}").netloc for host in hosts.split(","))
    return urlsplit(f"{scheme}://{rest[len(hosts) :]}")._replace(netloc=netloc)


def members_of(netloc: str) -> list[Server]:
    """Host and port of each member of etcd in a URL, separated by commas, once."""
    members = [urlsplit(f"//{member}") for member in netloc.split(",")]
    try:
        return list({(m.hostname or "", m.port or PORT): None for m in members})
    except ValueError as error:
        raise ValueError(
            f"{netloc!r} has an invalid port ({error}); pass HOST:PORT, with "
            "commas between several members of etcd"
        ) from None
