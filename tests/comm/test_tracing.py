"""The flight recorder: what it remembers, when it is written, who diverged first."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import collalgo
from collalgo.cli.main import main
from collalgo.comm.current import runner_of
from collalgo.comm.tracing.analysis import DumpError, analyze
from collalgo.comm.tracing.dump import dump, dump_failure
from collalgo.launch.rank_processes import rank_processes

HERE = Path(__file__).name


def analyzed(folder):
    result = CliRunner().invoke(main, ["trace", "analyze", str(folder)])
    assert result.exit_code in (0, 1), result.output
    return result.exit_code, result.output


@pytest.mark.deadline
def test_what_is_remembered():
    def on_each_rank(comm):
        x = np.ones(7, np.float32)
        comm.allreduce(x, "max", algorithm="ring")
        comm.broadcast_async(x, root=1).wait()
        comm.barrier()
        first, second, third = runner_of(comm).recorder.records()
        assert [r["number"] for r in (first, second, third)] == [1, 2, 3]
        assert first["algorithm"] == "ring"
        assert (first["count"], first["state"], second["root"]) == (7, "done", 1)
        for record in (first, second, third):
            assert HERE in record["place"]
            assert record["queued"] <= record["begun"] <= record["ended"]
            assert abs(record["ended"] - time.monotonic_ns()) < 60e9
        lines = [int(r["place"].rpartition(":")[2]) for r in (first, second, third)]
        assert lines == [lines[0], lines[0] + 1, lines[0] + 2]

    collalgo.threads(on_each_rank, 3, timeout=60)


def test_exchanges_of_a_call_are_placed_where_the_user_made_it():
    def on_each_rank(comm):
        collalgo.broadcast_object([1], comm)
        comm.allgatherv(np.ones(comm.rank + 1))
        comm.split(0)
        records = runner_of(comm).recorder.records()
        lines = {r["number"]: set() for r in records}
        for record in records:
            assert HERE in record["place"]
            lines[record["number"]].add(int(record["place"].rpartition(":")[2]))
        first = min(lines[1])
        assert lines == {1: {first}, 2: {first + 1}, 3: {first + 2}}

    collalgo.threads(on_each_rank, 2, timeout=60)


@pytest.mark.deadline
def test_only_so_many_calls_are_remembered():
    def on_each_rank(comm):
        x = np.ones(1)
        works = [comm.allreduce_async(x) for _ in range(3000)]
        works[-1].wait()
        records = runner_of(comm).recorder.records()
        assert len(records) == runner_of(comm).recorder.capacity == 1024
        assert [r["number"] for r in records] == list(range(1977, 3001))
        assert all(record["state"] == "done" for record in records)

    collalgo.threads(on_each_rank, 2, timeout=60)


def late(comm, folder):
    """Rank 2 does not make the fourth call, in which the others run into a timeout."""
    for _ in range(3):
        comm.allreduce(np.ones(10))
    if comm.rank == 2:
        time.sleep(2)
        dump(folder)
    else:
        with pytest.raises(collalgo.CollectiveTimeout):
            comm.allreduce(np.ones(10), timeout=0.5)
        time.sleep(1.5)


def different(comm, folder):
    """Rank 1 makes another call than all others."""
    comm.barrier()
    with pytest.raises(collalgo.MismatchError):
        comm.allreduce(np.ones(10 + (comm.rank == 1)))
        comm.barrier()
    time.sleep(0.5)


def in_a_group(comm, folder):
    """Rank 3 does not make a call of a group; the world has nothing to do with it."""
    part = comm.split(comm.rank % 2)
    part.barrier()
    if comm.rank == 1:
        with pytest.raises(collalgo.CollectiveTimeout):
            part.allreduce_async(np.ones(3), timeout=0.5).wait()
    time.sleep(1 if comm.rank == 1 else 2)
    dump(folder)


@pytest.mark.parametrize(
    ("duty", "size", "found"),
    [
        (late, 3, r"world: rank 2 diverged first, at call #4\n(.*\n)*.*rank 2 has not "
                  r"made call #4; its last was allreduce #3 \(10 float64, sum, "),
        (different, 3, r"world: rank 1 diverged first, at call #2\n(.*\n)*.*rank 1 "
                       r"instead: allreduce #2 \(11 float64"),
        (in_a_group, 4, r"1-3#1: rank 1 diverged first, at call #2\n(.*\n)*.*no rank"),
    ],
)  # fmt: skip
def test_who_diverged_first_is_found(duty, size, found, tmp_path, monkeypatch):
    monkeypatch.setenv("COLLALGO_DUMP", str(tmp_path))
    from functools import partial

    collalgo.spawn(partial(duty, folder=tmp_path), size, timeout=60)
    code, output = analyzed(tmp_path)
    assert code == 1
    assert re.search(found, output), output
    assert HERE in output


def all_is_well(comm, folder):
    comm.allreduce(np.ones(10))
    comm.barrier()
    dump(folder)


@pytest.mark.deadline
def test_nobody_is_blamed_where_all_is_well(tmp_path):
    from functools import partial

    collalgo.spawn(partial(all_is_well, folder=tmp_path), 2)
    code, output = analyzed(tmp_path)
    assert code == 0
    assert "no rank diverged\n  all ranks have made the same 2 calls" in output


@pytest.mark.deadline
def test_a_folder_of_dumps_that_cannot_be_made_is_named_once(monkeypatch, caplog):
    monkeypatch.setenv("COLLALGO_DUMP", os.devnull)
    for _ in range(2):
        dump_failure()
    (told,) = caplog.messages
    assert told.startswith("no dump of the failure is written: cannot make the folder")


HANGING = """
import sys, time
import numpy as np, collalgo
comm = collalgo.init()
comm.barrier()
print("ready", flush=True)
if comm.rank == 1:
    time.sleep(60)
comm.allreduce(np.ones(3)) if comm.rank else comm.allreduce_async(np.ones(3)).wait()
"""


@contextmanager
def hanging_job(folder):
    """A job of three ranks, of which one does not make the call of the others."""
    script = folder / "hangs.py"
    script.write_text(HANGING)
    # Of a shell the signal would be the end.
    line = ["sh", "-c", f"{sys.executable} {script}; true"]
    command = [sys.executable, "-m", "collalgo", "run", "-n", "3"]
    job = subprocess.Popen(
        [*command, *line], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "COLLALGO_DUMP": str(folder / "dumps")},
    )  # fmt: skip
    try:
        for _ in range(3):
            assert "ready" in job.stdout.readline()
        time.sleep(0.5)
        yield job
    finally:
        job.terminate()
        job.communicate(timeout=30)


def dump_by_signal(job, folder):
    job.send_signal(signal.SIGUSR1)
    until = time.monotonic() + 20
    while len(list(folder.glob("*.json"))) < 3:
        assert time.monotonic() < until
        time.sleep(0.05)


def dump_by_command(job, _folder):
    dump_of_process(job.pid)


def dump_by_rank(job, _folder):
    dump_of_process(rank_processes(job.pid)[1].process)


def dump_of_process(number):
    done = CliRunner().invoke(main, ["trace", "dump", str(number)])
    assert done.exit_code == 0, done.output
    assert [f"rank {rank}: " in done.output for rank in range(3)] == [True] * 3


@pytest.mark.deadline
@pytest.mark.parametrize("dump", [dump_by_signal, dump_by_command, dump_by_rank])
def test_a_signal_writes_a_dump_of_a_rank_that_hangs(dump, tmp_path):
    with hanging_job(tmp_path) as job:
        dump(job, tmp_path / "dumps")
        code, output = analyzed(tmp_path / "dumps")
        assert code == 1
        assert re.search(r"rank 1 diverged first, at call #2", output), output
        assert re.search(r"rank 0: .*under way for .*waiting for rank", output), output
        assert job.poll() is None  # it goes on


@pytest.mark.deadline
def test_files_that_are_no_dumps_are_refused(tmp_path):
    with pytest.raises(DumpError, match="has no dumps"):
        analyze(tmp_path)
    good = dump(tmp_path)
    document = json.loads(good.read_text())
    for text in ("", "{}", "[]", "null", '{"format": "x"}', "[" * 100_000):
        good.write_text(text)
        with pytest.raises(DumpError, match="is not a dump of collalgo"):
            analyze(tmp_path)
    document["communicators"] = [{"name": "a", "rank": 0, "size": 1, "records": [{}]}]
    good.write_text(json.dumps(document))
    with pytest.raises(DumpError, match="is not a dump of collalgo"):
        analyze(tmp_path)
    assert CliRunner().invoke(main, ["trace", "analyze", str(tmp_path)]).exit_code == 1


TOO_LATE = """
import os, time
import numpy as np, collalgo
comm = collalgo.init()
other = comm.dup()
for call in (comm.barrier, lambda timeout: other.recv(np.ones(1), 1, timeout=timeout)):
    try:
        if comm.rank == 0:
            call(timeout=0.2)
    except collalgo.CollectiveTimeout as error:
        print(error)
while comm.rank == 1 and not os.path.exists("told"):
    time.sleep(0.01)
open("told", "w").close()
"""


@pytest.mark.parametrize("folder", ["", "dumps"])
def test_the_first_timeout_of_a_rank_points_to_the_dumps(folder, tmp_path):
    script = tmp_path / "late.py"
    script.write_text(TOO_LATE)
    done = subprocess.run(
        [sys.executable, "-m", "collalgo", "run", "-n", "2", sys.executable, script],
        env={**os.environ, "COLLALGO_DUMP": folder}, cwd=tmp_path,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    how = "was: collalgo trace analyze dumps" if folder else "is: collalgo trace dump"
    assert done.stdout.count(f"(to see where each rank {how}") == 1, done.stderr
    assert done.stdout.count("rank 0 waited 0.2 s") == 2, done.stdout
