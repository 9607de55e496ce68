"""The embedded store of a job, held by a process on the host that its address names."""

import errno

from collalgo.base.environment import SECRET
from collalgo.bootstrap.interfaces import is_loopback
from collalgo.bootstrap.store.server import Server
from collalgo.bootstrap.user_secret import user_secret
from collalgo.errors import RendezvousError, VariableError


class Hosting:
    """The embedded store, held by the first process on its host that asks for it."""

    def __init__(self, host: str, port: int, secret: bytes):
        self._host, self._port, self._secret = host, port, secret
        self._server: Server | None = None

    def begin(self) -> None:
        """Hold the store, unless it is on another host or another process does."""
        if self._server is not None:
            return
        try:
            self._server = Server(self._secret, self._host, self._port)
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EADDRNOTAVAIL):
                raise

    @property
    def is_held(self) -> bool:
        """Whether this process holds the store."""
        return self._server is not None

    def drain(self, seconds: float) -> None:
        """Wait until no process uses the store, at most some seconds."""
        if self._server is not None:
            self._server.drain(seconds)

    def end(self) -> None:
        """Close the store."""
        if self._server is not None:
            self._server.close()


def secret_of_job(host: str, who: str, place: str, given: bytes | None = None) -> bytes:
    """The secret of a job; if its store is on this host, by default that of the user.

    Parameters
    ----------
    host
        The host of the store.
    who, place
        The caller and its purpose, for errors.
    given
        The secret that the user has passed; by default that of ``COLLALGO_SECRET``.

    Raises
    ------
    RendezvousError
        If the job has no secret, or an empty one.
    """
    try:
        found: bytes | None = SECRET.value() if given is None else given
    except VariableError as error:
        raise RendezvousError(str(error)) from None
    if not found and given is None and is_loopback(host):
        found = user_secret()
    if found:  # with an empty key everybody could join
        return found
    raise RendezvousError(
        f"{who} has no secret for {place}; set COLLALGO_SECRET (hexadecimal digits) to "
        "the same on all nodes"
    )
