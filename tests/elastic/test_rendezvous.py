"""Members of a job meet for one epoch after the other, over each real store."""

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event

import pytest

from collalgo.bootstrap.store.ended_members import remove_member
from collalgo.bootstrap.store.job_end import end_document
from collalgo.bootstrap.store.job_keys import CLOSED, ENDING, NODES, ROUND
from collalgo.bootstrap.store.protocol import Fenced, LeaseExpired, StoreError
from collalgo.elastic import store_rendezvous
from collalgo.elastic.documents import Round, encoded
from collalgo.elastic.rounds import counts_time
from collalgo.elastic.schema import Member
from collalgo.elastic.settings import Settings
from collalgo.errors import RendezvousClosed, RendezvousError
from tests.elastic.conftest import FULL, QUICK
from tests.support.store_clients import DEADLINE, until

pytestmark = pytest.mark.deadline


def all_join(*nodes):
    """Let nodes join at once: their memberships in the same order."""
    with ThreadPoolExecutor(len(nodes)) as pool:
        return [each.result(DEADLINE) for each in [pool.submit(n.join) for n in nodes]]


def fail(node):
    """End a node as the death of its process does."""
    node._events.put(None)
    node._thread.join(DEADLINE)
    node._link.close()


def check_agree(memberships):
    """All have the same members and epoch, and a rank each."""
    assert len({(each.epoch, each.members, each.fence) for each in memberships}) == 1
    ranks = sorted(each.rank for each in memberships)
    assert ranks == list(range(memberships[0].size))


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 12])
def test_all_who_come_become_members_in_the_order_of_their_numbers(node, size):
    settings = replace(QUICK, least=size, most=size)
    nodes = [node(f"rank {number}", settings) for number in reversed(range(size))]
    found = all_join(*nodes)
    check_agree(found)
    assert found[0].epoch == 1
    assert list(found[0].members) == [f"rank {number}" for number in range(size)]
    assert all(each.remaining() > 0 for each in nodes)
    assert all(each.change() is None for each in nodes)


@pytest.mark.parametrize("failure", [LeaseExpired, StoreError])
def test_a_write_that_failed_is_repeated_at_once(node, monkeypatch, failure):
    monkeypatch.setattr(store_rendezvous, "RETRY_SECONDS", math.inf)
    alone = node("a", replace(QUICK, least=1, most=1))
    write, failures = alone._link.write, [failure("it was paused")]

    def write_or_fail(action):
        if action.key.startswith(NODES) and failures:
            raise failures.pop()
        return write(action)

    monkeypatch.setattr(alone._link, "write", write_or_fail)
    assert alone.join().epoch == 1
    assert not failures


def test_a_leader_counts_the_time_only_while_somebody_waits(node):
    nodes = [node(name, replace(QUICK, least=1, most=2)) for name in "ab"]
    all_join(*nodes)
    leader = next(each for each in nodes if each._state.leads)
    until(lambda: not counts_time(leader._state))
    with ThreadPoolExecutor(1) as pool:
        pending = pool.submit(leader.join)
        until(lambda: counts_time(leader._state))
        next(each for each in nodes if each is not leader).join()
        pending.result(DEADLINE)


def test_a_member_whose_end_is_reported_is_lost_at_once(node):
    """Not when its lease ends; also if it leads."""
    nodes = [node(name, replace(QUICK, silence=60.0)) for name in "abc"]
    all_join(*nodes)
    gone = next(each for each in nodes if each._state.leads)
    others = [each for each in nodes if each is not gone]
    gone._events.put(None)  # it hangs, but its connection and its lease remain
    gone._thread.join(DEADLINE)
    name = gone._state.member.name
    remove_member(others[0].store, name)
    until(lambda: all(each.change() for each in others))
    assert others[0].change().lost == (name,)
    check_agree(all_join(*others))


def lose_first(nodes):
    """The first member dies, of which the others are told."""
    lost, changed = nodes.pop(0), Event()
    nodes[0].watch(lambda change: change.is_failure and changed.set())
    fail(lost)
    assert changed.wait(DEADLINE)
    until(lambda: all(each.change() is not None for each in nodes))
    assert nodes[1].change().lost == ("a",)


def test_survivors_go_on_without_a_member_that_dies_and_take_it_back(node):
    nodes = [node(name, FULL) for name in "abc"]
    first = all_join(*nodes)
    lose_first(nodes)
    second = all_join(*nodes)
    check_agree(second)
    assert second[0].epoch == 2
    order = [member for member in first[0].members if member != "a"]
    assert list(second[0].members) == order
    assert "lost: a" in second[0].why
    again = node("a")
    with ThreadPoolExecutor(1) as pool:
        joining = pool.submit(again.join)
        until(lambda: all(each.waiting() == 1 for each in nodes))
        assert not nodes[0].change().is_failure
        third = all_join(*nodes)
        check_agree([*third, joining.result(DEADLINE)])
    assert list(third[0].members) == [*order, "a"]


def test_a_member_of_an_earlier_epoch_can_change_nothing(node):
    nodes = [node(name) for name in "ab"]
    before = all_join(*nodes)
    store = nodes[0].store
    store.set("epoch/step", b"1", fences=[before[0].fence])
    after = all_join(*nodes)
    assert after[0].epoch == 2
    for zombie in before:
        with pytest.raises(Fenced, match=f"key {ROUND} has version"):
            store.set("epoch/step", b"2", fences=[zombie.fence])
    store.set("epoch/step", b"3", fences=[after[1].fence])
    assert store.read("epoch/step").value == b"3"


def test_who_does_not_ask_in_time_is_expelled_and_may_come_back(node):
    settings = replace(QUICK, patience=0.3)
    nodes = [node(name, settings) for name in "abc"]
    all_join(*nodes)
    late = nodes.pop()
    found = all_join(*nodes)
    check_agree(found)
    assert found[0].size == 2
    until(lambda: late.change() is not None and late.change().is_expelled)
    with ThreadPoolExecutor(1) as pool:
        joining = pool.submit(late.join)
        until(lambda: nodes[0].waiting() == 1)
        check_agree([*all_join(*nodes), joining.result(DEADLINE)])


def test_who_is_admitted_and_expelled_before_it_notices_asks_again(meet, monkeypatch):
    """As a process that was paused, which reads of both rounds at once."""
    late, is_paused, may_go_on = meet("a"), Event(), Event()
    late.join()
    advance, present = late._advance, late.store.read(ROUND).version

    def pause(events):
        is_paused.set()
        may_go_on.wait(DEADLINE)
        advance(events)

    monkeypatch.setattr(late, "_advance", pause)
    assert is_paused.wait(DEADLINE)
    with ThreadPoolExecutor(1) as pool:
        joining = pool.submit(late.join, 5.0)
        until(lambda: late._events.qsize() == 1)
        for epoch, token in ((2, late._state.member.token), (3, "another")):
            members, terms = (Member("a", token),), late._state.settings.all_terms
            value = encoded(Round(epoch, members, terms, "planted"))
            present = late.store.compare_set(ROUND, value, present).entry.version
        until(lambda: late._events.qsize() == 3)
        may_go_on.set()
        assert joining.result(DEADLINE).epoch == 4


def test_who_leaves_is_missed_and_who_waits_takes_the_place(node):
    nodes = [node(name, FULL) for name in "abc"]
    all_join(*nodes)
    late = node("d")
    with ThreadPoolExecutor(1) as pool:
        joining = pool.submit(late.join)
        leading = next(each for each in nodes if each._state.leads)
        until(lambda: len(leading._state.tally().newcomers) == 1)
        assert [each.waiting() for each in nodes] == [0, 0, 0]  # there is no place
        nodes[0].leave()
        until(lambda: nodes[1].change() and nodes[1].change().lost == ("a",))
        found = [*all_join(*nodes[1:]), joining.result(DEADLINE)]
    check_agree(found)
    assert set(found[0].members) == set("bcd")


def test_a_closed_job_takes_nobody(node):
    nodes = [node(name) for name in "ab"]
    all_join(*nodes)
    nodes[0].close("trained")
    nodes[1].close("too late")
    until(lambda: nodes[1].change() is not None)
    assert nodes[1].change().closed == "trained"
    for each in (*nodes, node("c")):
        with pytest.raises(RendezvousClosed, match=r"job j, which is closed \(trained"):
            each.join()


def test_too_few_members_end_after_the_end_of_one_with_exit_code_0(node):
    nodes = [node(name) for name in "ab"]
    all_join(*nodes)
    nodes[0].store.set(ENDING, end_document("a rank has ended"))
    fail(nodes.pop())
    with pytest.raises(RendezvousClosed, match=r"others ended, 1 of 2 ranks remain"):
        nodes[0].join()


def test_the_end_of_an_earlier_run_is_forgotten(node):
    former = [node(name) for name in "ab"]
    all_join(*former)
    former[0].store.set(ENDING, end_document("a rank has ended"))
    for each in former:
        fail(each)
    nodes = [node(name) for name in "cd"]
    assert all_join(*nodes)[0].members == ("c", "d")
    assert nodes[0].store.read(ENDING) is None


def test_an_excluded_node_is_refused_until_it_is_readmitted(node):
    nodes = [node(name) for name in "abc"]
    nodes[0].exclude("c", "failed 3 times")
    with pytest.raises(RendezvousError, match=r"node c .* excluded \(failed 3 times\)"):
        nodes[2].join()
    assert all_join(*nodes[:2])[0].size == 2
    nodes[0].readmit("c")
    with ThreadPoolExecutor(1) as pool:
        until(lambda: not nodes[2]._state.excluded)
        joining = pool.submit(nodes[2].join)
        until(lambda: nodes[0].waiting() == 1)
        check_agree([*all_join(*nodes[:2]), joining.result(DEADLINE)])


def test_nodes_with_other_terms_are_refused_with_both(node):
    settings = [replace(QUICK, terms={"code": text}) for text in ("v1", "v1", "v2")]
    nodes = [node(f"n{i}", each) for i, each in enumerate(settings)]
    all_join(*nodes[:2])
    with pytest.raises(RendezvousError, match=r"n2 .* has code 'v2' but the job 'v1'"):
        nodes[2].join()
    other = node("n3", Settings(1, 9, silence=2.0, terms={"code": "v1"}))
    with pytest.raises(RendezvousError, match="'1 to 9' but the job '2 to 3'"):
        other.join()
    assert all_join(*nodes[:2])[0].epoch == 2


def test_too_few_nodes_are_an_error_that_says_how_many(node):
    alone = node("a")
    words = r"in 0\.3 s: 1 processes want to join but 2 are"
    with pytest.raises(RendezvousError, match=words):
        alone.join(0.3)
    other = node("b")
    with pytest.raises(RendezvousError, match=r"b did not join job j in 0\.1 s"):
        other.join(0.1)  # the first one asks no more
    assert all_join(alone, other)[0].epoch == 1


@pytest.mark.parametrize("value", [b"", b"\xff", b"[]", b"{}", b"[" * 100_000,
    b'{"format":2}', b'{"format":1,"epoch":0,"members":[],"terms":{},"why":""}',
    b'{"format":1,"epoch":1e9,"members":[],"terms":{},"why":""}',
    b'{"format":1,"epoch":1,"members":[["a","t"],["b","t"]],"terms":{},"why":""}',
    b'{"format":1,"epoch":1,"members":[["a",5]],"terms":{},"why":""}'])  # fmt: skip
def test_a_round_that_is_none_is_an_error_of_all(node, value):
    one = node("a")
    one.store.set(ROUND, value)
    with pytest.raises(RendezvousError, match=r"a round in the store .* same version"):
        one.join()


def test_processes_that_write_nonsense_are_ignored(node, caplog):
    nodes = [node(name) for name in "ab"]
    nodes[0].store.set(NODES + "x", b"nonsense")
    nodes[0].store.set("now/what", b"nonsense")
    check_agree(all_join(*nodes))
    assert "node/x at job j was ignored" in caplog.text
    nodes[0].store.set(CLOSED, b'{"format":1,"reason":""}')
    with pytest.raises(RendezvousClosed, match="it has ended"):
        nodes[1].join()


@pytest.mark.parametrize(("numbers", "message"), [
    ((3, 2), "cannot have 3 to 2 members"), ((0, 2), "need 1 <= least"),
    ((1, 10_000), "most <= 2000")])  # fmt: skip
def test_numbers_that_exclude_each_other_are_refused(numbers, message):
    with pytest.raises(ValueError, match=message):
        Settings(*numbers)
