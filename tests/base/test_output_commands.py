"""Commands write over their own files, and never over those of others."""

import json
import re
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
from click.testing import CliRunner
from collalgo.bench.cli import main as bench
from collalgo.bench.cluster.race import main as race
from collalgo.bench.cluster.report import main as report
from collalgo.bench.heap import main as heap
from collalgo.bench.tune import tune

import collalgo
from collalgo.base.seal import is_unchanged, sealed
from collalgo.cli.main import main
from tests.support.foreign_files import KIND, THESIS, names
from tests.support.leisure import at_leisure

# Each command that writes, with a target for the file; none may begin its work.
COMMANDS = {
    "bench json": (bench, ["-R", "2", "--json"], "a.json"),
    "bench csv": (bench, ["-R", "2", "--csv"], "a.csv"),
    "bench plot": (bench, ["-R", "2", "--plot"], "a.svg"),
    "sweep": (bench, ["sweep", "-R", "2", "--json"], "a.json"),
    "tune": (tune, [], "rules.yaml"),
    "tune a peer": (tune, ["--export", "openmpi"], "rules.conf"),
    "heap": (heap, ["--json"], "a.json"),
    "race": (race, [], "a.json"),
    "race over gloo": (race, ["new.json", "--gloo"], "meeting"),
    "report": (report, ["{json}", "-o"], "a.png"),
    "show": (main, ["algorithms", "show", "ring", "-c", "allgather", "--svg"], "a.svg"),
    "export": (
        main,
        ["algorithms", "export", "ring", "-c", "allgather", "-o"],
        "a.xml",
    ),
    "detect": (main, ["topo", "detect", "-o"], "a.yaml"),
    "convert": (main, ["topo", "convert", "dgx1v", "-o"], "a.json"),
    "draw": (main, ["topo", "draw", "dgx1v", "-o"], "a.svg"),
    "timeline": (
        main,
        ["simulate", "allreduce", "ring", "dgx1v", "--timeline"],
        "a.json",
    ),
    "picture": (
        main,
        ["simulate", "allreduce", "ring", "dgx1v", "--timeline"],
        "a.png",
    ),
    "prices": (main, ["select", "allreduce", "8", "-n", "2", "--plot"], "a.pdf"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_writes_over_a_file_of_the_user(name, tmp_path, monkeypatch):
    def worked(*_, **__):
        raise AssertionError("the work has begun")

    for what in ("spawn", "init", "threads"):
        monkeypatch.setattr(collalgo, what, worked)
    command, arguments, file = COMMANDS[name]
    path = tmp_path / file
    contents = (THESIS, b'{"traceEvents": []}', b"<svg/>", b"[]", b"collalgo: 1")
    for content in contents:
        path.write_bytes(content)
        words = [word.format(json=__file__) for word in arguments]
        done = CliRunner().invoke(command, [*words, str(path)])
        assert done.exit_code in (1, 2), done.output
        assert f"{path} exists" in done.output, done.exception
        assert done.output.count("Error: ") == 1
        assert path.read_bytes() == content
    assert names(tmp_path) == [file]


QUICK = [name for name in COMMANDS if COMMANDS[name][0] is main and name != "prices"]


@pytest.mark.parametrize("name", QUICK)
def test_commands_write_over_their_own_files_and_others_by_force(name, tmp_path):
    command, arguments, file = COMMANDS[name]
    path = tmp_path / file
    for force in ([], [], ["--force"]):
        if force:
            path.write_bytes(THESIS)
        done = CliRunner().invoke(command, [*arguments, str(path), *force])
        assert done.exit_code == 0, done.output
        assert len(path.read_bytes()) > 100
    assert names(tmp_path) == [file]


@pytest.mark.parametrize("name", ["export", "convert", "detect"])
def test_commands_write_to_standard_output_and_nothing_else_there(name, tmp_path):
    command, arguments, _ = COMMANDS[name]
    assert CliRunner().invoke(command, [*arguments, "-"]).output[:5] in (
        "<algo",
        "colla",
    )
    assert not Path("-").exists()


def test_results_go_to_standard_output_and_tables_elsewhere():
    job = ["allreduce", "-n", "2", "-e", "8", "--calls", "3"]
    options = [*job, "-N", "1", "--json", "-"]
    done = subprocess.run(
        [sys.executable, "-m", "collalgo", "bench", *options],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["results"]
    assert "wrong elements: 0 OK" in done.stderr


#: Two edits of a file: a value, and something at its end.
EDITS = {
    "a digit": lambda data: re.sub(rb"[1-8](?![0-9a-f]{8})", b"9", data, count=1),
    "the end": lambda data: data + b"\n",
}


@pytest.mark.parametrize(
    ("name", "edit"),
    at_leisure(
        product(QUICK, EDITS), {*product(QUICK, EDITS)} - {("picture", "the end")}
    ),
)
def test_what_was_changed_by_hand_stays_unless_by_force(name, edit, tmp_path):
    command, arguments, file = COMMANDS[name]
    path = tmp_path / file
    assert CliRunner().invoke(command, [*arguments, str(path)]).exit_code == 0
    edited = EDITS[edit](path.read_bytes())
    path.write_bytes(edited)
    done = CliRunner().invoke(command, [*arguments, str(path)])
    assert done.exit_code == 1
    assert "exists and was changed since collalgo wrote it" in done.output
    assert path.read_bytes() == edited
    done = CliRunner().invoke(command, [*arguments, str(path), "--force"])
    assert done.exit_code == 0, done.output
    assert path.read_bytes() != edited


@pytest.mark.parametrize("head", [b"", b"\0\xff", b"made by collalgo ", b"a note "])
def test_any_other_byte_breaks_the_seal(head):
    whole = sealed(head + KIND.mark.encode() + b"1234567", KIND.name)
    assert is_unchanged(whole, KIND.name)
    assert sealed(whole, KIND.name) == whole
    assert not is_unchanged(whole, "a picture")
    for place in range(len(whole)):
        other = bytes([whole[place] ^ 1])
        assert not is_unchanged(whole[:place] + other + whole[place + 1 :], KIND.name)
    for changed in (whole[:-1], whole + b"\n", b"\n" + whole, b"", KIND.mark.encode()):
        assert not is_unchanged(changed, KIND.name)
