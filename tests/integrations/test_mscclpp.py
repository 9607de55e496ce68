"""Execution plans of MSCCL++ are written and read as the algorithms that they are."""

import json
from random import Random

import pytest
from click.testing import CliRunner
from hypothesis import given, settings, strategies as st

from collalgo import ALGORITHMS, ScheduleError, load_algorithms, verify
from collalgo.algorithms.catalogue import find
from collalgo.cli.main import main
from collalgo.errors import AlgorithmNotApplicable
from collalgo.integrations.msccl.cells import NAMES
from collalgo.integrations.mscclpp import algorithm_of, json_of
from collalgo.integrations.mscclpp.document import beyond, text_of
from collalgo.integrations.mscclpp.parsing import parse
from collalgo.integrations.mscclpp.row import named_after, plan_of
from tests.support.leisure import at_leisure
from tests.support.plan_interpreter import run


def rows_of(size):
    return [
        row
        for row in ALGORITHMS
        if row.collective in set(NAMES.values()) and row.obstacle(size) is None
    ]


def proof_of(row, size):
    return verify(row.schedule, size=size, collective=row.collective)


@pytest.mark.parametrize("size", at_leisure([1, 2, 3, 4, 5, 7, 8, 12], {3, 4}))
def test_what_is_written_is_right_and_read_as_the_same_algorithm(size):
    for number, row in enumerate(rows_of(size)):
        plan = plan_of(row, size, ("memory", "port")[number % 2])
        text = text_of(plan)
        assert run(text, Random(size)) == [True] * size, row.name
        assert parse(text) == plan, row.name
        before, after = proof_of(row, size), proof_of(named_after(plan, "a.json"), size)
        assert (before.sent, before.reduced) == (after.sent, after.reduced), row.name
        assert before.links == after.links
        assert before.consistent == after.consistent
        assert after.steps <= 3 * before.steps / 2


def altered(text, dice):
    """A plan without some operations, or with other chunks, channels or semaphores."""
    plan = json.loads(text)
    for _ in range(dice.choice((1, 1, 2))):
        gpu = dice.choice(plan["gpus"])
        ops = dice.choice([block["ops"] for block in gpu["threadblocks"]])
        if not ops:
            continue
        i = dice.randrange(len(ops))
        spans = [*ops[i].get("src_buff", ()), *ops[i].get("dst_buff", ())]
        if dice.random() < 0.3:
            del ops[i]
        elif spans:
            dice.choice(spans)["index"] += dice.choice((-1, 1))
        elif "semaphore_ids" in ops[i]:
            ops[i]["semaphore_ids"] = [dice.randrange(len(gpu["semaphores"]))]
        else:
            j = dice.randrange(len(ops))
            ops[i], ops[j] = ops[j], ops[i]
    return json.dumps(plan)


ALTERED = [
    json_of(find(collective, name, size), size)
    for collective, name, size in (
        ("allreduce", "recursive_doubling", 4),
        ("allreduce", "one_shot", 3),
        ("allgather", "bruck", 5),
        ("reduce_scatter", "pat", 4),
        ("alltoall", "bruck", 4),
    )
]


@settings(max_examples=60)
@given(dice=st.randoms(use_true_random=False))
def test_what_is_proved_is_right_in_whatever_order_it_happens(dice):
    text = altered(dice.choice(ALTERED), dice)
    try:
        row = named_after(parse(text), "altered.json")
        proof_of(row, row.function.cells.size)
    except ScheduleError:
        return
    for _ in range(3):
        assert run(text, dice) == [True] * row.function.cells.size


def test_limits_of_mscclpp_are_told():
    assert not beyond(plan_of(find("allreduce", "two_shot", 8), 8))
    (excess,) = beyond(plan_of(find("allreduce", "ring", 16), 16))
    assert "at most 64 operations in a block, and this has" in excess
    with pytest.raises(AlgorithmNotApplicable, match="only for allreduce, allgather"):
        json_of(find("broadcast", "binomial", 4), 4)


def test_a_plan_is_written_loaded_and_proved_by_commands(tmp_path):
    invoke, path = CliRunner().invoke, tmp_path / "ring.json"
    command = ["algorithms", "export", "ring", "-c", "allgather", "-n", "3"]
    assert invoke(main, [*command, "-o", str(path)]).exit_code == 0
    shown = invoke(main, [*command, "--format", "mscclpp"])
    assert shown.output == path.read_text()
    found = invoke(main, ["verify", str(path)])
    assert "allgather_ring_3: allgather of 3 ranks: 2 steps, 2/3 n" in found.output
    assert algorithm_of(path).name == "allgather_ring_3"
    load_algorithms(str(path))
    assert find("allgather", "allgather_ring_3", 3).obstacle(4)
    document = json.loads(path.read_text())
    document["gpus"][1]["threadblocks"][0]["ops"] = []
    path.write_text(json.dumps(document))
    found = invoke(main, ["verify", str(path)])
    assert found.exit_code
    assert "both must be equal" in " ".join(found.output.split())
