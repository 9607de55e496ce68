"""Groups are measured by the slowest rank, and every rank knows the same times."""

from functools import partial

import pytest
from click.testing import CliRunner
from collalgo.bench.cli import main
from collalgo.bench.groups import COLUMNS, groups

from collalgo import threads


@pytest.mark.parametrize("size", [1, 3])
def test_each_way_to_make_a_group_is_measured(size):
    found = threads(partial(groups, rounds=3, mpi=False), size)
    assert all(each == found[0] for each in found)
    assert {row.name for row in found[0]} == {
        "split in one", "split in two", "dup", "group of all"
    }  # fmt: skip
    assert all(len(row.seconds) == len(COLUMNS) for row in found[0])
    assert all(part > 0 for row in found[0] for part in row.seconds)


def test_the_command_shows_a_row_for_each():
    done = CliRunner().invoke(main, ["groups", "-R", "2", "--rounds", "2"])
    assert done.exit_code == 0, done.output
    assert "2 ranks, us of the slowest" in done.output
    assert done.output.count("collalgo") == 4
