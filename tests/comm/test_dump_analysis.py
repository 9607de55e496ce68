"""What dumps tell of who diverged, what they cannot tell, and damaged dumps."""

import json
import random

import pytest
from click.testing import CliRunner

import collalgo
from collalgo.cli.main import main
from collalgo.comm.tracing.analysis import DumpError, analyze
from collalgo.comm.tracing.dumped import MOST_NAMED
from tests.support.mutation import mutated

SIZES = [2, 3, 5, 8, 17]


def record(number, line, state="done", **more):
    return {
        "sequence": number, "number": number, "state": state,
        "collective": "allreduce", "count": 10,
        "dtype": "float64", "op": "sum", "root": 0, "algorithm": "one_shot",
        "queued": number * 1000, "begun": number * 1000, "place": f"train.py:{line}",
        "ended": number * 1000 + 10 if state == "done" else None, **more,
    }  # fmt: skip


def document(rank, size, records, **more):
    part = {"name": "c world", "rank": rank, "size": size, "records": records}
    return {"format": "collalgo dump 1", "host": "h", "process": rank + 1,
            "time": 10**9, "communicators": [part], **more}  # fmt: skip


def write(folder, rank, size, records, **more):
    path = folder / f"rank{rank}-{rank + 1}.json"
    path.write_text(json.dumps(document(rank, size, records, **more)))
    return path


def a_job(folder, size, lines, absent=None, skipped=None):
    """The dumps of a job whose calls are in some lines; a rank skips one of them."""
    for rank in range(size):
        mine = list(lines)
        if rank == absent:
            del mine[skipped - 1]
        records = [record(i, line) for i, line in enumerate(mine, 1)]
        if rank != absent and absent is not None:
            peers = [other for other in range(size) if other != rank]
            waits = {"state": "under way", "ended": None, "step": 0, "peers": peers}
            records[-1].update(waits)
        write(folder, rank, size, records)


def analyzed(folder):
    result = CliRunner().invoke(main, ["trace", "analyze", str(folder)])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.output


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("skipped", [1, 2, 17, 40])
def test_a_skipped_call_is_found_by_the_lines(tmp_path, size, skipped):
    a_job(tmp_path, size, [1, 2] * 20, absent=size - 1, skipped=skipped)
    code, output = analyzed(tmp_path)
    assert code == 1
    assert f"rank {size - 1} diverged first, at call #{skipped}\n" in output
    if skipped < 40:
        assert f"skipped call #{skipped} at train.py:{2 - skipped % 2}:" in output
    waiting = [line for line in output.splitlines() if "under way" in line]
    assert len(waiting) == size - 1
    assert all(line.endswith(f"waiting for rank {size - 1}") for line in waiting)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("skipped", [1, 9, 20])
def test_where_lines_cannot_tell_the_analysis_says_so(tmp_path, size, skipped):
    a_job(tmp_path, size, [7] * 20, absent=0, skipped=skipped)
    code, output = analyzed(tmp_path)
    assert code == 1
    assert "rank 0 diverged first, at call #20" in output
    assert "may instead have skipped one of the calls #1 to #19" in output


def test_a_skip_among_equal_lines_before_others_is_a_range(tmp_path):
    a_job(tmp_path, 3, [1] * 5 + [2] * 5 + [3] * 5, absent=1, skipped=8)
    code, output = analyzed(tmp_path)
    assert code == 1
    assert "rank 1 diverged first, at call #6" in output
    assert "has skipped one of the calls #6 to #10" in output


@pytest.mark.parametrize("size", [*SIZES, 1 << 20, 1 << 24])
def test_missing_dumps_make_it_inconclusive(tmp_path, size):
    write(tmp_path, 0, size, [record(1, 1), record(2, 1)])
    code, output = analyzed(tmp_path)
    assert code == 2
    assert "inconclusive, as dumps are missing" in output
    assert "rank 1 has no dump" in output
    assert len(output.splitlines()) <= MOST_NAMED + 5


@pytest.mark.parametrize("size", SIZES)
def test_a_rank_with_a_dump_is_not_blamed_for_one_without(tmp_path, size):
    a_job(tmp_path, size, [1, 2] * 3, absent=size - 1, skipped=6)
    (tmp_path / f"rank{size - 1}-{size}.json").unlink()
    assert analyzed(tmp_path)[0] == 2


def test_of_two_dumps_of_a_rank_the_latest_counts(tmp_path):
    a_job(tmp_path, 2, [1, 2, 3])
    old = document(1, 2, [record(1, 1)])
    (tmp_path / "rank1-9.json").write_text(json.dumps({**old, "time": 5}))
    assert analyzed(tmp_path)[0] == 0


VALUES = [None, True, -1, 1.5, "x", [], {}, 1e400, float("nan"), 1 << 70, 10**400]


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize(
    "path",
    ["time", "communicators", "communicators/0", "communicators/0/name",
     "communicators/0/rank", "communicators/0/size", "communicators/0/records",
     "communicators/0/records/0", "communicators/0/records/0/sequence",
     "communicators/0/records/0/begun", "communicators/0/records/0/ended",
     "communicators/0/records/0/state", "communicators/0/records/0/count",
     "communicators/0/records/0/peers", "communicators/0/records/1/op"],
)  # fmt: skip
def test_a_damaged_dump_is_read_or_refused_by_name(tmp_path, path, value):
    found = document(0, 1, [record(1, 1), record(2, 1, state="under way", step=0)])
    *parents, last = path.split("/")
    part = found
    for key in parents:
        part = part[int(key) if key.isdecimal() else key]
    part[int(last) if last.isdecimal() else last] = value
    file = tmp_path / "rank0-1.json"
    file.write_text(json.dumps(found))
    code, output = analyzed(tmp_path)
    assert code in (0, 1, 2)
    if code == 1:
        assert f"Error: {file} is not a dump of collalgo (" in output
        assert len(output) < 500


def test_mutated_dumps_let_only_our_error_out(tmp_path):
    dice = random.Random(1)
    a_job(tmp_path, 2, [1, 2, 1, 2], absent=1, skipped=2)
    file = tmp_path / "rank0-1.json"
    text = file.read_text()
    for _ in range(400):
        file.write_text(mutated(text, [text], dice))
        try:
            analyze(tmp_path)
        except DumpError as error:
            assert len(str(error)) < 500


def test_a_dump_that_cannot_be_written_names_what_to_do(tmp_path):
    file = tmp_path / "file"
    file.write_text("mine")
    for folder in (file, file / "inside"):
        with pytest.raises(collalgo.OutputError, match=rf"make the folder {folder} \("):
            collalgo.dump(folder)
    written = collalgo.dump(tmp_path)
    written.write_text("mine")
    with pytest.raises(collalgo.OutputError, match=r"name another file, or remove it$"):
        collalgo.dump(tmp_path)
    assert (file.read_text(), written.read_text()) == ("mine", "mine")


def crossed(folder, threads):
    """The dumps of two ranks, each of which waits in another of two communicators."""
    waits = {"state": "under way", "ended": None, "step": 0}
    for rank in (0, 1):
        parts = []
        for name, first in (("a", 0), ("b", 1)):
            records = [record(1, 3)]
            if rank == first:
                peers = {"peers": [1 - rank]}
                records += [record(2, 7 + rank, **waits, **peers)]
            parts.append({"name": name, "rank": rank, "size": 2, "records": records})
        found = document(rank, 2, [], communicators=parts, **threads)
        (folder / f"rank{rank}-{rank + 1}.json").write_text(json.dumps(found))


def test_ranks_that_wait_in_different_communicators_are_shown_in_both(tmp_path):
    crossed(tmp_path, {})
    code, output = analyzed(tmp_path)
    assert code == 1
    said = " ".join(output.split())
    for name, other, rank, line in (("a", "b", 1, 8), ("b", "a", 0, 7)):
        assert f"communicator {name}: rank {rank} diverged first, at call #2" in said
        waits = (
            f"rank {rank} waits in communicator {other}, as rank {rank}: allreduce #2"
        )
        assert waits in said
        assert f"at train.py:{line}, under way" in said


@pytest.mark.parametrize("size", SIZES)
def test_the_present_lines_of_the_rank_behind_are_shown(tmp_path, size):
    a_job(tmp_path, size, [1, 2, 3], absent=size - 1, skipped=3)
    file = tmp_path / f"rank{size - 1}-{size}.json"
    lines = ["data.py:9 in load", "train.py:30 in main"]
    found = {**json.loads(file.read_text()), "threads": {"MainThread": lines}}
    file.write_text(json.dumps(found))
    code, output = analyzed(tmp_path)
    assert code == 1
    said = " ".join(output.split())
    assert (
        f"rank {size - 1} is now at data.py:9 in load, called by train.py:30 in main"
    ) in said


@pytest.mark.parametrize("threads", [[], "x", {"a": 1}, {"a": [1]}, {"a": [None]}])
def test_damaged_threads_are_refused_by_name(tmp_path, threads):
    write(tmp_path, 0, 1, [record(1, 1)])
    file = tmp_path / "rank0-1.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "threads": threads}))
    with pytest.raises(DumpError, match="threads"):
        analyze(tmp_path)


def test_a_dump_has_the_lines_of_the_program(tmp_path):
    def waiting(comm):
        return json.loads(collalgo.dump(tmp_path).read_text())["threads"]

    for found in collalgo.threads(waiting, 2):
        assert any("in waiting" in line for lines in found.values() for line in lines)
