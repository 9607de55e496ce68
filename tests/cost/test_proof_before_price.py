"""A schedule of a user is proved before it is priced."""

import pytest
from click.testing import CliRunner

from collalgo import ScheduleError, Topology
from collalgo.cli.main import main
from collalgo.cost.exact import exact
from collalgo.cost.simulation import simulate
from collalgo.cost.timeline import timeline
from collalgo.schedule import recv, send

OF_A_FILE = """
import collalgo


@collalgo.algorithm("allreduce", "unsummed")
def unsummed(group):
    yield (
        collalgo.send(group.right, group.whole),
        collalgo.recv(group.left, group.whole),
    )
"""


def unsummed(group):
    """A step of a ring that copies where it should reduce."""
    yield send(group.right, group.whole), recv(group.left, group.whole)


def unreceived(group):
    """A tree whose root only sends."""
    if group.rank == 0:
        yield tuple(send(rank, group.whole) for rank in range(1, group.size))


@pytest.mark.parametrize("price", [simulate, timeline, exact])
@pytest.mark.parametrize(
    ("schedule", "fault"),
    [(unsummed, "allreduce of 8 ranks: rank 0 ends"), (unreceived, "never takes")],
)
def test_a_wrong_schedule_has_no_price(price, schedule, fault):
    machine = Topology.load("dgx1v")
    nbytes = () if price is exact else (1 << 20,)
    with pytest.raises(ScheduleError, match=f"{schedule.__name__}: .*{fault}"):
        price(schedule, machine, *nbytes, collective="allreduce")


@pytest.mark.parametrize("name", ["m1.py", "m1.py:unsummed"])
def test_a_wrong_schedule_of_a_file_has_no_price(name, tmp_path):
    (tmp_path / "m1.py").write_text(OF_A_FILE)
    words = ["simulate", "allreduce", str(tmp_path / name), "dgx1v", "--size", "1M"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 1
    assert "unsummed: allreduce of 8 ranks: rank 0 ends" in result.output
