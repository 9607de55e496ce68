"""Members whose store is not reached, or is lost and found again."""

from dataclasses import replace
from socket import SHUT_RDWR
from unittest.mock import Mock

import pytest

from collalgo import elastic
from collalgo.bootstrap.store.protocol import StoreError
from collalgo.elastic.epochs import Epochs
from collalgo.elastic.store_rendezvous import StoreRendezvous
from collalgo.errors import RendezvousError
from tests.elastic.conftest import QUICK
from tests.elastic.test_rendezvous import all_join, check_agree
from tests.support.store_clients import until

pytestmark = pytest.mark.deadline


def test_a_store_that_is_not_reached_is_named(connect):
    def unreachable(lost):
        return connect(b"another", timeout=0.05)

    settings = replace(QUICK, store_timeout=0.2)
    with pytest.raises(
        RendezvousError, match=r"at host x has not answered within 0\.2 s: no"
    ):
        StoreRendezvous(unreachable, "host x", settings, "a")


def test_a_node_whose_connection_breaks_stays_a_member(node):
    nodes = [node(name) for name in "ab"]
    first = all_join(*nodes)
    link = nodes[0]._link
    old = link.store
    link._lost("cut by the test")
    until(lambda: link.store is not old and not link.is_lost)
    until(lambda: nodes[0].remaining() > 0)
    assert nodes[0]._state.epoch == first[0].epoch
    check_agree(all_join(*nodes))


ALONE = replace(QUICK, least=1, most=1, store_timeout=0.5)


@pytest.mark.parametrize(
    ("broken", "attempts"), [("lease", {1, 3}), ("watch", {1, 3}), ("entries", {2})]
)
def test_a_store_that_fails_as_it_is_entered_is_closed_and_entered_again(
    connect, monkeypatch, broken, attempts
):
    made = []

    def enter(lost):
        made.append(connect(lost=lost))
        if len(made) in attempts:
            refuse = Mock(side_effect=StoreError("it hangs"))
            monkeypatch.setattr(made[-1], broken, refuse)
        return made[-1]

    alone = StoreRendezvous(enter, "job j", ALONE, "a")
    assert alone.join().epoch == 1
    made[-1]._connection.shut(SHUT_RDWR)
    until(lambda: len(made) == max(attempts) + 1)
    assert alone.join().epoch == 2
    alone.shutdown()
    for each in made:
        assert not each._connection._thread.is_alive()


def test_a_member_reports_that_it_has_lost_the_store(connect, caplog):
    def enter(lost):
        if stores:
            raise StoreError("it is gone")
        stores.append(connect(lost=lost))
        return stores[-1]

    stores, settings = [], replace(ALONE, store_timeout=0.0)
    alone = StoreRendezvous(enter, "job j", settings, "a")
    alone.join()
    stores[0]._connection.shut(SHUT_RDWR)
    until(lambda: not alone._thread.is_alive())
    assert "node a continues epoch 1, but can join no other: the store" in caplog.text
    with pytest.raises(RendezvousError, match="it is gone"):
        alone.join()
    alone.shutdown()


@pytest.mark.parametrize("has_failed", [True, False])
def test_a_store_that_a_lost_member_held_is_a_failure_of_that(
    meet, monkeypatch, has_failed
):
    """The others may not have read what it told them of the hosts."""
    first, sizes = elastic.connect(meet("a")), []
    monkeypatch.setattr(Epochs, "fails_soon", lambda _: has_failed)

    @elastic.run
    def train(comm, state):
        sizes.append(comm.size)
        if len(sizes) == 1:
            raise StoreError("its holder has died")
        return state.step

    if has_failed:
        assert train(elastic.State(step=3), comm=first) == 3
        assert sizes == [1, 1]
    else:
        with pytest.raises(StoreError, match="its holder has died"):
            train(elastic.State(step=3), comm=first)
