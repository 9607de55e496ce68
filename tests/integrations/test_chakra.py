"""The calls of Chakra traces are read in each form, and priced on a topology."""

import random
from contextlib import suppress

import pytest
from click.testing import CliRunner

from collalgo import Topology, select
from collalgo.cli.main import main
from collalgo.integrations.chakra import Call, ChakraError, priced, read_calls
from collalgo.integrations.chakra.calls import calls_of
from tests.support.chakra_traces import FORMS, as_messages, delimited, field, message

CALLS = {
    Call("allreduce", 1 << 20, "tp"): 2,
    Call("allgather", 4096, ""): 1,
    Call("barrier", 0, ""): 1,
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_has_the_same_calls(form):
    found = calls_of(FORMS[form]())
    assert (dict(found.calls), found.messages, found.unknown) == (CALLS, 1, 1)


def test_calls_are_priced_as_select_prices_them():
    topology = Topology.load("dgx1v")
    tp, gathered, barrier = priced(calls_of(as_messages()), topology, {"tp": [0, 1]})
    assert (tp.size, tp.times, tp.nbytes) == (2, 2, 1 << 20)
    assert tp.seconds == 2 * tp.selection.seconds
    alone = select("allgather", 8 * 4096, topology=topology)
    assert (gathered.size, gathered.nbytes) == (8, 8 * 4096)
    assert gathered.selection.algorithm == alone.algorithm
    assert gathered.seconds == alone.seconds
    assert barrier.seconds > 0
    for ranks in ([], [0, 0], [0, 8]):
        with pytest.raises(ChakraError, match="needs some of 0 to 7, each once"):
            priced(calls_of(as_messages()), topology, {"tp": ranks})


def test_a_command_prices_a_trace(tmp_path):
    path = tmp_path / "trace.et"
    path.write_bytes(as_messages())
    words = ["trace", "price", str(path), "dgx1v", "--group", "tp=0-1"]
    found = CliRunner().invoke(main, words)
    assert found.exit_code == 0, found.output
    rows = [line.split() for line in found.output.splitlines()]
    assert rows[2][:6] == ["allreduce", "tp", "2", "1", "MiB", "2"]
    assert "4 calls" in found.output
    assert "1 message, and 1 collective without" in found.output
    refused = CliRunner().invoke(main, [*words, "--group", "dp=x"])
    assert "must have the form NAME=0,4-7" in refused.output
    with pytest.raises(ChakraError, match=r"none\.et: it cannot be read"):
        read_calls(tmp_path / "none.et")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (["xx=0-3"], "no call is in the group 'xx' of --group; the groups of the"),
        (["tp=0,0"], "has the ranks 0,0; it needs some of 0 to 7, each once"),
        (["tp=0-99"], "has the ranks 0-99; it needs"),
        (["tp=0-1", "tp=2-3"], "the group tp is given twice"),
    ],
)
def test_groups_that_the_trace_or_the_machine_lacks_are_refused(given, why, tmp_path):
    path = tmp_path / "trace.et"
    path.write_bytes(as_messages())
    groups = (word for group in given for word in ("--group", group))
    words = ["trace", "price", str(path), "dgx1v", *groups]
    refused = CliRunner().invoke(main, words)
    assert refused.exit_code
    assert why in " ".join(refused.output.replace("\u2502", " ").split())


def too_large():
    return as_messages([(1, "a", 7, {"comm_type": 0, "comm_size": 1 << 60})])


FAULTS = {
    "compressed": b"\x1f\x8b123",
    "begins no integer": b"\xff" * 11,
    "are left": b"\x05abc",
    "of the unknown type 3": delimited(b"") + delimited(b"\x0b"),
    "a text has the type of a number": delimited(b"")
    + delimited(field(2, 5) + field(3, 7)),
    "a number has the type of a text": delimited(b"")
    + delimited(field(1, "x") + field(3, 7)),
    "node 1 has 1152921504606846976 bytes": too_large(),
    "it is not JSON": b"{",
    "nested too deeply": b'{"a":' + b"[" * 100_000,
    "too many digits": b'{"a":' + b"1" * 5000 + b"}",
    "not an object": b"{} 3",
    "a node is not an object": b'{"workload_graph": [3]}',
    "execution trace of PyTorch": b'{"schema": "1.0.2-chakra.0.0.4", "nodes": []}',
}


@pytest.mark.parametrize("reason", FAULTS)
def test_faults_are_named(reason):
    with pytest.raises(ChakraError, match=reason):
        calls_of(FAULTS[reason])


def test_damaged_traces_are_read_or_refused():
    dice = random.Random(0)
    for form in FORMS.values():
        for _ in range(300):
            data = bytearray(form())
            for _ in range(dice.randint(1, 4)):
                i = dice.randrange(len(data))
                data[i : i + dice.randint(0, 3)] = dice.randbytes(dice.randint(0, 3))
            with suppress(ChakraError):
                calls_of(bytes(data))


def test_a_node_without_attributes_has_no_call():
    trace = delimited(b"") + delimited(message(1, "x", 7, comm_type=77, comm_size=8))
    assert calls_of(trace).unknown == 1
