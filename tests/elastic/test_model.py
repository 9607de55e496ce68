"""All orders of events of a job's members are explored; planted faults are found."""

from dataclasses import replace

import pytest

from collalgo.elastic import rounds, tally as tally_module
from collalgo.elastic.participant import Participant, Phase
from collalgo.elastic.settings import Settings
from collalgo.elastic.tally import Readiness, Tally
from tests.support.rendezvous_explorer import explore
from tests.support.rendezvous_model import AS_IT_IS, SMALL, Model, Rules
from tests.support.rendezvous_properties import Violation

#: Two of three are enough, and a third may wait for a place.
TWO_PLACES = replace(SMALL, most=2)


def explored(
    settings=SMALL,
    *,
    begins=False,
    rules=AS_IT_IS,
    most=10**9,
    settle_every=50,
    **numbers,
):
    model = Model(settings, rules=rules, **numbers)
    start = model.start() if begins else model.formed()
    return explore(model, start, most, settle_every)


def test_two_processes_form_an_epoch_in_every_order():
    assert explored(begins=True, size=2, faults=0, asks=0).is_complete


def test_three_members_meet_again_in_every_order():
    found = explored(size=3, faults=0, asks=3)
    assert found.is_complete
    assert found.states > 2000


def test_three_members_survive_faults_in_the_orders_that_come_first():
    found = explored(size=3, faults=1, asks=1, most=12_000)
    assert found.states >= 12_000


@pytest.mark.slow
@pytest.mark.parametrize("numbers", [
    {"size": 2, "faults": 1, "asks": 1},
    {"size": 3, "faults": 1, "asks": 0},
    {"size": 3, "faults": 0, "asks": 3, "settings": TWO_PLACES},
])  # fmt: skip
def test_members_survive_each_fault_in_every_order(numbers):
    found = explored(**numbers)
    print(f"{numbers}: {found}")
    assert found.is_complete


#: States of the larger explorations, which have more than can be visited in minutes.
FIRST_STATES = 500_000


@pytest.mark.slow
@pytest.mark.parametrize("numbers", [
    {"size": 3, "faults": 1, "asks": 1},
    {"size": 3, "faults": 2, "asks": 0},
    {"size": 3, "faults": 0, "asks": 0, "begins": True},
])  # fmt: skip
def test_members_survive_several_faults_in_the_orders_that_come_first(numbers):
    found = explored(**numbers, most=FIRST_STATES)
    print(f"{numbers}: {found}")
    assert found.is_complete or found.states >= FIRST_STATES


def reuse_an_epoch(patch):
    next_round = Tally.next_round

    def mutant(self, present, settings):
        return replace(next_round(self, present, settings), epoch=present.epoch or 1)

    patch.setattr(Tally, "next_round", mutant)


def compare_clocks(patch):
    """Members whose clock is behind, as that of n2 is, count as silent."""
    right = rounds.Participant.tally

    def mutant(self):
        nodes = {k: v for k, v in self.known.items() if not k.startswith("node/2")}
        is_judged = self.round.epoch and not self.own_key.startswith("node/2")
        return right(replace(self, known=nodes) if is_judged else self)

    patch.setattr(Participant, "tally", mutant)


def believe_old_news(patch):
    def mutant(state, seen):
        known = rounds.Known(seen.version, seen.value)
        return replace(state, known={**state.known, seen.key: known})

    patch.setattr(rounds, "_seen", mutant)


def wait_for_no_member(patch):
    right = Tally.readiness

    def mutant(self, settings):
        return right(replace(self, at_work=()), settings)

    patch.setattr(Tally, "readiness", mutant)


def count_members_at_work_as_asking(patch):
    right = tally_module.tally

    def mutant(present, nodes, excluded):
        found = right(present, nodes, excluded)
        if not found.survivors:
            return found
        everyone = tuple(m for m in present.members if m not in found.lost)
        return replace(found, survivors=everyone, at_work=())

    patch.setattr("collalgo.elastic.participant.tally", mutant)


def lead_without_a_survey(patch):
    right = rounds._leadership

    def mutant(state):
        return right(replace(state, surveyed=True))

    patch.setattr(rounds, "_leadership", mutant)


def take_more_than_there_are_places(patch):
    right = Tally.next_round

    def mutant(self, present, settings):
        return right(self, present, replace(settings, most=3))

    patch.setattr(Tally, "next_round", mutant)
    patch.setattr(Settings, "__post_init__", lambda self: None)


def be_content_with_one(patch):
    right = Tally.readiness

    def mutant(self, settings):
        return right(self, replace(settings, least=1))

    patch.setattr(Tally, "readiness", mutant)


def go_on_when_expelled(patch):
    right = rounds._settled

    def mutant(state):
        found = right(state)
        is_expelled = found.phase is Phase.OUT and state.phase is Phase.MEMBER
        return replace(found, phase=Phase.MEMBER) if is_expelled else found

    patch.setattr(rounds, "_settled", mutant)


def keep_the_lead_when_out(patch):
    right = rounds._leadership
    patch.setattr(
        rounds, "_leadership", lambda state: right(state) if state.may_lead else []
    )


def never_repeat_what_was_lost(patch):
    right = rounds._observed

    def mutant(state, event):
        is_retry = event is rounds.Command.RETRY
        return state if is_retry else right(state, event)

    patch.setattr(rounds, "_observed", mutant)


def do_not_replace_a_leader(patch):
    right = rounds._leadership

    def mutant(state):
        is_first = state.value(rounds.LEADER).version == 0
        return right(state) if state.leader or is_first else []

    patch.setattr(rounds, "_leadership", mutant)


def put_newcomers_first(patch):
    right = Tally.next_round

    def mutant(self, present, settings):
        found = right(self, present, settings)
        return replace(found, members=found.members[::-1])

    patch.setattr(Tally, "next_round", mutant)


def never_ask_again(patch):
    right = rounds._settled

    def mutant(state):
        found = right(state)
        return replace(found, after=state.after)

    patch.setattr(rounds, "_settled", mutant)


def complete_a_closed_job(patch):
    right = rounds.Write

    def mutant(key, value, version, fences=(), leased=False):
        return right(key, value, version, fences[:1], leased)

    patch.setattr(rounds, "Write", mutant)


def never_end_the_last_call(patch):
    right = Tally.readiness

    def mutant(self, settings):
        found = right(self, settings)
        return Readiness.NOT_YET if found is Readiness.LAST_CALL else found

    patch.setattr(Tally, "readiness", mutant)


FORMED = {"size": 3, "faults": 0, "asks": 3}
FAULT = {"size": 2, "faults": 1, "asks": 2}
ALONE = {**FAULT, "settings": replace(SMALL, least=1)}
HASTY = {**FORMED, "settings": replace(SMALL, patience=1.0)}

#: Each fault, what is explored to find it, and what is found.
MUTANTS = [
    (reuse_an_epoch, FORMED, "epoch 1 follows 1"),
    (compare_clocks, FORMED, "was healthy and is left out"),
    (believe_old_news, FAULT, "after"),
    (wait_for_no_member, FORMED, "was healthy and is left out"),
    (count_members_at_work_as_asking, FORMED, "has not asked"),
    (lead_without_a_survey, ALONE, "does not settle"),
    (take_more_than_there_are_places, {**FORMED, "settings": TWO_PLACES}, "its size"),
    (be_content_with_one, FAULT, "its size"),
    (go_on_when_expelled, ALONE, "it knows a later epoch"),
    (keep_the_lead_when_out, HASTY, "does not settle"),
    (never_repeat_what_was_lost, FAULT, "does not settle"),
    (do_not_replace_a_leader, FAULT, "does not settle"),
    (put_newcomers_first, FORMED, "ranks have moved"),
    (never_ask_again, FAULT, "does not settle"),
    (complete_a_closed_job, FAULT, "a round of a closed job"),
    (never_end_the_last_call, ALONE, "does not settle"),
]

#: Faults of what surrounds the machines.
RULES = [
    (Rules(checks_versions=False), FORMED, "after"),
    (Rules(checks_fences=False), ALONE, "a round of a closed job"),
    (Rules(fences_steps=False), ALONE, "a step of 1 in 2"),
    (Rules(new_token=False), FAULT, "an epoch before its start"),
]


def bounds(found):
    """How far a fault is sought: liveness is checked where its lack is expected."""
    return {"most": 20_000, "settle_every": 50 * (found == "does not settle")}


@pytest.mark.parametrize(
    ("plant", "numbers", "found"), MUTANTS, ids=[each[0].__name__ for each in MUTANTS]
)
def test_a_fault_of_the_machine_is_found(monkeypatch, plant, numbers, found):
    plant(monkeypatch)
    with pytest.raises(Violation, match=found):
        explored(**numbers, **bounds(found))


@pytest.mark.parametrize(("rules", "numbers", "found"), RULES)
def test_a_fault_around_the_machine_is_found(rules, numbers, found):
    with pytest.raises(Violation, match=found):
        explored(rules=rules, **numbers, **bounds(found))
