"""The machine that a user passes to prices and bounds, and what these print."""

import pytest

from collalgo import Topology, bound, select, simulate
from collalgo.cost.exact import exact
from collalgo.cost.timeline import timeline


@pytest.mark.parametrize(
    "call",
    [
        lambda machine: bound("allreduce", machine),
        lambda machine: simulate("ring", machine, "1M", collective="allreduce"),
        lambda machine: timeline("ring", machine, 8, collective="allreduce"),
        lambda machine: exact("ring", machine, collective="allreduce"),
        lambda machine: select("allreduce", "1M", topology=machine),
    ],
    ids=["bound", "simulate", "timeline", "exact", "select"],
)
@pytest.mark.parametrize("machine", ["dgx1v", 8])
def test_a_name_in_place_of_a_topology_is_refused(call, machine):
    advice = r"pass a Topology: Topology.read\(path\) of a file, or Topology.load"
    with pytest.raises(TypeError, match=rf"is {machine!r}, of type .*; {advice}"):
        call(machine)


def test_a_bound_is_printed_as_a_sentence():
    machine = Topology.load("dgx1v")
    found = str(bound("allreduce", machine))
    assert found.startswith("allreduce: at least ")
    assert "at most 85.71 GB/s of the buffer: every element must leave" in found
    assert str(bound("barrier", machine)).endswith(": no bytes move")
