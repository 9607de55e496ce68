"""What is no readable file is refused alike, in one sentence, by all commands."""

import os
import socket

import pytest
from click.testing import CliRunner
from collalgo.bench.cluster.report import main as report

from collalgo.cli.main import main

#: Each command that reads a file or folder, with a place for it.
READING = {
    "topo show": (main, ["topo", "show", "{}"]),
    "topo convert": (main, ["topo", "convert", "{}"]),
    "topo validate": (main, ["topo", "validate", "{}"]),
    "topo diff": (main, ["topo", "diff", "dgx1v", "{}"]),
    "topo draw": (main, ["topo", "draw", "{}", "-o", "/dev/null"]),
    "bound": (main, ["bound", "allreduce", "{}"]),
    "simulate": (main, ["simulate", "allreduce", "ring", "{}"]),
    "select": (main, ["select", "allreduce", "8", "--topology", "{}"]),
    "figures": (main, ["simulate", "allreduce", "ring", "dgx1v", "--figures", "{}"]),
    "policy": (main, ["select", "allreduce", "8", "-n", "2", "--policy", "{}"]),
    "load": (main, ["select", "allreduce", "8", "-n", "2", "--load", "{}"]),
    "verify": (main, ["verify", "{}"]),
    "verify function": (main, ["verify", "{}:f"]),
    "show": (main, ["algorithms", "show", "{}"]),
    "compare": (main, ["bench", "compare", "{}", "{}"]),
    "plot": (main, ["bench", "plot", "{}", "/dev/null"]),
    "summary": (main, ["trace", "summary", "{}"]),
    "analyze": (main, ["trace", "analyze", "{}"]),
    "hosts": (main, ["run", "--hostfile", "{}", "true"]),
    "cluster": (main, ["cluster", "up", "{}"]),
    "report": (report, ["{}"]),
}


#: Each command that writes a file, with a place for it; before its work.
WRITING = {
    "timeline": ["simulate", "allreduce", "ring", "dgx1v", "--timeline", "{}"],
    "plot": ["select", "allreduce", "--topology", "dgx1v", "--plot", "{}"],
    "svg": ["algorithms", "show", "ring", "-c", "allgather", "--svg", "{}"],
    "export": ["algorithms", "export", "ring", "-c", "allgather", "-o", "{}"],
    "goal": ["algorithms", "export", "ring", "--format", "goal", "-o", "{}"],
    "detect": ["topo", "detect", "-o", "{}"],
    "convert": ["topo", "convert", "dgx1v", "-o", "{}"],
    "draw": ["topo", "draw", "dgx1v", "-o", "{}"],
    "view": ["trace", "view", __file__, "-o", "{}"],
    "tune": ["tune", "{}"],
    "json": ["bench", "--json", "{}"],
    "csv": ["bench", "--csv", "{}"],
    "html": ["bench", "--html", "{}"],
    "bench plot": ["bench", "--plot", "{}"],
    "limits": ["bench", "messages", "--json", "{}"],
}


@pytest.mark.parametrize("name", WRITING)
def test_a_suffix_of_no_format_and_a_missing_folder_are_refused_before_the_work(
    name, tmp_path, monkeypatch
):
    for module in ("collalgo.spawn", "collalgo.topology.model.Topology.detect"):
        monkeypatch.setattr(module, None)
    for path, reason in (
        (tmp_path / "a.foo", "a.foo: "),
        (tmp_path / "none" / "a", "there is no folder"),
    ):
        done = CliRunner().invoke(main, [w.format(path) for w in WRITING[name]])
        assert done.exit_code == 1, done.output
        assert reason in " ".join(done.output.split()), done.output
        assert isinstance(done.exception, SystemExit), done.exception
    assert not [*tmp_path.iterdir()]


def test_the_format_of_an_export_contradicts_no_suffix(tmp_path, monkeypatch):
    monkeypatch.setattr("collalgo.cli.export.prove_roots", None)
    export = ["algorithms", "export", "ring", "-c", "allgather"]
    for form, suffix in (("goal", "xml"), ("msccl", "json"), ("mscclpp", "goal")):
        words = [*export, "-o", str(tmp_path / f"a.{suffix}"), "--format", form]
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 1
        assert f"the suffix .{suffix} is not that of" in done.output


def paths(folder):
    """A path of each kind, under a name that every command takes for a file."""
    for kind in ("folder", "pipe", "socket", "binary", "none"):
        for ending in ("py", "xml", "yaml"):
            path = folder / f"{kind}.{ending}"
            if kind == "folder":
                path.mkdir()
            elif kind == "pipe":
                os.mkfifo(path)
            elif kind == "socket":
                with socket.socket(socket.AF_UNIX) as one:
                    one.bind(str(path))
            elif kind == "binary":
                path.write_bytes(bytes(range(256)) * 40)
            yield path
    yield "/"
    yield "/dev/zero"
    yield folder / ("x" * 300)


@pytest.mark.parametrize("kind", ["folder.py", "pipe.py", "socket.xml"])
def test_a_bench_refuses_what_is_no_file_before_its_ranks_start(
    kind, tmp_path, monkeypatch
):
    monkeypatch.setattr("collalgo.spawn", None)
    assert list(paths(tmp_path))
    words = ["bench", "-R", "2", "--load", str(tmp_path / kind)]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2
    assert f"{kind} is a" in " ".join(done.output.split())


@pytest.mark.parametrize("name", READING)
def test_what_is_no_readable_file_is_one_error(name, tmp_path):
    command, words = READING[name]
    for path in paths(tmp_path):
        done = CliRunner().invoke(command, [word.format(path) for word in words])
        assert done.exit_code in (1, 2), (path, done.output)
        assert isinstance(done.exception, SystemExit), (path, done.exception)
        lines = done.output.splitlines()
        assert sum(line.startswith("Error: ") for line in lines) == 1, done.output
        assert "Errno" not in done.output, (path, done.output)
