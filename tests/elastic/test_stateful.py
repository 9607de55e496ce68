"""Any sequence of joins, deaths and departures, over each real store."""

import secrets
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, settings as of_hypothesis
from hypothesis.stateful import (
    RuleBasedStateMachine,
    precondition,
    rule,
    run_state_machine_as_test,
)

from collalgo.bootstrap.store.protocol import Fenced
from collalgo.elastic.store_rendezvous import StoreRendezvous
from tests.elastic.conftest import QUICK
from tests.elastic.test_rendezvous import all_join, check_agree, fail
from tests.support.store_clients import DEADLINE, until

pytestmark = pytest.mark.deadline

#: One node is enough; the last call gives those who come at once the time to ask.
ANY = replace(QUICK, least=1, most=4, last_call=0.3)


def job(new_store):
    """A state machine of a job of its own, in a store that was empty or is used."""
    # Long: a class whose rules use the store that a fixture makes.

    class Job(RuleBasedStateMachine):
        def __init__(self):
            super().__init__()
            self.nodes, self.members, self.epoch = [], [], 0
            self.former, self.store = [], new_store()
            for key in self.store.entries(""):
                self.store.delete(key)

        @precondition(lambda self: len(self.nodes) < 4)
        @rule()
        def start(self):
            name = secrets.token_hex(4)
            self.nodes.append(
                StoreRendezvous(lambda lost: new_store(), "job j", ANY, name)
            )

        @precondition(lambda self: self.nodes)
        @rule()
        def meet(self):
            old = [node for node in self.nodes if self.is_inside(node)]
            new = [node for node in self.nodes if not self.is_inside(node)]
            with ThreadPoolExecutor(4) as pool:
                pending = [pool.submit(node.join) for node in new]
                until(lambda: all(node.waiting() == len(new) for node in old))
                found = all_join(*old) if old else []
                found += [each.result(DEADLINE) for each in pending]
            check_agree(found)
            assert found[0].epoch > self.epoch
            kept = [name for name in self.members if name in found[0].members]
            assert list(found[0].members[: len(kept)]) == kept
            self.epoch, self.members = found[0].epoch, found[0].members
            for fence in self.former:
                self.refuse(fence)
            self.store.set("epoch/step", b"", fences=[found[0].fence])
            self.former.append(found[0].fence)

        def is_inside(self, node):
            return 0 < self.epoch == node._state.epoch

        def refuse(self, fence):
            try:
                self.store.set("epoch/step", b"", fences=[fence])
            except Fenced:
                return
            raise AssertionError(f"{fence} holds in epoch {self.epoch}")

        @precondition(lambda self: len(self.nodes) > 1)
        @rule()
        def kill(self):
            self.miss(self.nodes.pop(0), fail)

        @precondition(lambda self: len(self.nodes) > 1)
        @rule()
        def leave(self):
            self.miss(self.nodes.pop(), StoreRendezvous.shutdown)

        def miss(self, node, end):
            """End a node; the members of its epoch hear of it."""
            was_inside = self.is_inside(node)
            end(node)
            if was_inside:
                others = [other for other in self.nodes if self.is_inside(other)]
                until(lambda: all(n.change() and n.change().lost for n in others))

        def teardown(self):
            for node in self.nodes:
                node.shutdown()

    return Job


def test_any_sequence_of_events_keeps_one_membership(new_store):
    run_state_machine_as_test(
        job(new_store),
        settings=of_hypothesis(
            max_examples=6,
            stateful_step_count=8,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
