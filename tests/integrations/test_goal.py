"""What is written as GOAL can be executed: messages match, in an acyclic order."""

import re

import pytest
from click.testing import CliRunner

from collalgo import ALGORITHMS, verify
from collalgo.algorithms.catalogue import find
from collalgo.cli.main import main
from collalgo.integrations.goal import goal_of
from collalgo.schedule.collective import COLLECTIVES
from tests.support.goal_interpreter import run
from tests.support.leisure import at_leisure


@pytest.mark.parametrize("size", at_leisure([1, 2, 3, 5, 8], {3, 5}))
def test_every_algorithm_can_be_executed(size):
    parts = 2**6 * 3**3 * 5**2 * 7 * size**2  # of which most chunks are whole bytes
    for row in ALGORITHMS:
        if row.obstacle(size) is None:
            root = size - 1 if COLLECTIVES[row.collective].rooted else 0
            goal = run(goal_of(row.schedule, row.collective, size, parts, root))
            proof = verify(
                row.schedule, size=size, collective=row.collective, root=root
            )
            busiest = max(goal.sent().values(), default=0)
            assert abs(busiest - proof.sent * parts) <= busiest / 100 + 200, row.name


def test_the_order_is_that_of_the_schedule():
    ring = find("allreduce", "ring", 5).schedule
    goal = run(goal_of(ring, "allreduce", 5, 500, reduction=2e-9))
    assert goal.rounds() == 8
    times = [int(what["time"]) for what in goal.operations.values() if what["time"]]
    assert sorted(filter(None, times)) == [200] * 20
    assert set(goal.sent().values()) == {800}


@pytest.mark.parametrize(
    ("pattern", "instead"),
    [
        (r"\nl\d+: recv.*", ""),
        ("send 34b", "send 35b"),
        ("tag 3", "tag 2"),
        ("l2: recv", "l2: calc 0\nl2 requires l2\nl99: recv"),
    ],
)
def test_the_interpreter_finds_faults(pattern, instead):
    ring = find("allreduce", "ring", 3).schedule
    text = goal_of(ring, "allreduce", 3, 100)
    assert run(text)
    with pytest.raises(ValueError, match=r"sends|requires|cycle|nodes"):
        run(re.sub(pattern, instead, text, count=1))


def test_sizes_out_of_range_are_refused():
    ring = find("alltoall", "pairwise", 4).schedule
    for nbytes, reduction in ((0, 0.0), (1 << 62, 0.0), (1, -1.0), (1, float("nan"))):
        with pytest.raises(ValueError, match=r"whole buffer must have 1 to"):
            goal_of(ring, "alltoall", 4, nbytes, reduction=reduction)


def test_a_command_writes_it(tmp_path):
    path = tmp_path / "tree.goal"
    command = ["algorithms", "export", "binomial", "-c", "broadcast", "-n", "6"]
    command += ["--root", "2", "--bytes", "1K", "-o"]
    assert CliRunner().invoke(main, [*command, str(path)]).exit_code == 0
    goal = run(path.read_text())
    assert goal.sent()[2] == 3 * 1024
    shown = CliRunner().invoke(main, [*command, "-", "--format", "goal"])
    assert shown.output == path.read_text()
    refused = CliRunner().invoke(main, [*command, "-", "--root", "6"])
    assert "root 6 is out of range; there are 6 ranks" in refused.output
