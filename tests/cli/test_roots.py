"""A root that is none of the ranks, or of a collective without one, is refused."""

import pytest
from click.testing import CliRunner

from collalgo.cli.main import main

MACHINES = {"dgx1v": 8, "fully_connected": 8}

COMMANDS = (
    ("simulate", "broadcast", "binomial"),
    ("simulate", "reduce", "binomial", "--model", "fluid"),
    ("simulate", "scatter", "binomial", "--exact"),
    ("bound", "broadcast"),
    ("bound", "scatter"),
)


def run(command, machine, root):
    options = [word for word in command if word.startswith("--")]
    split = command.index(options[0]) if options else len(command)
    words = [*command[:split], machine, "--root", str(root), *command[split:]]
    return CliRunner().invoke(main, [*words, "--size", "1M"])


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("machine", MACHINES)
def test_a_root_that_is_none_of_the_ranks_is_refused(machine, command):
    size = MACHINES[machine]
    assert run(command, machine, size - 1).exit_code == 0
    for root in (size, size + 1, 10**9, 2**70):
        result = run(command, machine, root)
        assert result.exit_code == 1
        said = f"root {root} is out of range; there are {size} ranks"
        assert said in " ".join(result.output.split())
    assert run(command, machine, -1).exit_code == 2


@pytest.mark.parametrize(
    "command", [("simulate", "allreduce", "ring"), ("bound", "allgather")], ids=" ".join
)
def test_a_root_of_a_collective_without_one_is_refused(command):
    result = run(command, "dgx1v", 5)
    assert result.exit_code == 2
    assert f"{command[1]} has no root; leave --root 5 out" in result.output
