"""The suite measures what it says: the right calls, honest checks, readable results."""

import csv
import io
import json
import os
from functools import partial
from time import sleep

import numpy as np
import pytest
from click.testing import CliRunner
from collalgo.bench import heap
from collalgo.bench.cells import BARRIERS, PLACES, Bench, Cell, able, differing, ops_of
from collalgo.bench.choices import regrets, winners
from collalgo.bench.cli import main
from collalgo.bench.compare import compare
from collalgo.bench.jobs import announcement
from collalgo.bench.limits import Limit, hand_over
from collalgo.bench.measuring import contestants, measure, sent, why
from collalgo.bench.new_sizes import sizes_around
from collalgo.bench.options import split_names
from collalgo.bench.peers.environments import folder_of, peers
from collalgo.bench.peers.worker import as_one, writer
from collalgo.bench.records import (
    AS_ASKED,
    INDEPENDENT,
    Record,
    as_csv,
    as_json,
    of_json,
    record,
)
from collalgo.bench.report import conditions_in_words, rivals, summary, tables
from collalgo.bench.sweep import Sweep
from collalgo.bench.timing import ROW, race, row_of, starting_barrier
from collalgo.bench.tuning import gained, rules_of, text_of
from rich.console import Console

from collalgo import ALGORITHMS, select, threads
from collalgo.algorithms.catalogue import find
from collalgo.base.units import human, sizes_between
from collalgo.cli.main import main as whole
from collalgo.comm.current import runner_of
from collalgo.errors import AlgorithmNotApplicable
from collalgo.selection.rules import Rules

pytestmark = pytest.mark.parallel


def shown(*renderables):
    console = Console(width=250, file=io.StringIO())
    for one in renderables:
        console.print(one)
    return console.file.getvalue()


@pytest.mark.parametrize("size", [1, 2, 3])
def test_every_collective_place_and_op_is_right(size):
    cells = [
        Cell(collective, nbytes, dtype, op, size - 1, place)
        for collective, places in PLACES.items()
        for place in places
        for op in ops_of(collective, "all")
        for dtype in ("float32", "int8", "float16", "bfloat16", "complex64")
        for nbytes in (8, 3000)
        if able(Cell(collective, nbytes, dtype, op))
    ]

    def on_each_rank(comm):
        return [bench.wrong() for bench in (Bench(cell, comm) for cell in cells)]

    for wrong in threads(on_each_rank, size):
        assert not any(wrong)


def test_wrong_elements_are_counted():
    """With data in place of the result, what must come from others is missing."""

    class Broken(Bench):
        def call(self, algorithm=None):
            return lambda: self.source

    def on_each_rank(comm):
        return Broken(Cell("allreduce", 400, op="sum"), comm).wrong()

    assert threads(on_each_rank, 2) == [200, 200]


def test_floats_may_differ_by_rounding_only():
    one = np.float32([1, 2, np.nan, 4])
    near = one * (1 + np.finfo(np.float32).eps)
    assert differing(near, one) == 1  # the nan
    assert differing(np.float32([1, 2.1]), np.float32([1, 2])) == 1
    assert differing(np.int8([1, 2]), np.int8([1, 3])) == 1
    assert differing(np.complex64([1 + 1j]), np.complex64([1 - 1j])) == 1


def test_sizes_count_all_blocks():
    assert Cell("allgather", 100).counts(4) == (6, 24)
    assert Cell("allreduce", 100).counts(4) == (25, 25)
    assert Cell("alltoall", 1, "float64").counts(3) == (1, 3)
    assert Cell("barrier", 100).counts(4) == (0, 0)
    assert Cell("allreduce", 8).busbw_factor(4) == 1.5
    assert Cell("gather", 8).busbw_factor(4) == 0.75
    assert Cell("broadcast", 8).busbw_factor(4) == 1
    assert sizes_between(8, 100, 3) == [8, 24, 72]


def test_a_sweep_names_its_algorithms_predictions_and_bytes():
    sweep = Sweep(("allreduce", "broadcast", "barrier"), (8, 4096), iterations=3)
    found = threads(lambda comm: measure(comm, sweep), 2)
    first, second = ([r[: len(INDEPENDENT)] for r in rows] for rows in found)
    assert first == second
    assert len(found[0]) == 5
    for one in found[0]:
        assert one.wrong == 0
        assert one.minimum <= one.p50 <= one.p95 <= one.p99 <= one.maximum
        assert one.predicted >= 0
        assert one.algorithm in {row.name for row in ALGORITHMS}
    row = find("allreduce", "ring", 4)
    assert sent(row, Cell("allreduce", 1000), 4, 1000) == 1500


def test_all_algorithms_race_in_each_cell():
    sweep = Sweep(("barrier",), (0,), algorithms=("all",), iterations=3, cycles=2)
    found = threads(lambda comm: measure(comm, sweep), 2)[0]
    names = {row.name for row in ALGORITHMS if row.collective == "barrier"}
    assert {one.algorithm for one in found} == names
    assert all(len(one.runs) == 2 for one in found)
    assert "barrier" in shown(winners(found))
    cell = Cell("allgather", 8)
    decide = partial(select, size=3)
    found = contestants(cell, 8, ["ring", "bruck"], decide)
    assert list(found) == [one.algorithm for one in found.values()] == ["ring", "bruck"]
    with pytest.raises(AlgorithmNotApplicable):
        contestants(cell, 8, ["neighbor_exchange"], decide)


def made(seconds, *, contestant="collalgo", cycles=5, nbytes=1000, wrong=0):
    rng = np.random.default_rng(1)
    times = [seconds * (1 + 0.01 * rng.random(20)) for _ in range(cycles)]
    return record(
        Cell("allreduce", nbytes, op="sum"),
        2,
        times,
        contestant=contestant,
        algorithm="ring",
        wrong=wrong,
        reason="as asked",
    )


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


@pytest.mark.parametrize(
    ("factor", "verdict"),
    [(1.0, "same"), (1.03, "same"), (1.3, "slower"), (0.7, "faster")],
)
def test_a_comparison_judges_by_the_cycles(factor, verdict):
    (found,) = compare([made(1e-3)], [made(factor * 1e-3)])
    assert found.verdict == verdict
    assert found.low <= found.ratio <= found.high or factor == 1.0


def test_peers_have_ratios():
    rows = [made(1e-3), made(3e-3, contestant="mpi")]
    text = shown(*tables(rows))
    assert "3.00" in text
    assert "allreduce, 2 ranks, float32, sum, out of place" in text
    words = " ".join(summary(rows))
    assert "time of mpi divided by that of collalgo (above 1, collalgo is" in words
    assert "geometric mean 3.00 of 1 cells, 3.00 to 3.00; collalgo is slower in 0" in (
        words
    )
    assert "wrong elements: 0 OK" in words
    assert "wrong elements: 4 FAILED" in " ".join(summary([made(1, wrong=4)]))
    assert [human(n) for n in (8, 1024, 3 << 20, 1 << 31)] == [
        "8 B",
        "1 KiB",
        "3 MiB",
        "2 GiB",
    ]


def test_what_varies_is_a_column():
    rows = [made(1e-3), made(1e-3)._replace(dtype="int8")]
    text = shown(*tables(rows))
    assert "type" in text
    assert "int8" in text


def bench(*arguments):
    return CliRunner().invoke(main, arguments, catch_exceptions=False)


def test_the_command_measures_writes_and_compares(tmp_path):
    files = [tmp_path / name for name in ("a.json", "a.csv", "a.svg")]
    wanted = zip(("--json", "--csv", "--plot"), files, strict=True)
    names = [str(part) for pair in wanted for part in pair]
    limits = ["-b", "8", "-e", "1K", "-f", "128", "-n", "4", "-N", "2"]
    done = bench("allreduce", "scan", "--ranks", "2", *limits, *names)
    assert done.exit_code == 0
    assert "scan, 2 ranks" in done.output
    assert "wrong elements: 0 OK" in done.output
    assert [row.size for row in of_json(files[0])] == [8, 1024] * 2
    assert files[1].read_text().startswith("contestant,collective,ranks,size")
    assert "<svg" in files[2].read_text()
    same = bench("compare", str(files[0]), str(files[0]))
    assert same.exit_code == 0
    assert "same" in same.output
    picture = tmp_path / "b.svg"
    assert bench("plot", str(files[0]), str(picture), "scan").exit_code == 0
    assert "<svg" in picture.read_text()
    nothing = bench("plot", str(files[0]), str(picture), "alltoall")
    assert "nothing to draw" in nothing.output
    once, twice = (tmp_path / name for name in ("once.json", "twice.json"))
    results = json.loads(files[0].read_text())
    for file, times in ((once, 1), (twice, 2)):
        for row in results["results"]:
            # On a busy machine what was measured may scatter by more than this.
            row["p50"] = times * 1e-6
            row["runs"] = [times * 1e-6] * 2
        file.write_text(json.dumps(results))
    assert bench("compare", str(once), str(twice)).exit_code == 1
    assert bench("compare", str(twice), str(once)).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["allreduce", "-b", "x"], "is not a size; write 8, 4K, 64MB or 1e6"),
        (["allreduse"], "'allreduse' is not one of"),
        (["-d", "float99"], "'float99': choose from"),
        (["-e", "8", "-a", "rings"], "there is no algorithm 'rings'"),
        (["compare", "/dev/null", "/dev/null"], "holds no results"),
        (["broadcast", "-e", "8", "-r", "x"], "'x' is not a rank"),
        (["broadcast", "-e", "8", "-r", "7"], "root 7 is out of range"),
        (["-e", "8", "--load", __file__, "-a", "mine"], "there is no algorithm 'mine'"),
        (["--against", "lam"], "unknown peer 'lam'; choose from openmpi"),
        (["-a", "ring,bine", "--against", "gloo"], "compared with one algorithm"),
        (["--help"], "compare"),
    ],
)
def test_what_the_command_refuses_it_explains(arguments, message):
    assert message in bench(*arguments).output


def test_names_may_have_parameters_with_commas():
    assert split_names("ring,torus_2d(dims=(2, 3), lanes=2),bine") == (
        "ring",
        "torus_2d(dims=(2, 3), lanes=2)",
        "bine",
    )
    assert split_names(None) == ()


def test_a_sweep_says_who_wins():
    done = bench("sweep", "barrier", "--ranks", "2", "-n", "3")
    names = {row.name for row in ALGORITHMS if row.collective == "barrier"}
    result = next(
        line.split() for line in done.output.splitlines() if line.startswith("barrier")
    )
    assert len(names.intersection(result)) >= 2  # the winner and the second
    assert "chosen / best" in done.output
    assert "of the best in" in done.output
    assert "predicted times differ" in done.output


def cell_of(algorithm, runs, reason=AS_ASKED, size=8, collective="barrier"):
    cell = Cell(collective, size)
    seconds = [np.array([time]) for time in runs]
    return record(cell, 4, seconds, algorithm=algorithm, reason=reason)


def test_half_of_the_cycles_say_who_is_best_and_the_others_how_good():
    found = regrets(
        [
            cell_of("lucky", [1.0, 3.0, 1.0, 3.0]),
            cell_of("steady", [2.0, 2.0, 2.0, 2.0], reason="cheapest"),
        ]
    )
    assert list(found.values()) == [2 / 3]
    once = regrets([cell_of("a", [1.0]), cell_of("b", [1.5], reason="cheapest")])
    assert list(once.values()) == [1.5]


def test_rules_keep_what_is_about_as_good():
    rows = [
        cell_of("a", [1.00], "cheapest", 8, "scan"),
        cell_of("b", [0.98], AS_ASKED, 8, "scan"),
        cell_of("a", [3.0], "cheapest", 512, "scan"),
        cell_of("b", [2.0], AS_ASKED, 512, "scan"),
        cell_of("a", [4.0], "cheapest", 2048, "scan"),
        cell_of("b", [4.1], AS_ASKED, 2048, "scan"),
    ]
    table = rules_of(rows)
    assert table == {"scan": [{"ranks": 4, "sizes": {0: "a", 64: "b", 1024: "a"}}]}
    text = text_of(
        {"scan": [{"ranks": 4, "sizes": {0: "linear", 64: "pipelined"}}]}, "x"
    )
    rules = Rules.of_text(text, "x")
    assert [rules.choose("scan", 4, n) for n in (8, 64)] == ["linear", "pipelined"]


def test_tuning_writes_rules_that_are_followed(tmp_path, monkeypatch):
    path = tmp_path / "rules.yaml"
    words = ["tune", str(path), "-R", "2", "-b", "8", "-e", "8", "-n", "3"]
    done = CliRunner().invoke(whole, words)
    assert done.exit_code == 0, done.output
    assert f"COLLALGO_RULES={path}" in "".join(done.output.split("\n"))
    monkeypatch.setenv("COLLALGO_RULES", str(path))
    chosen = select("allreduce", 8, size=2)
    assert chosen.decider == f"the file {path}"
    assert Rules.read(path).choose("allreduce", 2, 8) == chosen.algorithm
    assert select("allreduce", 8, size=3).decider == "price"


@pytest.mark.parametrize("fresh", [True, False])
def test_ranks_write_what_they_send_before_each_call(fresh):
    def written(comm):
        source = np.zeros(3)
        found = []

        def call():
            found.append(source.copy())
            source[:] = 0

        spec = {"collective": "allreduce", "root": 0, "fresh": fresh}
        race(comm, [call, call], 4, 1, writer(spec, comm.rank, source))
        return found

    for found in threads(written, 2):
        warm, timed = found[:2], found[2:]
        assert len(timed) == 8
        assert not np.any(warm)
        assert np.all(np.array(timed) == fresh)


def test_calls_in_a_row_are_timed_together():
    def on_each_rank(comm):
        calls = []
        times = race(comm, [lambda: calls.append(0)], 4, 1, in_a_row=3)
        return len(calls), times.shape

    assert threads(on_each_rank, 2) == [(1 + 4 * 3, (1, 4))] * 2


def test_a_row_is_as_many_calls_and_one_call_is_itself():
    calls = []

    def call():
        calls.append(0)

    assert as_one(call, 1) is call
    as_one(call, 5)()
    assert len(calls) == 5


def test_barriers_are_timed_in_rows_unless_another_number_is_wanted():
    def numbers(**wanted):
        sweep = Sweep(("barrier", "allreduce"), (8,), iterations=2, **wanted)
        return [r.in_a_row for r in threads(lambda comm: measure(comm, sweep), 2)[0]]

    assert numbers() == [BARRIERS, 1]
    assert numbers(in_a_row=3) == [3, 3]


def test_where_ranks_share_cores_rank_0_leaves_the_barrier_first(monkeypatch):
    def on_each_rank(comm):
        starting_barrier(comm)()
        algorithm = runner_of(comm).recorder.records()[-1]["algorithm"]
        return algorithm, starting_barrier(comm) == comm.barrier

    monkeypatch.setattr("collalgo.engine.transport.waiting.cores", lambda: 2)
    assert threads(on_each_rank, 3) == [("linear", False)] * 3
    assert all(default for _, default in threads(on_each_rank, 2))


def test_quick_calls_are_timed_in_rows_and_slow_ones_alone():
    def slow():
        sleep(0.001)

    def on_each_rank(comm):
        return row_of(comm, [slow, lambda: None]), row_of(comm, [slow])

    assert threads(on_each_rank, 2) == [(ROW, 1)] * 2


def test_nothing_is_timed_in_rows_where_the_root_could_run_ahead(monkeypatch):
    monkeypatch.setattr("collalgo.bench.measuring.row_of", lambda comm, calls: 7)
    both = Sweep(("allreduce", "broadcast"), (8,), iterations=2, long_rows=True)
    for records in threads(lambda comm: measure(comm, both), 2):
        assert [record.in_a_row for record in records] == [7, 1]


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
    assert "mpi divided" in of_mpi
    assert "mean 1.50 of 1 cells" in of_mpi
    assert "gloo divided" in of_gloo
    assert "mean 0.50 of 1 cells" in of_gloo


def test_what_is_not_sent_is_not_written():
    source = np.zeros(3)
    spec = {"collective": "broadcast", "root": 1, "fresh": True}
    writer(spec, 0, source)()
    assert not source.any()
    writer(spec, 1, source)()
    assert source.all()
    writer({**spec, "collective": "barrier"}, 0, np.empty(0))()


def test_a_sweep_says_whether_its_ranks_write(monkeypatch):
    ran = []
    monkeypatch.setattr(
        "collalgo.bench.measuring.writer",
        lambda spec, rank, source: lambda: ran.append((spec["fresh"], source.nbytes)),
    )
    sweep = Sweep(sizes=(64,), iterations=3, fresh=False)
    threads(lambda comm: measure(comm, sweep), 1)
    assert ran == [(False, 64)] * 3


def test_limits_are_those_of_all_ranks_at_once(monkeypatch):
    from collalgo.bench import limits

    monkeypatch.setattr(limits, "SIZES", (1 << 15,))
    monkeypatch.setattr(limits, "BUDGET", 0.01)
    for found in threads(lambda comm: (limits.limits(comm), hand_over(comm, 10)), 2):
        kernels, seconds = found
        assert [kernel.kernel for kernel in kernels] == [
            "copy",
            "sum of 2",
            "sum of 4",
            "sum of 8",
            "read",
        ]
        assert all(isinstance(k, Limit) and k.bandwidth > 1e7 for k in kernels)
        assert seconds > 0


def test_the_floor_of_a_cell_is_a_copy_of_what_it_moves(monkeypatch):
    from collalgo.bench import limits

    monkeypatch.setattr(limits, "STEPS", (1 << 12, 1 << 16))
    monkeypatch.setattr(limits, "BUDGET", 0.01)
    monkeypatch.setattr(limits, "cores", lambda: 1)
    floor = threads(limits.Floor, 2)[0]
    meeting = floor.seconds(Cell("barrier", 0))
    assert meeting == floor.seconds(Cell("allreduce", 4, op="sum")) == floor.hand_over
    long = 1 << 30
    twice = floor.seconds(Cell("allreduce", long, op="sum"))
    assert twice > meeting
    assert floor.seconds(Cell("broadcast", long)) == pytest.approx(twice / 2)
    assert floor.seconds(Cell("allgather", long)) == pytest.approx(twice * 3 / 4)


def test_a_floor_is_measured_only_for_the_arrays_of_its_cells(monkeypatch):
    from collalgo.bench import limits

    monkeypatch.setattr(limits, "STEPS", (1 << 12, 1 << 14, 1 << 16))
    monkeypatch.setattr(limits, "BUDGET", 0.01)
    monkeypatch.setattr(limits, "cores", lambda: 1)
    measured = []
    copy = limits._copy
    monkeypatch.setattr(
        limits, "_copy", lambda comm, n, met: measured.append(n) or copy(comm, n, met)
    )

    def steps(*lengths):
        measured.clear()
        cells = [Cell("allreduce", length, op="sum") for length in lengths]
        floor = threads(partial(limits.Floor, cells=cells), 2)[0]
        assert all(floor.seconds(cell) > 0 for cell in cells)
        return sorted(set(measured))

    assert steps(8) == [1 << 12]
    assert steps(8, 5000) == [1 << 12, 1 << 14]
    assert steps(1 << 14) == [1 << 14]
    assert steps(1 << 15, 1 << 20) == [1 << 14, 1 << 16]
    assert threads(partial(limits.Floor, cells=[Cell("barrier", 0)]), 2)


def test_the_floor_of_ranks_with_cores_has_them_read_what_others_write(monkeypatch):
    from collalgo.bench import limits

    monkeypatch.setattr(limits, "STEPS", (1 << 12, 1 << 16))
    monkeypatch.setattr(limits, "_copy", lambda _, n, meeting: Limit("copy", n, 1e12))
    monkeypatch.setattr(limits, "_read", lambda *of: Limit("read", of[3], 4e9))
    monkeypatch.setattr(limits, "cores", lambda: 2)
    floor = threads(limits.Floor, 2)[0]
    assert floor.seconds(Cell("barrier", 0)) == floor.hand_over

    def agrees(collective, taken):
        op, long = ops_of(collective, "sum")[0], 1 << 30
        seconds = floor.seconds(Cell(collective, long, op=op))
        assert seconds == pytest.approx(taken * long * floor.ranks / 2e9), collective

    for each in (("allreduce", 1), ("broadcast", 1), ("allgather", 0.5)):
        agrees(*each)
    floor.ranks = 4  # which share what two read
    for each in (("allreduce", 1.5), ("gather", 0.75), ("scatter", 0.25)):
        agrees(*each)


def test_ranks_map_what_others_write_and_keep_no_descriptor(monkeypatch):
    from collalgo.bench.limits import _mapped

    def run(comm):
        mine, theirs = _mapped(comm, 100_000)
        mine[:] = comm.rank
        comm.barrier()
        assert set(theirs.tolist()) == {(comm.rank + 1) % comm.size}

    def refused(comm):
        assert _mapped(comm, 100_000) is None

    def refuse(path, flags):
        raise PermissionError(path)

    before = len(os.listdir("/proc/self/fd"))
    threads(run, 3)
    monkeypatch.setattr("os.open", refuse)
    threads(refused, 2)
    monkeypatch.undo()
    assert len(os.listdir("/proc/self/fd")) == before


PARTS = (heap.CALL, heap.WHOLE)


def test_a_program_writes_before_a_call_and_reads_after_it():
    done = []
    use = heap.Use(*(partial(done.append, what) for what in ("write", "call", "read")))
    use.whole()
    use.between()
    assert done == ["write", "call", "read", "read", "write"]


def test_the_same_calls_are_timed_on_either_kind_of_arrays():
    def run(comm):
        made, make = [], comm.empty

        def empty(*args):
            made.append(make(*args))
            return made[-1]

        comm.empty = empty
        cells = list(heap.cells((4096,)))
        rows = [heap.compare(cell, comm, turns=1) for cell in cells]
        assert [(row["collective"], row["place"]) for row in rows] == list(heap.CALLS)
        assert all((heap.gains(row[part]) > 0).all() for row in rows for part in PARTS)
        sums = {cell: [] for cell in cells}
        for cell in cells:
            del made[:]
            for use in heap.uses(cell, comm).values():
                use.write()
                found = use.call()
                sums[cell].append(found.tobytes())
            assert any(np.shares_memory(found, array) for array in made)
        return [first == second for first, second in sums.values()]

    for same in threads(run, 2):
        assert all(same)


@pytest.mark.parametrize("option", [("-b", "1M"), ("-e", "1M"), ("-f", "4")])
def test_a_list_of_sizes_beside_borders_is_refused(option):
    found = CliRunner().invoke(main, ["run", "-s", "64", *option])
    assert found.exit_code == 2
    assert f"-s names all sizes; leave out -s, or {option[0]}" in found.output


@pytest.mark.parametrize("floor", [None, 1e-4, 1e-3, 1.1e-3, 1.0])
def test_a_floor_above_the_fastest_call_is_none(floor):
    seconds = [np.array([1e-3, 2e-3])]
    found = record(Cell("allreduce", 1024), 2, seconds, floor=floor)
    assert found.floor == (floor if floor is not None and floor <= 1e-3 else None)


@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
@pytest.mark.parametrize("cores", [1, 2, 4])
@pytest.mark.parametrize("load", [0.0, 0.4, 7.5])
def test_crowded_and_busy_machines_are_named_above_the_tables(ranks, cores, load):
    found = conditions_in_words(
        {"cores": cores, "ranks": ranks, "ranks_here": ranks, "load": load}
    )
    text = "\n".join(found)
    assert (f"{ranks} ranks share {cores} core" in text) == (ranks > cores)
    assert ("the machine was busy before" in text) == (load > 0.5 * cores)


def test_every_time_and_bandwidth_of_a_table_has_its_unit():
    rows = [made(1e-3), made(3e-3, contestant="mpi")]
    for one in (*tables(rows), rivals(rows)):
        names = [str(column.header).split("\n") for column in one.columns]
        for name in names:
            if name[0] in ("time", "p95", "p99", "min", "max", "predicted", "floor"):
                assert name[1:] == ["us"]
            if name[0] in ("algbw", "busbw"):
                assert name[1:] == ["GB/s"]
            if name[0] in ("mpi", "best"):
                assert name[1:] == ["x"]


def test_what_a_race_installs_and_takes_is_said_before(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    todo = Sweep(sizes=(8, 64), cycles=3)
    text = announcement(peers("mpich,gloo"), 2, todo)
    assert f"installs mpich (mpi4py, mpich, numpy) from PyPI into {tmp_path}" in text
    assert "installs gloo (torch, numpy)" in text
    assert "measures 6 cells of collalgo and mpich, mpich-rg, gloo: " in text
    for peer in peers("mpich,gloo"):
        folder_of(peer).mkdir(parents=True, exist_ok=True)
        (folder_of(peer) / "installed").touch()
    assert "installs" not in announcement(peers("mpich,gloo"), 2, todo)


@pytest.mark.parametrize(
    ("options", "words"),
    [({}, None), ({"algorithm": "ring"}, "by the argument")],
)
def test_the_reason_names_a_price_only_where_the_price_decides(options, words):
    chosen = select("allreduce", 1024, size=4, **options)
    assert why(chosen) == (words or chosen.reason)


@pytest.mark.parametrize("by", ["environment", "rules"])
def test_the_reason_names_what_the_environment_decides(by, tmp_path, monkeypatch):
    if by == "environment":
        monkeypatch.setenv("COLLALGO_ALLREDUCE", "ring")
    else:
        file = tmp_path / "rules.yaml"
        rules = {"allreduce": [{"ranks": 4, "sizes": {0: "ring"}}]}
        file.write_text(text_of(rules, "mine"))
        monkeypatch.setenv("COLLALGO_RULES", str(file))
    reason = why(select("allreduce", 1024, size=4))
    assert reason.startswith("by ")
    assert "cheap" not in reason


def test_tuning_says_what_it_gained():
    slow = cell_of("ring", [4.0], "the only one")
    fast = cell_of("bine", [2.0])
    rows = [slow, fast]
    rules = {"barrier": [{"ranks": slow.ranks, "sizes": {0: "bine"}}]}
    assert "another algorithm in 1 of 1 cells, 2.00 times" in gained(rows, rules)
    same = {"barrier": [{"ranks": slow.ranks, "sizes": {0: "ring"}}]}
    assert gained(rows, same) == "the rules keep the selection in all 1 cells"
