"""Shells complete the names of commands, options and values."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from collalgo.cli.completion import SHELLS
from collalgo.cli.main import main


def completed(*words):
    """What bash offers for the last word of a command line."""
    script = CliRunner().invoke(main, ["completion", "bash"]).output
    ask = "complete -p collalgo; _collalgo_completion collalgo; echo ${COMPREPLY[@]}"
    program = Path(sys.executable).with_name("collalgo")
    line = f"COMP_WORDS=({program} {' '.join(words)}); COMP_CWORD={len(words)}"
    shell = [shutil.which("bash"), "--norc", "-c", f"{script}\n{line}\n{ask}"]
    path = {"PATH": f"{program.parent}:/usr/bin:/bin"}
    done = subprocess.run(shell, capture_output=True, text=True, env=path, check=False)
    assert "-F _collalgo_completion collalgo" in done.stdout, done.stderr
    return done.stdout.split()


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("se",), {"select", "selftest"}),
        (("select", "all"), {"allreduce", "allgather", "alltoall", "alltoallv"}),
        (("bound", "allreduce", "dgx1v", "--deg"), {"--degraded"}),
        (("topo", "d"), {"detect", "diff", "draw"}),
    ],
)
def test_bash_completes_commands_options_and_values(words, offered):
    found = completed(*words)
    assert offered <= set(found)
    assert "calibrate" not in found


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_has_a_script_that_asks_this_program(shell):
    script = CliRunner().invoke(main, ["completion", shell])
    assert script.exit_code == 0
    assert f"_COLLALGO_COMPLETE={shell}_complete" in script.output


def test_another_shell_is_refused_with_the_names_of_those_known():
    refused = CliRunner().invoke(main, ["completion", "tcsh"])
    assert refused.exit_code == 2
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in refused.output
