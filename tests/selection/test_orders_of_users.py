"""The orders of the ranks in which schedules of users are chosen."""

import pytest
from click.testing import CliRunner

from collalgo import Topology, algorithm, recv, recv_reduce, select, send
from collalgo.cli.main import main
from collalgo.topology.model import Kind, LinkKind


def star(group, rank_at):
    """All ranks send everything to the first one, which returns the sum."""
    if group.rank:
        yield send(rank_at(0), group.whole)
        yield recv(rank_at(0), group.whole)
        return
    for position in range(1, group.size):
        yield recv_reduce(rank_at(position), group.whole)
    yield tuple(send(rank_at(i), group.whole) for i in range(1, group.size))


def test_a_schedule_that_takes_positions_for_ranks_is_not_reordered():
    """Its price would fall if the slow first host came last."""
    slow_first = Topology("slow first")
    slow_first.add("switch", Kind.SWITCH)
    for host, speed in enumerate([1, 10, 10, 10]):
        slow_first.add(f"host{host}", Kind.HOST)
        slow_first.link(f"host{host}", "switch", LinkKind.NETWORK, speed)

    @algorithm("allreduce", "by_position")
    def by_position(group):
        return star(group, lambda position: position)

    @algorithm("allreduce", "by_rank")
    def by_rank(group):
        return star(group, group.peer)

    orders = {}
    for name in ("by_position", "by_rank"):
        chosen = select("allreduce", 1 << 26, topology=slow_first, algorithm=name)
        orders[name] = chosen.candidates[0].order
    assert orders == {"by_position": "", "by_rank": "narrow"}


SHARED = """
import collalgo
from collalgo import recv, send

@collalgo.algorithm("allgather", "to_the_next")
def to_the_next(group):
    me, after, before = group.rank, {after}, {before}
    for step in range(group.size - 1):
        sent, received = group.chunk(me - step), group.chunk(me - step - 1)
        yield send(after, sent), recv(before, received)
"""


@pytest.mark.parametrize(
    ("after", "before", "remarks"),
    [
        ("group.right", "group.left", 0),
        ("(group.rank + 1) % group.size", "(group.rank - 1) % group.size", 1),
    ],
)
def test_a_proof_says_if_it_holds_in_one_order_only(after, before, remarks, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(SHARED.format(after=after, before=before))
    found = CliRunner().invoke(main, ["verify", str(path), "-n", "3", "-n", "5"])
    assert found.exit_code == 0
    assert found.output.count("in the order of the ranks only") == remarks
