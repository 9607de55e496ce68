"""Processes that wait for each other at a store, some of which end."""

import threading
import time
from types import SimpleNamespace

import pytest

from collalgo.bootstrap.failure_agreement import FailureAgreement
from collalgo.bootstrap.membership import Membership
from collalgo.bootstrap.store.client import Client, StoreError
from collalgo.bootstrap.store.server import Server
from collalgo.errors import BootstrapError

pytestmark = pytest.mark.parallel

SECRET = b"of the tests"


@pytest.fixture
def members():
    """Some processes of a job: what each knows of the others."""
    server, clients = Server(SECRET, "127.0.0.1"), []

    def members(size):
        found = [Membership(rank) for rank in range(size)]
        for member in found:
            clients.append(Client(["127.0.0.1"], server.port, SECRET, 5.0))
            member.begin(clients[-1])
        return found

    yield members
    for client in clients:
        client.close()
    server.close()


def test_nobody_waits_for_who_has_ended(members):
    one, other, third = members(3)
    board = one.joining([0, 1, 2])
    threading.Timer(0.2, other.store.close).start()
    start = time.monotonic()
    with pytest.raises(
        BootstrapError, match=r"rank 0 waited .* rank 1 is gone"
    ) as told:
        board.get("never", 20)
    assert time.monotonic() - start < 10
    assert told.value.missing == (1,)
    with pytest.raises(BootstrapError, match="rank 1 is gone"):
        board.get("never", 20)
    third.store.close()
    with pytest.raises(BootstrapError, match="rank 1 is gone"):  # the first
        board.check()


def test_who_has_ended_has_kept_its_word(members):
    one, other = members(2)
    other.store.set("said", b"before")
    other.store.close()
    while not one.is_gone(1):
        time.sleep(0.01)
    assert one.joining([0, 1]).get("said", 20) == b"before"


def test_some_do_not_wait_for_who_is_none_of_them(members):
    one, other, third = members(3)
    everyone = one.joining([0, 1, 2])
    two = everyone.of([2, 0])
    other.store.close()
    while not one.is_gone(1):
        time.sleep(0.01)
    with pytest.raises(StoreError, match="nobody has set never"):
        two.get("never", 0.05)
    third.store.set("said", b"now")
    assert two.get("said", 5) == b"now"
    third.store.close()
    with pytest.raises(BootstrapError, match=r"rank 0 waited .* rank 2 is gone"):
        two.get("never", 20)


def test_of_the_ranks_of_a_host_one_judges(members):
    """They find the same failure at once, and may hear of it at different times."""
    job, *_ = members(1)
    host = SimpleNamespace(
        members=(0, 1),
        entered=lambda _place: 5,
        call=lambda _place, _sequence=-1: None,
        break_off=lambda sequence=0: None,
    )
    one, other = (
        FailureAgreement(
            job, "world", SimpleNamespace(rank=rank, shared=host), (0, 1, 2)
        )
        for rank in (0, 1)
    )
    failure = {"kind": "timeout", "rank": 0, "culprit": 0, "sequence": 5, "missing": []}
    found = one.decision(failure.copy())
    assert 2 in found["missing"]
    assert "2" not in found["last_calls"]
    job.store.set("report/world/2", b'{"2": [4, {"count": 7}, null]}')  # too late
    threading.Timer(0.2, other.judged, [found]).start()
    assert other.decision(failure.copy()) == found
