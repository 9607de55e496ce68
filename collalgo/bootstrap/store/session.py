"""The frames between the embedded store and its clients, and their authentication.

Both sides know the secret of the job and prove it by a keyed hash of fresh random
numbers; the secret itself is never sent. Every later frame carries a keyed hash of its
content and its number, so that none can be changed, added, repeated or left out.
This module reads and writes no socket.
"""

import hashlib
import hmac
import secrets
import struct
from collections.abc import Sequence

#: The first bytes that a store sends, with the version of the protocol.
GREETING = b"collalgo store 3"

NONCE = 32
PROOF = 32

#: The first message of the store, the answer of a client, and the answer to that.
HELLO_BYTES = len(GREETING) + NONCE
CLAIM_BYTES = NONCE + PROOF
WELCOME_BYTES = PROOF

#: Sent by a store in place of the welcome if the claim does not prove the secret. It
#: reveals nothing: the connection would be closed in any case.
REFUSAL = b"collalgo: another secret".ljust(WELCOME_BYTES)

#: The head of a frame: the length of its content, and the hash of it.
HEAD = struct.Struct("!I16s")

#: Bytes of the content of a frame at most.
LARGEST = 64 << 20

#: Bytes of a value at most, so that a frame holds it with its key.
MOST_BYTES = LARGEST - (1 << 16)

#: The prefix of the number of a request in an answer that another frame continues.
CONTINUED = b"+"

#: The first field of an answer: the command was carried out; the key has another
#: version; the lease has ended; another key does not have the version of a fence.
OK, CONFLICT, EXPIRED, FENCED = b"ok", b"conflict", b"expired", b"fenced"

#: The longest time to live of a lease, in seconds, which timers can still count.
LONGEST_LEASE = 1e8

_LENGTH = struct.Struct("!I")


class ProtocolError(Exception):
    """The other side does not know the secret, or breaks the protocol."""


class OtherSecret(ProtocolError):
    """The two sides know different secrets."""


class Session:
    """One side of a connection.

    Parameters
    ----------
    secret
        The secret of the job.
    is_store
        Whether this is the side of the store.
    """

    def __init__(self, secret: bytes, *, is_store: bool):
        self._secret = secret
        self._is_store = is_store
        self._nonce = secrets.token_bytes(NONCE)
        self._sent = self._received = 0

    def hello(self) -> bytes:
        """The first message of a store."""
        return GREETING + self._nonce

    def claim(self, hello: bytes) -> bytes:
        """The answer of a client, with the proof that it knows the secret."""
        if not hello.startswith(GREETING):
            raise ProtocolError("it is not a store of this version of collalgo")
        self._agree(hello[len(GREETING) :], self._nonce)
        return self._nonce + self._proof(b"client")

    def welcome(self, claim: bytes) -> bytes:
        """The answer of a store to a claim, with the proof that it knows the secret."""
        self._agree(self._nonce, claim[:NONCE])
        if not hmac.compare_digest(claim[NONCE:], self._proof(b"client")):
            raise OtherSecret("it does not know the secret of the job")
        return self._proof(b"store")

    def check(self, welcome: bytes) -> None:
        """Check the proof of the store."""
        if welcome == REFUSAL:
            raise OtherSecret("it has another secret")
        if not hmac.compare_digest(welcome, self._proof(b"store")):
            raise ProtocolError("the store does not know the secret of the job")

    def _agree(self, store_nonce: bytes, client_nonce: bytes) -> None:
        self._key = self._hash(self._secret, store_nonce + client_nonce)

    def _proof(self, side: bytes) -> bytes:
        return self._hash(self._key, side)

    @staticmethod
    def _hash(key: bytes, content: bytes) -> bytes:
        return hmac.new(key, content, hashlib.sha256).digest()

    def _seal(self, content: bytes, number: int, *, from_store: bool) -> bytes:
        side = b"from store" if from_store else b"from client"
        return self._hash(self._key, side + number.to_bytes(8, "big") + content)[:16]

    def frame(self, fields: Sequence[bytes]) -> bytes:
        """The next frame to be sent, with these fields."""
        parts = [part for field in fields for part in (_LENGTH.pack(len(field)), field)]
        content = b"".join(parts)
        if len(content) > LARGEST:
            raise ValueError(f"{len(content)} bytes are more than {LARGEST}")
        seal = self._seal(content, self._sent, from_store=self._is_store)
        self._sent += 1
        return HEAD.pack(len(content), seal) + content

    @staticmethod
    def length(head: bytes) -> int:
        """The length of the content of a frame, from its head."""
        length: int = HEAD.unpack(head)[0]
        if length > LARGEST:
            raise ProtocolError(f"a frame of {length} bytes is longer than {LARGEST}")
        return length

    def fields(self, head: bytes, content: bytes) -> list[bytes]:
        """The fields of the next frame received."""
        seal = self._seal(content, self._received, from_store=not self._is_store)
        self._received += 1
        if not hmac.compare_digest(HEAD.unpack(head)[1], seal):
            raise ProtocolError("the hash of a frame does not match")
        found, start = [], 0
        while start < len(content):
            if start + _LENGTH.size > len(content):
                raise ProtocolError("a frame ends within a length")
            (length,) = _LENGTH.unpack_from(content, start)
            start += _LENGTH.size
            found.append(content[start : start + length])
            start += length
        if start != len(content):
            raise ProtocolError("a frame ends within a field")
        return found
