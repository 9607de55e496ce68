"""Processes that wait for each other over a store, some of which end."""

import threading
import time
from types import SimpleNamespace

import pytest

from collalgo.bootstrap import membership
from collalgo.bootstrap.failure_agreement import FailureAgreement
from collalgo.bootstrap.membership import Membership
from collalgo.bootstrap.new_world import NewWorld, assemble
from collalgo.bootstrap.store.client import Client
from collalgo.bootstrap.store.protocol import StoreError
from collalgo.bootstrap.store.server import Server
from collalgo.errors import BootstrapError

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

    members.address = server.port, SECRET
    yield members
    for client in clients:
        client.close()
    server.close()


def test_a_wait_for_a_process_that_has_ended_fails(members):
    one, other, third = members(3)
    joining = one.joining([0, 1, 2])
    threading.Timer(0.2, other.store.close).start()
    start = time.monotonic()
    with pytest.raises(
        BootstrapError, match="rank 0 waited for rank 1 to join"
    ) as told:
        joining.get("never", 20)
    assert time.monotonic() - start < 10
    assert told.value.missing == (1,)
    with pytest.raises(BootstrapError, match="rank 1 to join"):
        joining.get("never", 20)
    third.store.close()
    with pytest.raises(BootstrapError, match="rank 1 to join"):  # the first
        joining.check()


@pytest.mark.parametrize("size", [2, 3, 5])
def test_two_processes_of_one_rank_are_told_and_all_that_wait(
    members, size, monkeypatch
):
    found, told = members(size)[:-1], []

    def wait(member):
        try:
            member.joining(range(size)).get("never", 20)
        except BootstrapError as error:
            told.append(str(error))

    waits = [threading.Thread(target=wait, args=(each,)) for each in found]
    for each in waits:
        each.start()
    client = Client(["127.0.0.1"], *members.address, 5.0)
    monkeypatch.setattr(membership, "_PROCESS", "another")
    with pytest.raises(BootstrapError, match="two processes have joined as rank 0"):
        Membership(0).begin(client)
    client.close()
    for each in waits:
        each.join()
    assert len(told) == len(found)
    assert all("two processes have joined as rank 0" in error for error in told)
    with pytest.raises(BootstrapError, match="rank 0"):
        found[0].joining(range(size)).check()


def test_a_process_does_not_join_its_job_again(members):
    first, *others = members(2)
    client = Client(["127.0.0.1"], *members.address, 5.0)
    with pytest.raises(BootstrapError, match="rank 0 has joined this job before"):
        Membership(0).begin(client)
    client.close()
    for each in (first, *others):
        each.joining(range(2)).check()


def test_the_keys_that_an_ended_process_has_set_stay(members):
    one, other = members(2)
    other.store.set("said", b"before")
    other.store.close()
    while not one.is_gone(1):
        time.sleep(0.01)
    assert one.joining([0, 1]).get("said", 20) == b"before"


def test_a_join_of_some_does_not_depend_on_the_others(members):
    one, other, third = members(3)
    everyone = one.joining([0, 1, 2])
    two = everyone.of([2, 0])
    other.store.close()
    while not one.is_gone(1):
        time.sleep(0.01)
    with pytest.raises(StoreError, match="key never was not set"):
        two.get("never", 0.05)
    third.store.set("said", b"now")
    assert two.get("said", 5) == b"now"
    third.store.close()
    with pytest.raises(BootstrapError, match="rank 0 waited for rank 2 to join"):
        two.get("never", 20)


def test_one_of_the_ranks_of_a_host_decides(members):
    """They find the same failure at once, and may hear of it at different times."""
    job, *_ = members(1)
    host = SimpleNamespace(
        members=(0, 1),
        entered=lambda _place: 5,
        call=lambda _place, _sequence=-1: None,
        abort_calls=lambda sequence=0: None,
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
    threading.Timer(0.2, other.decided, [found]).start()
    assert other.decision(failure.copy()) == found


def test_who_learns_from_another_that_a_world_fails_learns_of_whom(members):
    """A rank that never comes up is missing for all, also for those told by others."""
    found, told = members(3)[:2], []

    def join(rank, check):
        world = NewWorld(
            "w", rank, (4, 5, 6), (0, 1, 2), (0, 1, 2), time.monotonic() + 20, check
        )
        with pytest.raises(BootstrapError) as caught:
            assemble(world, found[rank].joining([0, 1, 2]), found[rank].store)
        told.append((caught.value.rank, caught.value.missing))

    def give_up():
        raise BootstrapError("rank 5 gives up", rank=5, missing=(6,))

    threads = [
        threading.Thread(target=join, args=(0, lambda: None)),
        threading.Thread(target=join, args=(1, give_up)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(told) == [(4, (6,)), (5, (6,))]
