"""Calls of sizes that are new are timed and compared."""

import json

import numpy as np
from collalgo.bench.cells import PLACES, Cell
from collalgo.bench.measuring import measure
from collalgo.bench.new_sizes import LEAST, first_calls, sizes_around
from collalgo.bench.peers import worker
from collalgo.bench.peers.worker import Job
from collalgo.bench.records import (
    as_json,
    record,
)
from collalgo.bench.report import rivals, summary, tables
from collalgo.bench.sweep import Sweep

from collalgo import threads
from tests.support.bench_results import shown


def test_new_sizes_are_near_and_all_different():
    for collective in (name for name in PLACES if name != "barrier"):
        for nbytes in (8, 400, 40_000, 1 << 21):
            cell = Cell(collective, nbytes, "float32")
            block, _ = cell.counts(3)
            blocks = [one.counts(3)[0] for one in sizes_around(cell, 3)]
            assert len(set(blocks)) == len(blocks)
            assert block not in blocks
            assert all(0.7 * block - 1 <= one <= 1.42 * block + 1 for one in blocks)
    assert sizes_around(Cell("barrier", 0), 3) == []


def test_a_few_new_sizes_are_none():
    for elements in range(1, 40):
        around = sizes_around(Cell("allreduce", 4 * elements, "float32"), 3)
        assert not around or len(around) >= LEAST
    assert sizes_around(Cell("allreduce", 8, "float32"), 3) == []


def test_new_sizes_are_a_column():
    both = Sweep(("allgather", "barrier"), (400,), iterations=2, fresh_sizes=True)
    for records in threads(lambda comm: measure(comm, both), 2):
        assert records[0].new_size > 0
        assert records[1].new_size is None
        columns = shown(*tables(records))
        assert columns.count("fresh") == 1
        assert json.loads(as_json(records, {}))["results"][0]["new_size"] > 0


def test_new_sizes_of_peers_are_compared():
    cell = Cell("allreduce", 400)
    seconds = [np.full(3, 1e-6)]
    found = [
        record(cell, 2, seconds, contestant=name, new_size=new)
        for name, new in (("collalgo", 2e-6), ("mpi", 3e-6), ("gloo", 1e-6))
    ]
    columns = shown(rivals(found))
    assert columns.count("fresh") == 2
    assert "0.50" in columns
    of_mpi, of_gloo = (line for line in summary(found) if "new sizes" in line)
    assert "mpi / collalgo: 1.50 " in of_mpi
    assert "gloo / collalgo: 0.50 " in of_gloo


def test_calls_that_a_library_lacks_are_left_out():
    made = []
    cell = Cell("allreduce", 4000, op="sum")

    def call_of(bench):
        made.append(bench.cell)
        return bench.call() if bench.cell == cell or len(made) % 2 else None

    found = threads(lambda comm: first_calls(comm, cell, call_of), 1)
    assert found[0] > 0
    assert made.count(cell) == 1
    assert threads(lambda comm: first_calls(comm, cell, lambda _: None), 1) == [None]


def test_a_worker_makes_the_known_call_once_and_leaves_the_specs_as_they_are():
    made, called = [], []

    class Library:
        rank = 0

        def barrier(self): ...

        def job(self, spec):
            made.append((spec["count"], spec["op"]))
            if spec["count"] == 7:
                return None
            return Job(lambda: called.append(spec["count"]), np.zeros(1))

    specs = [Cell("allreduce", 4 * n, op=f"{n}").spec(1) for n in (5, 6, 7, 8)]
    specs = [spec | {"fresh": True} for spec in specs]
    before = [dict(spec) for spec in specs]
    assert len(worker.first_calls(Library(), specs)) == 2
    assert specs == before
    assert made == [(n, "5") for n in (5, 6, 7, 8)]
    assert called == [5, 6, 5, 8]
    assert worker.first_calls(Library(), specs[2:]) == []
    assert worker.first_calls(Library(), []) == []
