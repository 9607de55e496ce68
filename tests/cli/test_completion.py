"""Shells complete the names of commands, options and values."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from collalgo.bench.peers.environments import PEERS

from collalgo.cli import completing
from collalgo.cli.completion import SHELLS
from collalgo.cli.main import main


def completed(*words, folder=None):
    """What bash offers for the last word of a command line, and its own options."""
    script = CliRunner().invoke(main, ["completion", "bash"]).output
    script += "compopt() { echo compopt $2; }"
    ask = "complete -p collalgo; _collalgo_completion collalgo; echo ${COMPREPLY[@]}"
    program = Path(sys.executable).with_name("collalgo")
    line = f"COMP_WORDS=({program} {' '.join(words)}); COMP_CWORD={len(words)}"
    shell = [shutil.which("bash"), "--norc", "-c", f"{script}\n{line}\n{ask}"]
    path = {"PATH": f"{program.parent}:/usr/bin:/bin"}
    how = {"capture_output": True, "text": True, "env": path, "cwd": folder}
    done = subprocess.run(shell, check=False, **how)
    assert "-F _collalgo_completion collalgo" in done.stdout, done.stderr
    return done.stdout.split()


with_bash = pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")


@with_bash
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("se",), {"select", "selftest"}),
        (("select", "all"), {"allreduce", "allgather", "alltoall", "alltoallv"}),
        (("bound", "allreduce", "dgx1v", "--deg"), {"--degraded"}),
        (("topo", "d"), {"detect", "diff", "draw"}),
        (("bench", "s"), {"start", "sizes", "sweep", "scan", "scatter"}),
        (("bench", "--ag"), {"--against"}),
        (("bench", "--against", "gloo,op"), {"gloo,openmpi"}),
        (("bench", "-a", "ring,two_s"), {"ring,two_shot"}),
        (("select", "allreduce", "64M", "--topology", "dgx_"), {"dgx_a100"}),
        (("select", "allreduce", "--policy", "mp"), {"mpich"}),
        (("select", "allreduce", "--algorithm", "ri"), {"ring"}),
        (("bound", "allreduce", "dgx_"), {"dgx_a100"}),
        (("topo", "diff", "dgx1", "dgx_"), {"dgx_a100"}),
        (("algorithms", "show", "two"), {"two_shot"}),
        (("simulate", "allreduce", "two"), {"two_shot"}),
        (("simulate", "allreduce", "two_shot", "dgx_"), {"dgx_a100"}),
        (("verify", "two"), {"two_shot"}),
    ],
)
def test_bash_completes_commands_options_and_values(words, offered):
    found = completed(*words)
    assert offered <= set(found)
    assert "calibrate" not in found


@with_bash
@pytest.mark.parametrize(
    "words",
    [
        ("run", "tr"),
        ("verify", "tra"),
        ("topo", "detect", "-o", "tr"),
        ("topo", "show", "tr"),
        ("select", "allreduce", "--topology", "tr"),
        ("cluster", "run", "two.yaml", "tr"),
        ("bench", "compare", "tr"),
        ("algorithms", "-l", "tr"),
    ],
)
def test_bash_completes_files_itself_where_no_name_begins_so(words, tmp_path):
    (tmp_path / "train.py").touch()
    assert completed(*words, folder=tmp_path)[-2:] == ["compopt", "default"]


@with_bash
def test_bash_offers_files_beside_the_names(tmp_path):
    (tmp_path / "dgx_of_ours.yaml").touch()
    words = ("select", "allreduce", "--topology", "dgx_")
    found = completed(*words, folder=tmp_path)
    assert {"dgx_a100", "dgx_of_ours.yaml", "filenames"} <= set(found)


def test_algorithms_are_those_of_the_collective():
    line = "collalgo\nsimulate\nbarrier\nr"
    ask = {"COMP_WORDS": line, "COMP_CWORD": "3"}
    ask["_COLLALGO_COMPLETE"] = "bash_complete"
    offered = CliRunner().invoke(main, [], prog_name="collalgo", env=ask).output
    assert "plain,ring\n" not in offered
    assert "file,r" in offered


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_has_a_script_that_asks_this_program(shell):
    script = CliRunner().invoke(main, ["completion", shell])
    assert script.exit_code == 0
    assert f"_COLLALGO_COMPLETE={shell}_complete" in script.output


def test_another_shell_is_refused_with_the_names_of_those_known():
    refused = CliRunner().invoke(main, ["completion", "tcsh"])
    assert refused.exit_code == 2
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in refused.output


def test_the_help_has_a_line_for_each_shell():
    lines = CliRunner().invoke(main, ["completion", "--help"]).output.splitlines()
    assert '  bash, in ~/.bashrc: eval "$(collalgo completion bash)"' in lines
    assert '  zsh, in ~/.zshrc: eval "$(collalgo completion zsh)"' in lines


def test_the_rivals_are_those_that_bench_knows():
    assert set(completing.RIVALS) == {peer.name for peer in PEERS}
