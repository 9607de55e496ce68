"""The commands that tell whether an installation works, and how it is set up."""

import os
import signal
import time

import pytest
from click.testing import CliRunner

from collalgo.cli import selftest_checks
from collalgo.cli.main import main
from collalgo.cli.selftest_checks import CHECKS, NotHere
from collalgo.errors import CollalgoError


def invoke(*words, **environment):
    return CliRunner().invoke(main, words, env=environment)


@pytest.mark.parametrize("name", CHECKS)
def test_each_check_passes_here(name, monkeypatch):
    monkeypatch.delenv("UCX_TLS", raising=False)
    try:
        assert CHECKS[name]()
    except NotHere as reason:
        pytest.skip(str(reason))


def sleeps(folder, comm):
    """A survivor that notices nothing."""
    if comm.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


def test_ranks_that_do_not_notice_a_death_are_found(monkeypatch):
    monkeypatch.setattr(selftest_checks, "_outlive", sleeps)
    with pytest.raises(CollalgoError, match="0 of 2 others noticed"):
        CHECKS["a killed rank"]()


def test_the_report_tells_what_failed_and_what_was_skipped(monkeypatch):
    def raises(error):
        raise error

    planted = {
        "right": lambda: "seen",
        "wrong": lambda: raises(RuntimeError("is broken")),
        "absent": lambda: raises(NotHere("no MPI")),
    }
    monkeypatch.setattr(selftest_checks, "CHECKS", planted)
    done = invoke("selftest")
    assert done.exit_code == 1
    lines = [" ".join(line.split()) for line in done.output.splitlines()]
    assert lines[0].startswith("collalgo 0.1.0, Python 3.")
    assert [line[: line.index("0.")] for line in lines[1:4]] == [
        "right passed ", "wrong FAILED ", "absent skipped "
    ]  # fmt: skip
    assert lines[2].endswith("RuntimeError: is broken")
    assert lines[4] == "failed: wrong"


@pytest.mark.parametrize("name", ["reductions", "calls of threads"])
def test_wrong_results_are_found(name, monkeypatch):
    """A kernel that adds where it should multiply, and a call that loses its result."""
    real = selftest_checks.reduction
    sums = lambda dtype, _, variant: real(dtype, "sum", variant)  # noqa: E731
    monkeypatch.setattr(selftest_checks, "reduction", sums)
    monkeypatch.setattr(selftest_checks.Communicator, "allreduce", lambda _, x: x)
    with pytest.raises(AssertionError):
        CHECKS[name]()


def test_variables_are_listed_with_their_values():
    done = invoke("env", COLLALGO_TIMEOUT="7", COLLALGO_SECRET="ab" * 16)
    assert done.exit_code == 0
    rows = {line.split()[0]: line for line in done.output.splitlines() if line.strip()}
    assert rows["COLLALGO_TIMEOUT"].split()[1:3] == ["7", "300;"]
    assert "abab" not in done.output
    assert "(32 characters)" in rows["COLLALGO_SECRET"]
    done = invoke("env", COLLALGO_TIMEOUT="soon")
    assert done.exit_code == 1
    assert "COLLALGO_TIMEOUT=soon is not a number of seconds" in done.output
