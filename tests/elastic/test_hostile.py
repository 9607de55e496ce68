"""Hostile clients of the store of a job, and documents that are none: it goes on."""

import random
import socket

import pytest

from collalgo.bootstrap.store.connection import exactly
from collalgo.bootstrap.store.job_keys import NODES, ROUND
from collalgo.bootstrap.store.session import HELLO_BYTES, Session
from collalgo.elastic.documents import (
    Node,
    Round,
    decoded,
    encoded,
)
from collalgo.elastic.schema import Member
from collalgo.elastic.store_rendezvous import StoreRendezvous
from collalgo.errors import RendezvousError
from tests.bootstrap.conftest import SECRET
from tests.elastic.conftest import QUICK
from tests.elastic.test_rendezvous import all_join, check_agree
from tests.support.store_clients import enter

pytestmark = pytest.mark.deadline

AMOUNTS = [300, pytest.param(10_000, marks=pytest.mark.slow)]


def attack(server, rng, kind):
    """Send the store something that no member sends."""
    with socket.create_connection(("127.0.0.1", server.port), 5) as connection:
        hello = exactly(connection, HELLO_BYTES)
        if kind == "random bytes":
            connection.sendall(rng.randbytes(rng.randrange(1, 300)))
        elif kind == "a wrong key":
            connection.sendall(Session(b"guessed", is_store=False).claim(hello))
        else:  # the claim of another connection
            old = Session(SECRET, is_store=False).claim(hello[:-1] + b"\0")
            connection.sendall(old)


def forge(server, rng):
    """Send a frame on a connection that is proved, changed or twice."""
    connection, session = enter(server)
    frame = session.frame([b"1", b"set", ROUND.encode(), b"forged", b""])
    place = rng.randrange(4, len(frame))  # after the length
    changed = bytearray(frame)
    changed[place] ^= 1 << rng.randrange(8)
    connection.sendall(bytes(changed))
    connection.close()


@pytest.mark.parametrize("amount", AMOUNTS)
def test_a_job_goes_on_under_attack(server, connect, amount):
    nodes = [
        StoreRendezvous(lambda lost: connect(), "job j", QUICK, name) for name in "ab"
    ]
    all_join(*nodes)
    rng = random.Random(amount)
    kinds = ("random bytes", "a wrong key", "a replayed claim")
    for number in range(amount):
        if number % 4 == 3:
            forge(server, rng)
        else:
            attack(server, rng, kinds[number % 4])
    found = all_join(*nodes)
    check_agree(found)
    assert found[0].epoch == 2
    assert all(each.change() is None for each in nodes)
    for each in nodes:
        each.shutdown()


@pytest.mark.parametrize("amount", AMOUNTS)
def test_a_damaged_document_is_read_right_or_refused(amount):
    """Nothing but RendezvousError is raised, and what is read keeps the schema."""
    rng = random.Random(amount)
    members = (Member("a", "1"), Member("b", "2"))
    whole = {
        ROUND: Round(3, members, {"code": "v1"}, "lost: c"),
        NODES + "1": Node(members[0], 2),
    }
    for _ in range(amount):
        key = rng.choice(list(whole))
        value = bytearray(encoded(whole[key]))
        for _ in range(rng.randrange(1, 4)):
            place = rng.randrange(len(value))
            value[place : place + rng.randrange(3)] = rng.randbytes(rng.randrange(3))
        try:
            found = decoded(key, bytes(value))
        except RendezvousError:
            continue
        assert decoded(key, encoded(found)) == found
        assert type(found) is type(whole[key])
