"""Schedules synthesised for a topology are drawn, proved and exported by commands."""

import re

import pytest
from click.testing import CliRunner

from collalgo.cli.main import main
from tests.support.commands import run
from tests.support.goal_interpreter import run as run_goal

ON = ("--topology", "mesh", "dims=2x2", "--without", "host0-host1")

#: Few and large parts, so that the files are small.
COARSE = "synthesized(rounds=1)"


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("COLLALGO_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("suffix", ["xml", "json"])
def test_what_is_exported_is_proved_as_a_file(suffix, tmp_path):
    path = str(tmp_path / f"plan.{suffix}")
    run("algorithms", "export", COARSE, "-c", "allgather", *ON, "-o", path)
    drawn = run("algorithms", "show", COARSE, "-c", "allgather", *ON)
    proof = r"allgather of 4 ranks: (\d+) steps, (\S+) n bytes, 6 links"
    of_file = re.search(proof, run("verify", path))
    of_name = re.search(proof, run("verify", COARSE, "-c", "allgather", *ON))
    assert of_name
    assert of_name[0] in drawn
    assert of_file
    assert of_file[0] == of_name[0]  # three links, in both directions


def test_a_rooted_collective_is_exported_for_its_root(tmp_path):
    path = tmp_path / "plan.goal"
    words = ("algorithms", "export", COARSE, "-c", "scatter", "--root", "2", *ON)
    run(*words, "--bytes", "4K", "-o", str(path))
    sent = run_goal(path.read_text()).sent()
    assert sent[2] == 3 * 1024


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("export", COARSE, "-c", "allgather"), "synthesized needs --topology"),
        (("export", COARSE, *ON), "choose one algorithm, by -c"),
        (
            ("show", COARSE, *ON, "-c", "reduce", "-n", "3"),
            "the plan is for 4 ranks, not for 3",
        ),
        (("show", "ring", *ON), "--topology is for synthesized"),
        (("show", "ring", "dims=2x2"), "dims=2x2: pass --topology"),
        (("show", "ring", "--without", "gpu0"), "faults: pass --topology"),
        (("show", COARSE, "-c", "scan", *ON), "synthesized is for allgather"),
    ],
)
def test_what_cannot_be_is_refused_with_a_reason(words, reason):
    found = CliRunner().invoke(main, ["algorithms", *words])
    assert found.exit_code
    assert reason in " ".join(found.output.replace("\u2502", " ").split())
