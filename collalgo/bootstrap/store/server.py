"""The embedded store: a thread of one process that keeps the keys of a job."""

import asyncio
import logging
import socket
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import Any

from collalgo.bootstrap.store.liveness import has_hung_up, is_silent, keep_alive
from collalgo.bootstrap.store.session import (
    CLAIM_BYTES,
    HEAD,
    Distrust,
    Session,
)

_LOG = logging.getLogger("collalgo")

#: Seconds that a visitor has to prove that it belongs to the job.
PROOF_SECONDS = 5.0

#: Visitors that have not proved it yet, at most.
VISITORS = 256

#: Bytes that may wait for a client that does not read, before it is given up.
BACKLOG = 256 << 20


class _Guest:
    """A client that has proved that it belongs to the job."""

    def __init__(self, session: Session, writer: asyncio.StreamWriter):
        self.session = session
        self.writer = writer
        self.prefixes: list[bytes] = []
        self.leases: set[bytes] = set()

    @property
    def address(self) -> object:
        """Of its host."""
        return self.writer.get_extra_info("peername")[0]

    @property
    def is_silent(self) -> bool:
        """Whether the kernel has asked its host something, and has no answer yet."""
        return not self.writer.is_closing() and is_silent(self._socket)

    @property
    def _socket(self) -> Any:
        return self.writer.get_extra_info("socket")

    def send(self, *fields: bytes) -> None:
        # A write that fails would end the connection with its last words unread.
        if self.writer.is_closing() or has_hung_up(self._socket):
            return
        self.writer.write(self.session.frame(fields))
        if self.writer.transport.get_write_buffer_size() > BACKLOG:
            self.writer.transport.abort()  # it does not read what it has asked for


class Server:
    """A store on a port of its own.

    Parameters
    ----------
    secret
        What clients must know.
    host, port
        Where to listen; by default on all interfaces, on a port that is free.
    """

    def __init__(self, secret: bytes, host: str = "", port: int = 0):
        self._secret = secret
        self._values: dict[bytes, bytes] = {}
        self._waiting: dict[bytes, list[tuple[_Guest, bytes]]] = defaultdict(list)
        self._guests: set[_Guest] = set()
        self._visits: dict[asyncio.StreamWriter, asyncio.Task[None] | None] = {}
        self._holder: dict[bytes, _Guest] = {}
        self._visitors = 0
        self._ending = False
        self._refused: set[str] = set()
        self._listener = socket.create_server((host, port), backlog=1024)
        self.port: int = self._listener.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._run, name="collalgo store", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Say what is still to be said, and end."""
        if not self._loop.is_closed():
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._end.set)
            self._thread.join(5)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._end = asyncio.Event()
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._welcome, sock=self._listener)
        await self._end.wait()
        self._ending = True
        self._loop.remove_reader(self._listener.fileno())  # nobody else is let in
        for guest in list(self._guests):
            with suppress(OSError, asyncio.TimeoutError):
                await asyncio.wait_for(guest.writer.drain(), 1)
            guest.writer.close()
        # Who just comes in sees that it is over: asyncio complains of tasks that are
        # cancelled before they begin, and of connections to a server that is closed.
        while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            while self._visits:
                writer, visit = self._visits.popitem()
                if visit is not None:
                    visit.cancel()
                writer.transport.abort()  # wait_for may swallow that it is cancelled
            await asyncio.wait(tasks)
        server.close()

    # ---- visitors

    async def _welcome(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Let a visitor prove itself, then serve it until it goes."""
        self._visits[writer] = asyncio.current_task()
        try:
            if self._ending:
                return
            session = await self._admit(reader, writer)
            await self._attend(reader, _Guest(session, writer))
        except Distrust as reason:
            address = str((writer.get_extra_info("peername") or ["?"])[0])
            if address not in self._refused:
                self._refused.add(address)
                _LOG.warning("a visitor from %s was refused: %s", address, reason)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # gone, or the store is
        finally:
            self._visits.pop(writer, None)
            writer.transport.abort()
            with suppress(OSError):  # the loop must not end before it is closed
                await writer.wait_closed()

    async def _admit(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> Session:
        """Wait for the proof of a visitor, but not for long."""
        self._visitors += 1
        try:
            return await asyncio.wait_for(self._prove(reader, writer), PROOF_SECONDS)
        except asyncio.TimeoutError:
            raise Distrust(f"it said too little in {PROOF_SECONDS:g} s") from None
        finally:
            self._visitors -= 1

    async def _prove(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> Session:
        if self._visitors > VISITORS:
            raise Distrust(f"{VISITORS} others have yet to prove themselves")
        keep_alive(writer.get_extra_info("socket"))
        session = Session(self._secret, is_store=True)
        writer.write(session.hello())
        writer.write(session.welcome(await reader.readexactly(CLAIM_BYTES)))
        return session

    async def _attend(self, reader: asyncio.StreamReader, guest: _Guest) -> None:
        """Serve a client, and delete what it has leased when it goes."""
        self._guests.add(guest)
        try:
            while True:
                head = await reader.readexactly(HEAD.size)
                content = await reader.readexactly(guest.session.length(head))
                self._obey(guest, guest.session.fields(head, content))
        except TimeoutError:
            self._give_up_like(guest)
            raise
        finally:
            self._guests.discard(guest)
            # A guest that is sent away at the end has not left.
            for key in () if self._ending else sorted(guest.leases):
                if self._holder.get(key) is guest:
                    self._put(key, None)

    def _give_up_like(self, lost: _Guest) -> None:
        """Give up the other clients of a lost host: it is the kernel that is silent.

        To tell them of each other would only begin the wait for an answer anew.
        """
        for guest in self._guests - {lost}:
            if guest.address == lost.address and guest.is_silent:
                guest.writer.transport.abort()

    # ---- what clients ask for

    def _obey(self, guest: _Guest, fields: list[bytes]) -> None:
        commands: dict[bytes, Callable[..., None]] = {
            b"set": self._set,
            b"get": self._get,
            b"forget": self._forget,
            b"add": self._add,
            b"compare_set": self._compare_set,
            b"delete": self._delete,
            b"keys": self._keys,
            b"watch": self._watch,
        }
        try:
            number, name, *rest = fields
            commands[name](guest, number, *rest)
        except (KeyError, TypeError, ValueError):
            raise Distrust(f"it asked for {fields[1:2]!r:.80}, which is none") from None

    def _put(
        self, key: bytes, value: bytes | None, holder: _Guest | None = None
    ) -> None:
        """Change a key and tell those who watch it or wait for it."""
        if value is None:
            self._values.pop(key, None)
        else:
            self._values[key] = value
        if (before := self._holder.pop(key, None)) is not None:
            before.leases.discard(key)
        if holder is not None:
            self._holder[key] = holder
            holder.leases.add(key)
        for guest in self._guests:
            if any(key.startswith(prefix) for prefix in guest.prefixes):
                guest.send(b"", key, *([] if value is None else [value]))
        if value is not None:
            for guest, number in self._waiting.pop(key, ()):
                guest.send(number, value)

    def _set(
        self, guest: _Guest, number: bytes, key: bytes, value: bytes, leased: bytes
    ) -> None:
        self._put(key, value, guest if leased else None)
        guest.send(number)

    def _get(self, guest: _Guest, number: bytes, key: bytes, waits: bytes) -> None:
        if key in self._values:
            guest.send(number, self._values[key])
        elif waits:
            self._waiting[key].append((guest, number))
        else:
            guest.send(number)

    def _forget(self, guest: _Guest, number: bytes, key: bytes, asked: bytes) -> None:
        """A client does not wait any more."""
        left = [
            entry for entry in self._waiting.pop(key, []) if entry != (guest, asked)
        ]
        if left:
            self._waiting[key] = left
        guest.send(number)

    def _add(self, guest: _Guest, number: bytes, key: bytes, amount: bytes) -> None:
        total = b"%d" % (int(self._values.get(key, b"0")) + int(amount))
        self._put(key, total)
        guest.send(number, total)

    def _compare_set(
        self, guest: _Guest, number: bytes, key: bytes, desired: bytes, *expected: bytes
    ) -> None:
        if [*expected] == [self._values[key]] if key in self._values else not expected:
            self._put(key, desired)
        guest.send(number, *([self._values[key]] if key in self._values else []))

    def _delete(self, guest: _Guest, number: bytes, key: bytes) -> None:
        was_there = key in self._values
        if was_there:
            self._put(key, None)
        guest.send(number, b"1" if was_there else b"")

    def _keys(self, guest: _Guest, number: bytes, prefix: bytes) -> None:
        guest.send(number, *sorted(k for k in self._values if k.startswith(prefix)))

    def _watch(self, guest: _Guest, number: bytes, prefix: bytes) -> None:
        """Tell a client of all keys with a prefix, those that are and those to come."""
        guest.prefixes.append(prefix)
        guest.send(number)
        for key, value in list(self._values.items()):
            if key.startswith(prefix):
                guest.send(b"", key, value)
