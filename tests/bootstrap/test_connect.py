"""A process that does not connect leaves nothing of the job, and may try again."""

import threading

import pytest

from collalgo.bootstrap import connect
from collalgo.bootstrap.join_arguments import JoinArguments
from collalgo.bootstrap.membership import Membership
from collalgo.bootstrap.named_address import connect_at
from collalgo.bootstrap.store.client import Client
from collalgo.errors import BootstrapError
from collalgo.launch.environment import free_port
from tests.bootstrap.conftest import SECRET
from tests.support.store_clients import until

ARGUMENTS = JoinArguments("there", 0, 2, secret="of the tests", timeout=0.1)


class Wireless:
    """An engine between hosts whose ranks fail when or after they are connected."""

    kind, rank = "ucx", 0

    def __init__(self, fails):
        self.fails, self.ended = fails, 0

    def host(self):
        return f"machine network host-{self.rank}"

    def wire(self, *_):
        if self.fails == "wire":
            raise BootstrapError("no wire")

    def end(self, *, peer_died, has_failed):
        self.ended += 1


class Texts:
    """An exchange with another host; its end fails, if need be."""

    rank, size = 0, 2

    def __init__(self, fails):
        self.fails = fails

    def allgather(self, text):
        return [text, text.replace("host-0", "host-1")]

    def broadcast(self, text):
        if self.fails == "broadcast":
            raise BootstrapError("no broadcast")
        return text


@pytest.fixture(params=["wire", "rendezvous"])
def engine(request, monkeypatch):
    found = Wireless(request.param)
    monkeypatch.setattr(connect, "without_mpi", lambda *_: found)

    def begin(*_):
        raise BootstrapError("no rendezvous")

    monkeypatch.setattr(connect, "begin", begin)
    return found


def ours():
    """The threads of stores, of their clients and of memberships."""
    names = {f"collalgo {name}" for name in ("store", "client", "questions")}
    return {each for each in threading.enumerate() if each.name in names}


def test_a_process_that_does_not_connect_over_a_store_may_try_again(engine, server):
    address = connect.StoreAddress(["127.0.0.1"], server.port, SECRET)
    other = Client(*address, 5.0)
    other.set("said/1", b"2 machine network host-1")
    before = ours()
    for _ in range(2):
        with pytest.raises(BootstrapError, match=f"no {engine.fails}"):
            connect.connect_to_store("job", Membership(0), ARGUMENTS, address)
        until(lambda: ours() <= before)
    assert engine.ended == 2 * (engine.fails == "rendezvous")
    other.close()


@pytest.mark.parametrize("step", ["broadcast", ""])
def test_a_process_that_does_not_connect_over_an_exchange_holds_no_store(engine, step):
    before = ours()
    with pytest.raises(BootstrapError, match=f"no {step or engine.fails}"):
        connect.connect(Texts(step), engine, 1.0)
    until(lambda: ours() <= before)


@pytest.mark.parametrize("engine", ["wire"], indirect=True)
def test_the_first_rank_that_does_not_connect_holds_no_port(engine):
    where = f"127.0.0.1:{free_port()}"
    for _ in range(2):
        with pytest.raises(BootstrapError, match="rank 1, which has not joined"):
            connect_at(where, ARGUMENTS)
