"""Members that die at any moment while those of an epoch connect."""

from threading import Timer
from unittest.mock import Mock

import pytest

from collalgo.bootstrap.exchange import StoreExchange
from collalgo.bootstrap.store.job_keys import ROUND
from collalgo.elastic import epochs, rehearsal
from collalgo.elastic.epochs import Epochs
from collalgo.elastic.interface import Membership, MembershipChange
from tests.bootstrap.conftest import connect, server  # noqa: F401
from tests.support.ports import reserved_ports
from tests.support.pricers import PROFILE

#: Seconds of a wait that nothing ends, in place of a minute.
WAIT_SECONDS = 2.0


class Rendezvous:
    """The rendezvous of a member whose second epoch has no other members."""

    where = "job j"

    def __init__(self, store, rank, size):
        self.store, self._places = store, iter([(1, rank, size), (2, 0, 1)])
        self._change, self.watch = None, Mock()

    def change(self):
        return self._change

    def join(self, _timeout):
        self._change, (epoch, rank, size) = None, next(self._places)
        return Membership(epoch, tuple("abc"[:size]), rank, "it began", None)

    def fail(self):
        """Report that the first epoch has lost a member."""
        self._change = MembershipChange(1, ("b",))
        (react,) = self.watch.call_args.args
        react(self._change)


class Engine:
    """An engine between hosts whose wire may wait for the others."""

    kind, worlds, title, end = "wires", lambda _: 9, lambda _: "wires", Mock()

    def __init__(self, host, *, waits):
        self._host, self._waits = host, waits

    def host(self):
        return f"machine network {self._host}"

    def wire(self, store, rank, size, timeout):
        for other in range(size) if self._waits else ():
            store.get(f"wire/{other}", timeout)
        return Mock()


def meet(store, hosts, rank, port):
    """The part of a member that dies once it has met the others."""
    others = StoreExchange(store, rank, len(hosts), WAIT_SECONDS, "epoch/1/")
    others.contribute(f"wires {Engine(hosts[rank], waits=False).host()}")
    if rank == 0:
        others.publish(f"127.0.0.1:{port} {'00' * 32}")


@pytest.mark.parametrize(
    ("hosts", "rank", "waits"),
    [
        pytest.param((0, 1), 0, True, id="for an address"),
        pytest.param((0, 1), 1, True, id="for the store of the epoch"),
        pytest.param((0, 1), 0, False, id="for another host"),
        pytest.param((0, 0, 1), 0, False, id="for its host"),
    ],
)
def test_no_member_waits_for_one_that_died_after_they_met(
    connect,  # noqa: F811
    monkeypatch,
    hosts,
    rank,
    waits,
):
    """Only the rendezvous reports it, as the process was not known anywhere else."""
    engine = Engine(hosts[rank], waits=waits)
    monkeypatch.setattr(epochs, "JOIN_TIMEOUT", WAIT_SECONDS)
    monkeypatch.setattr(epochs, "without_mpi", lambda *_: engine)
    monkeypatch.setattr(Epochs, "fails_soon", lambda _: False)  # no wait has run out
    rendezvous = Rendezvous(connect(), rank, len(hosts))
    joining = Epochs(rendezvous)
    with reserved_ports(1) as (port,):
        for other in {*range(len(hosts))} - {rank}:
            meet(connect(), hosts, other, port)
        Timer(0.05, rendezvous.fail).start()
        context = joining.grow(1.0)
    assert joining.members == ("a",)
    context.abort("the test ends")


class NotingRendezvous(Rendezvous):
    """A rendezvous that notes whether an engine was loaded before a member asks."""

    def __init__(self, store, engine):
        super().__init__(store, 0, 1)
        self._engine, self.was_loaded = engine, None

    def join(self, timeout):
        self.was_loaded = self._engine.title.called
        return super().join(timeout)


@pytest.mark.parametrize("is_several", [False, True])
def test_a_newcomer_loads_its_engine_before_the_others_wait_for_it(
    connect,  # noqa: F811
    monkeypatch,
    is_several,
):
    """Loading takes a while; members on one host need no engine."""
    engine, store = Engine(0, waits=False), connect()
    engine.title, measure = Mock(), Mock(return_value=PROFILE)
    monkeypatch.setattr(rehearsal, "without_mpi", lambda *_: engine)
    monkeypatch.setattr(epochs, "without_mpi", lambda *_: engine)
    monkeypatch.setattr(rehearsal, "host_profile", measure)
    store.set(ROUND, b"")
    if is_several:
        store.set(epochs.SEVERAL_HOSTS, b"")
    rendezvous = NotingRendezvous(store, engine)
    Epochs(rendezvous).grow(1.0).abort("the test ends")
    assert rendezvous.was_loaded == measure.called == is_several
