"""Execution plans of MSCCL++ with every kind of access, and what is wrong in others."""

import json

import pytest

from collalgo import ScheduleError, verify
from collalgo.integrations.mscclpp.parsing import parse
from collalgo.integrations.mscclpp.row import named_after
from tests.support.mscclpp_plans import PLANS


@pytest.mark.parametrize("name", PLANS)
def test_every_kind_of_access_is_read(name):
    row = named_after(parse(PLANS[name]), "mine.json")
    proof = verify(row.schedule, size=2, collective=row.collective)
    assert (proof.links, proof.consistent) == (2, True)
    assert proof.sent in ((1, 1) if name != "reading_and_sending" else (1,))


def without(name, kind, place=0, gpu=0):
    """A plan without an operation of a block."""
    document = json.loads(PLANS[name])
    for block in document["gpus"][gpu]["threadblocks"]:
        places = [i for i, op in enumerate(block["ops"]) if op["name"] == kind]
        if len(places) > place:
            del block["ops"][places[place]]
            break
    return json.dumps(document)


def changed(name, old, new, count=1):
    assert old in PLANS[name], old
    return PLANS[name].replace(old, new, count)


FAULTS = {
    "needs a nop before it": without("reading_and_sending", "nop"),
    "signals GPU 1 1 times": without("reading_and_sending", "rlxsignal"),
    "and it waits 1 times; both must be equal": without("getting", "wait", gpu=1),
    "no dependency orders them": changed(
        "getting", '"name": "wait"', '"name": "nop"', 99
    ).replace('"name": "signal"', '"name": "nop"'),
    "waits for packet 1 of GPU 0, which nothing writes": without(
        "packets", "respkt", gpu=1
    ),
    "writes packet 0 of GPU 1 again": changed(
        "packets", '"buffer_id": 2, "index": 1', '"buffer_id": 2, "index": 0'
    ),
    "barrier 0 of GPU 0 is for 2 blocks, but used by 1": without(
        "through_a_port", "barrier"
    ),
    "through a port to GPU 1, and no signal follows": changed(
        "through_a_port", '"pwsf"', '"put"', 99
    ).replace('"wait"', '"nop"'),
    "it is not JSON": "no plan",
    "nested too deeply": "[" * 100_000,
    "a number of too many digits": '{"gpus": ' + "1" * 5000 + "}",
    "the plan must be an object, not a list": "[]",
    "gpus must be a list, not 3": '{"gpus": 3}',
    "gpus has 0 items; it needs 1 to 1024": "{}",
    "collective 'scan' cannot be read": changed("packets", "allreduce", "scan"),
    "id must be an integer from 0 to 0, not 7": changed(
        "packets", '"id": 0', '"id": 7'
    ),
    "input_chunks is 2; this allreduce needs 3": changed(
        "packets", '"output_chunks": 2', '"output_chunks": 3'
    ),
    "the GPUs have 4194306 chunks together": changed(
        "packets", '"input_chunks": 2', '"input_chunks": 2097153'
    ),
    "unknown operation 'dance'": changed("packets", '"ppkt"', '"dance"'),
    "pipeline is a loop": changed("packets", '"ppkt"', '"pipeline"'),
    "a switch reduces or multicasts data": changed("packets", '"memory"', '"switch"'),
    "groups of thread blocks cannot be read": changed(
        "packets", '"name": "ppkt"', '"tbg_info": {}, "name": "ppkt"'
    ),
    "chunks 4 to 4 of buffer 'i' of GPU 0, which has 2": changed(
        "packets", '"index": 1, "size": 1', '"index": 4, "size": 1'
    ),
    "size must be an integer from 1 to 65536, not true": changed(
        "packets", '"size": 1', '"size": true'
    ).replace("True", "true"),
    "1 chunks of a source and 2 of a target": changed(
        "getting", '"index": 0, "size": 2', '"index": 0, "size": 1'
    ),
    "source and target overlap": changed(
        "getting",
        '"dst_buff": [{"type": "s", "index": 0',
        '"dst_buff": [{"type": "i", "index": 1',
    )
    .replace('"input_chunks": 2', '"input_chunks": 4')
    .replace('"output_chunks": 2', '"output_chunks": 4'),
    "packets can only be in scratch": changed(
        "packets", '"buffer_id": 2', '"buffer_id": 0'
    ),
}


@pytest.mark.parametrize("reason", FAULTS)
def test_faults_are_named(reason):
    with pytest.raises(ScheduleError) as caught:
        named_after(parse(FAULTS[reason]), "mine.json")
    assert reason.lower() in str(caught.value).lower()
