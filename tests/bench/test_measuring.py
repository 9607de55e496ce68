"""A sweep times the calls that it names."""

from functools import partial
from time import sleep

import numpy as np
import pytest
from collalgo.bench.cells import BARRIERS, Cell
from collalgo.bench.choices import winners
from collalgo.bench.measuring import contestants, measure, sent, why
from collalgo.bench.peers.worker import as_one, writer
from collalgo.bench.records import INDEPENDENT
from collalgo.bench.sweep import Sweep
from collalgo.bench.timing import ROW, race, row_of, starting_barrier
from collalgo.bench.tuning import text_of

from collalgo import ALGORITHMS, select, threads
from collalgo.algorithms.catalogue import candidates, find
from collalgo.comm.current import runner_of
from collalgo.errors import AlgorithmNotApplicable
from tests.support.bench_results import shown


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


def test_trials_leave_what_is_fast_and_what_is_kept(monkeypatch):
    counts = []

    def race_of(_comm, calls, iterations, **_):
        counts.append((len(calls), iterations))
        times = 1e-3 * (1 + 0.125 * np.arange(len(calls)))
        return np.repeat(times[:, None], iterations, axis=1)

    monkeypatch.setattr("collalgo.bench.measuring.race", race_of)
    names = [row.name for row in candidates("allreduce") if row.obstacle(1) is None][:7]
    more = {"iterations": 30, "cycles": 2, "trials": 3, "check": False}
    sweep = Sweep(("allreduce",), (8,), algorithms=tuple(names), **more)

    def on_each_rank(comm):
        name = comm.select("allreduce", 8).algorithm
        return names.index(name) if name in names else None, measure(comm, sweep)

    selected, records = threads(on_each_rank, 1)[0]
    kept = [number for number, record in enumerate(records) if len(record.runs) == 2]
    # A call may take one and a half times as long as the fastest.
    assert kept == sorted({0, 1, 2, 3, 4, *({selected} - {None})})
    assert counts == [(7, 3), (len(kept), 30), (len(kept), 30)]
    assert all(record.iterations == 60 for record in records if len(record.runs) == 2)
