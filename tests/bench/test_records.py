"""Results survive a file, and files of something else are refused."""

import csv
import io
import json

import numpy as np
import pytest
from collalgo.bench.cells import Cell
from collalgo.bench.records import (
    Record,
    as_csv,
    as_json,
    of_json,
    record,
)

from tests.support.bench_results import made


def test_results_survive_a_file(tmp_path):
    rows = [made(1e-3), made(2e-3, contestant="mpi")]
    path = tmp_path / "a.json"
    path.write_text(as_json(rows, {"cores": 2}))
    assert of_json(path) == rows
    assert json.loads(path.read_text())["environment"] == {"cores": 2}
    header, *lines = csv.reader(io.StringIO(as_csv(rows)))
    assert header == [*(name for name in Record._fields if name != "runs"), "maker"]
    assert [line[0] for line in lines] == ["collalgo", "mpi"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "7",
        "null",
        '{"version": 99, "results": []}',
        '{"version": [1], "results": []}',
        '{"version": {}, "results": []}',
        '{"version": 1}',
        '{"version": 1, "results": {}}',
        '{"version": 1, "results": [7]}',
        '{"version": 1, "results": [{"more": 1}]}',
        "[" * 100_000,
        '{"a":' * 100_000,
        "\udcff",
    ],
)
def test_a_file_of_something_else_is_refused(tmp_path, text):
    path = tmp_path / "a.json"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ValueError, match="holds no results of collalgo bench"):
        of_json(path)


@pytest.mark.parametrize("field", Record._fields)
@pytest.mark.parametrize("value", [[], {}, "x", -1, 1e400, float("nan"), True, 10**400])
def test_a_field_of_another_kind_is_refused(tmp_path, field, value):
    if (field, value) == ("rough", True):
        value = 1
    row = made(1e-3)._asdict()
    if isinstance(row[field], str) and value == "x":
        return
    text = json.dumps({"version": 1, "results": [{**row, field: value}]})
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=f"result 1: {field} is"):
        of_json(path)


@pytest.mark.parametrize("floor", [None, 1e-4, 1e-3, 1.1e-3, 1.0])
def test_a_floor_above_the_fastest_call_is_none(floor):
    seconds = [np.array([1e-3, 2e-3])]
    found = record(Cell("allreduce", 1024), 2, seconds, floor=floor)
    assert found.floor == (floor if floor is not None and floor <= 1e-3 else None)
