"""The commands of ``collalgo`` as a user types them."""

import subprocess
import sys
from functools import partial
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner
from collalgo.bench.cli import main as bench

from collalgo.cli.main import COMMANDS, main

COLLALGO = [sys.executable, "-c", "from collalgo.cli.main import main; main()"]


def command(*arguments):
    return subprocess.run(
        [*COLLALGO, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_listed_and_has_help(name):
    listed = CliRunner().invoke(main, ["--help"]).output
    assert f"\n  {name} " in listed
    assert "..." not in listed.partition("Commands:")[2]  # no sentence is cut
    shown = CliRunner().invoke(main, [name, "--help"])
    assert shown.exit_code == 0
    assert shown.output.startswith(f"Usage: main {name} ")


def test_an_unknown_command_is_refused():
    refused = CliRunner().invoke(main, ["nothing"])
    assert refused.exit_code == 2
    assert "No such command 'nothing'" in refused.output


@pytest.mark.deadline
@pytest.mark.parametrize(
    ("group", "arguments", "part"),
    [
        (main, ["bound", "allreduce", "dgx1v"], "collalgo.cli.bound.with_and_without"),
        (main, ["bench"], "collalgo.bench.cli.measured"),
        (bench, ["run"], "collalgo.bench.cli.measured"),
    ],
)
def test_an_interrupted_command_ends_as_shells_expect(
    group, arguments, part, monkeypatch
):
    def interrupted(*_arguments, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(part, interrupted)
    with pytest.raises(SystemExit) as ended:
        group.main(arguments)
    assert ended.value.code == 130


def test_run_imports_no_other_command():
    show = (
        "print(*sorted(name for name in sys.modules if name.startswith('collalgo.')))"
    )
    text = (
        "import atexit, sys; from collalgo.cli.main import main\n"
        f"atexit.register(lambda: {show})\nmain(['run', '--help'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True
    )
    seen = done.stdout.splitlines()[-1].split()
    assert "collalgo.cli.run" in seen
    assert not [n for n in seen if n.startswith(("collalgo.bench", "collalgo.cli.a"))]


def test_verify_finds_the_off_by_one_of_a_users_file(tmp_path):
    path = tmp_path / "mine.py"
    text = (
        "from collalgo import recv, send\n"
        "def allgather(group):\n"
        "    for step in range(group.size - 1):\n"
        "        yield (send(group.right, group.chunk(group.rank - step)),\n"
        "               recv(group.left, group.chunk(group.rank - step)))\n"
    )
    path.write_text(text)
    done = command("verify", f"{path}:allgather", "--ranks", "4")
    assert done.returncode == 1
    assert "step 0 of rank 0 expects chunk 0 of 4 from rank 3" in done.stderr
    path.write_text(text.replace("step)))", "step - 1)))"))
    done = command("verify", f"{path}:allgather", "--ranks", "4")
    assert done.stdout.startswith("allgather of 4 ranks: 3 steps, 3/4 n bytes, 4 links")


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["verify", "ring", "-c", "allreduce", "-n", "3"], "4 steps, 4/3 n bytes"),
        (["verify", "binomial", "-c", "reduce"], "reduce of 17 ranks: 5 steps"),
        (["verify", "nothing", "-c", "reduce"], "there is no algorithm 'nothing'"),
        (["verify", "rings"], "did you mean ring"),
        (["verify", "star_sum"], "pass its file: collalgo verify mine.py"),
        (["verify", "ring", "order=3,2,1,0"], "go inside its parentheses"),
        (["verify", "--all", "-c", "barrier", "-n", "5"], "double_ring: barrier of 5"),
        (["verify", "nowhere.py:f"], "there is no file 'nowhere.py'"),
        (["select", "allreduce", "8", "-n", "4"], "allreduce of 8 B on 4 ranks: "),
        (
            ["algorithms"],
            "Each chunk travels around the ring twice: to be summed",
        ),
        (["algorithms", "-c", "scan", "-n", "5"], "recursive_doubling"),
        (["algorithms", "-c", "allgather", "-n", "5"], "needs an even number"),
        (["algorithms", "show", "ring", "-c", "allreduce", "-n", "4"], "⊕3 2/4"),
        (
            [
                "algorithms",
                "show",
                "binomial",
                "-n",
                "2",
                "--root",
                "2",
                "-c",
                "scatter",
            ],
            "out of range",
        ),
        (["algorithms", "show", "ring", "-c", "allreduce", "--root", "1"], "no root"),
        (["algorithms", "show", "ring"], "choose one algorithm, by -c: "),
        (
            ["algorithms", "show", "examples/own_algorithm.py", "-c", "scan"],
            "has no algorithm for scan, only for",
        ),
        (["algorithms", "show", "nothing"], "there is no algorithm 'nothing'"),
        (
            ["verify", "k_nomial(radix=5)", "-c", "reduce", "-n", "9"],
            "k_nomial(radix=5)",
        ),
        (["verify", "ring(rings=5)", "-n", "9"], "ring has no parameter 'rings'"),
        (["verify"], "name an ALGORITHM, or pass --all"),
        (["verify", "ring", "--all"], "name an ALGORITHM, or pass --all"),
        (
            ["select", "allreduce", "8", "-n", "4", "--reproducible"],
            "does not combine in",
        ),
        (["--version"], "version 0."),
    ],
)
def test_the_other_commands(arguments, found):
    assert found in CliRunner().invoke(main, arguments).output


MINE = """
import collalgo
from collalgo.algorithms import ring


@collalgo.algorithm("allreduce", "mine")
def mine(group):
    yield from ring.allreduce(group)
"""


def test_the_algorithms_of_a_file_are_proved_drawn_chosen_and_raced(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    drawing = tmp_path / "mine.svg"
    shown = partial(CliRunner().invoke, main)
    done = shown(["verify", str(path), "-n", "3"])
    assert done.output == (
        "mine: allreduce of 3 ranks: 4 steps, 4/3 n bytes, 3 links, same bits on every "
        "rank\n"
    )
    assert shown(["verify", f"{path}:mine", "-n", "3"]).output == done.output
    shown(["algorithms", "show", str(path), "-n", "3", "--svg", str(drawing)])
    root = ET.parse(drawing).getroot()
    arrows = [element for element in root.iter() if element.get("marker-end")]
    assert len(arrows) == 12
    done = shown(["select", "allreduce", "8", "-n", "3", "--load", str(path)])
    assert "  mine " in done.output
    done = command(
        *("run", "-n", "2", "-m", "collalgo.bench", "-e", "64", "-a", "mine"),
        *("--load", str(path)),
    )
    assert "mine" in done.stdout
    assert "wrong elements: 0 OK" in done.stdout


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "registers no algorithm"),
        ("x = ", "cannot be run: SyntaxError"),
        ("import nowhere_at_all", "cannot be run: ModuleNotFoundError"),
    ],
)
def test_a_file_that_has_nothing_to_prove_says_so(tmp_path, text, message):
    path = tmp_path / "mine.py"
    path.write_text(text)
    done = CliRunner().invoke(main, ["verify", str(path)])
    assert done.exit_code != 0
    assert message in done.output
