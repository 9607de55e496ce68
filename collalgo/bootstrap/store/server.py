"""The embedded store: a thread of one process that keeps the keys of a job."""

import asyncio
import logging
import socket
import time
from contextlib import suppress
from threading import Thread
from typing import Any

from collalgo.base.finalizers import serving
from collalgo.base.threads import start
from collalgo.bootstrap.interfaces import family_of
from collalgo.bootstrap.store.data import Data
from collalgo.bootstrap.store.liveness import is_closed_by_peer, is_silent, keep_alive
from collalgo.bootstrap.store.session import (
    CLAIM_BYTES,
    HEAD,
    REFUSAL,
    OtherSecret,
    ProtocolError,
    Session,
)

_LOG = logging.getLogger("collalgo")

#: Seconds that a new connection has to prove that it belongs to the job.
PROOF_SECONDS = 5.0

#: Connections that have not proved it yet, at most.
UNPROVED = 256

#: Bytes that may be queued for a client that does not read, before it is dropped.
BACKLOG = 256 << 20

#: Seconds that each client has to read the last answers when the store is closed.
DRAIN_SECONDS = 1.0

#: Seconds between two checks whether clients are connected.
DRAIN_PAUSE = 0.05


class ServedClient:
    """The connection of a client that has proved that it belongs to the job."""

    def __init__(self, session: Session, writer: asyncio.StreamWriter):
        self.session = session
        self.writer = writer

    @property
    def address(self) -> object:
        """The address of its host."""
        return self.writer.get_extra_info("peername")[0]

    @property
    def is_silent(self) -> bool:
        """Whether the kernel has probed its host and has no answer yet."""
        return not self.writer.is_closing() and is_silent(self._socket)

    @property
    def _socket(self) -> Any:
        return self.writer.get_extra_info("socket")

    def send(self, *fields: bytes) -> None:
        """Send a frame, unless the client has closed its side."""
        # A failed write would end the connection before its last frames are read.
        if self.writer.is_closing() or is_closed_by_peer(self._socket):
            return
        self.writer.write(self.session.frame(fields))
        if self.writer.transport.get_write_buffer_size() > BACKLOG:
            self.writer.transport.abort()  # it does not read its answers


class Server:
    """A store that listens at a port of its own.

    Parameters
    ----------
    secret
        The secret of the job, which clients must know.
    host, port
        The address to listen at; by default all interfaces and a free port.

    Attributes
    ----------
    other_secrets : set of str
        The addresses of clients with another secret.
    """

    def __init__(self, secret: bytes, host: str = "", port: int = 0):
        self._secret = secret
        self._clients: set[ServedClient] = set()
        self._connections: dict[asyncio.StreamWriter, asyncio.Task[None] | None] = {}
        self._unproved = 0
        self._closing = False
        self._refused: set[str] = set()
        self.other_secrets: set[str] = set()
        self._listener = socket.create_server(
            (host, port), family=family_of(host), backlog=1024
        )
        self.port: int = self._listener.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._end = asyncio.Event()
        self._data = Data(self._loop)
        self._thread = Thread(target=self._run, name="collalgo store", daemon=True)
        start(self._thread)

    @property
    def connected(self) -> int:
        """The number of clients that are connected."""
        return len(self._clients)

    def drain(self, seconds: float) -> None:
        """Wait until no client is connected, at most some seconds."""
        end = time.monotonic() + seconds
        while self.connected and time.monotonic() < end:
            time.sleep(DRAIN_PAUSE)

    def close(self) -> None:
        """Send the pending answers, then close all connections."""
        if not self._loop.is_closed():
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._end.set)
            self._thread.join(5)

    @serving()
    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._accept, sock=self._listener)
        await self._end.wait()
        self._closing = True
        self._loop.remove_reader(self._listener.fileno())  # accept no more
        for client in list(self._clients):
            with suppress(OSError, asyncio.TimeoutError):
                await asyncio.wait_for(client.writer.drain(), DRAIN_SECONDS)
            client.writer.close()
        # asyncio warns of tasks that are cancelled before they begin, and of
        # connections to a server that is closed, so new connections end by themselves.
        while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            while self._connections:
                writer, task = self._connections.popitem()
                if task is not None:
                    task.cancel()
                writer.transport.abort()  # wait_for may swallow the cancellation
            await asyncio.wait(tasks)
        server.close()

    # ---- connections

    async def _accept(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Authenticate a connection, then serve it until it ends."""
        self._connections[writer] = asyncio.current_task()
        try:
            if self._closing:
                return
            session = await self._authenticate(reader, writer)
            await self._attend(reader, ServedClient(session, writer))
        except ProtocolError as reason:
            self._log_refusal(writer, reason)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client has ended, or the store is closed
        finally:
            self._connections.pop(writer, None)
            writer.transport.abort()
            with suppress(OSError):  # the loop must not end before it is closed
                await writer.wait_closed()

    def _log_refusal(self, writer: asyncio.StreamWriter, reason: ProtocolError) -> None:
        """Log the first refusal of each address."""
        address = _address(writer)
        if address not in self._refused:
            self._refused.add(address)
            _LOG.warning("a connection from %s was refused: %s", address, reason)

    async def _authenticate(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> Session:
        """Wait for the proof of a connection, for a bounded time."""
        self._unproved += 1
        try:
            return await asyncio.wait_for(self._prove(reader, writer), PROOF_SECONDS)
        except asyncio.TimeoutError:
            raise ProtocolError(
                f"it did not authenticate within {PROOF_SECONDS:g} s"
            ) from None
        finally:
            self._unproved -= 1

    async def _prove(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> Session:
        if self._unproved > UNPROVED:
            raise ProtocolError(
                f"{UNPROVED} other connections are not yet authenticated"
            )
        keep_alive(writer.get_extra_info("socket"))
        session = Session(self._secret, is_store=True)
        writer.write(session.hello())
        try:
            writer.write(session.welcome(await reader.readexactly(CLAIM_BYTES)))
        except OtherSecret:
            writer.write(REFUSAL)
            self.other_secrets.add(_address(writer))
            raise
        return session

    async def _attend(self, reader: asyncio.StreamReader, client: ServedClient) -> None:
        """Serve a client, and end its leases with its connection."""
        self._clients.add(client)
        try:
            while True:
                head = await reader.readexactly(HEAD.size)
                content = await reader.readexactly(client.session.length(head))
                self._execute(client, client.session.fields(head, content))
        except TimeoutError:
            self._drop_silent(client)
            raise
        finally:
            self._clients.discard(client)
            # A client that the closing store disconnects has not left the job.
            self._data.unsubscribe(client)
            if not self._closing:
                self._data.drop(client)

    def _execute(self, client: ServedClient, fields: list[bytes]) -> None:
        try:
            self._data.execute(client, fields)
        except (LookupError, TypeError, ValueError):
            raise ProtocolError(
                f"its command {fields[1:2]!r:.80} is unknown or malformed"
            ) from None

    def _drop_silent(self, lost: ServedClient) -> None:
        """Drop the other clients of a lost host, once the kernel has given it up.

        Notifying them of each other would only restart the kernel's wait.
        """
        for client in self._clients - {lost}:
            if client.address == lost.address and client.is_silent:
                client.writer.transport.abort()


def _address(writer: asyncio.StreamWriter) -> str:
    """The address of the host of a client."""
    return str((writer.get_extra_info("peername") or ["?"])[0])
