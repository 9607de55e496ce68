"""Calls of sizes that are new are timed and compared."""

import json

import numpy as np
from collalgo.bench.cells import PLACES, Cell
from collalgo.bench.measuring import measure
from collalgo.bench.new_sizes import sizes_around
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
