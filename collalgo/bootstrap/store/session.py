"""What travels between a store and its clients: who proves what, and in which frames.

Both sides know the secret of the job and prove it by a keyed hash of fresh random
numbers; it never travels itself. Every frame after that carries a keyed hash of its
content and its number, so that nothing can be changed, added, repeated or left out.
This module reads and writes no socket.
"""

import hashlib
import hmac
import secrets
import struct
from collections.abc import Sequence

#: The first bytes that a store says, with the version of the protocol.
GREETING = b"collalgo store 1"

NONCE = 32
PROOF = 32

#: What the store says first, what a client answers, and what the store answers that.
HELLO_BYTES = len(GREETING) + NONCE
CLAIM_BYTES = NONCE + PROOF
WELCOME_BYTES = PROOF

#: A frame begins with the length of its content and the hash of it.
HEAD = struct.Struct("!I16s")

#: Bytes of the content of a frame at most.
LARGEST = 64 << 20

_LENGTH = struct.Struct("!I")


class Distrust(Exception):
    """The other side is not who it must be, or does not say what it may."""


class Session:
    """One side of a conversation.

    Parameters
    ----------
    secret
        Of the job.
    is_store
        Which of the sides this is.
    """

    def __init__(self, secret: bytes, *, is_store: bool):
        self._secret = secret
        self._is_store = is_store
        self._nonce = secrets.token_bytes(NONCE)
        self._sent = self._received = 0

    def hello(self) -> bytes:
        """The first words of a store."""
        return GREETING + self._nonce

    def claim(self, hello: bytes) -> bytes:
        """The answer of a client, which proves that it knows the secret."""
        if not hello.startswith(GREETING):
            raise Distrust("it is no store of this version of collalgo")
        self._agree(hello[len(GREETING) :], self._nonce)
        return self._nonce + self._proof(b"client")

    def welcome(self, claim: bytes) -> bytes:
        """The answer of a store to that, which proves the same of the store."""
        self._agree(self._nonce, claim[:NONCE])
        if not hmac.compare_digest(claim[NONCE:], self._proof(b"client")):
            raise Distrust("it does not know the secret of the job")
        return self._proof(b"store")

    def check(self, welcome: bytes) -> None:
        """Let a client make sure of the store."""
        if not hmac.compare_digest(welcome, self._proof(b"store")):
            raise Distrust("the store does not know the secret of the job")

    def _agree(self, store_nonce: bytes, client_nonce: bytes) -> None:
        self._key = self._hash(self._secret, store_nonce + client_nonce)

    def _proof(self, who: bytes) -> bytes:
        return self._hash(self._key, who)

    @staticmethod
    def _hash(key: bytes, content: bytes) -> bytes:
        return hmac.new(key, content, hashlib.sha256).digest()

    def _seal(self, content: bytes, number: int, *, from_store: bool) -> bytes:
        side = b"from store" if from_store else b"from client"
        return self._hash(self._key, side + number.to_bytes(8, "big") + content)[:16]

    def frame(self, fields: Sequence[bytes]) -> bytes:
        """A frame of some fields, to be sent as the next one."""
        parts = [part for field in fields for part in (_LENGTH.pack(len(field)), field)]
        content = b"".join(parts)
        if len(content) > LARGEST:
            raise ValueError(f"{len(content)} bytes are more than {LARGEST}")
        seal = self._seal(content, self._sent, from_store=self._is_store)
        self._sent += 1
        return HEAD.pack(len(content), seal) + content

    @staticmethod
    def length(head: bytes) -> int:
        """How long the content of a frame is that begins like this."""
        length: int = HEAD.unpack(head)[0]
        if length > LARGEST:
            raise Distrust(f"a frame of {length} bytes is longer than {LARGEST}")
        return length

    def fields(self, head: bytes, content: bytes) -> list[bytes]:
        """The fields of the frame that has come next."""
        seal = self._seal(content, self._received, from_store=not self._is_store)
        self._received += 1
        if not hmac.compare_digest(HEAD.unpack(head)[1], seal):
            raise Distrust("a frame was not written by who it must be")
        found, start = [], 0
        while start < len(content):
            if start + _LENGTH.size > len(content):
                raise Distrust("a frame ends within a length")
            (length,) = _LENGTH.unpack_from(content, start)
            start += _LENGTH.size
            found.append(content[start : start + length])
            start += length
        if start != len(content):
            raise Distrust("a frame ends within a field")
        return found
