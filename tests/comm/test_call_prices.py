"""The prices of the calls of a trace, and the likely reasons of slow calls."""

import json
import re
import time

import numpy as np
import pytest
from click.testing import CliRunner

import collalgo
from collalgo.cli.main import main
from collalgo.comm.tracing.call_prices import (
    CallPrices,
    Expectation,
    RankTimes,
    Step,
    reason,
)
from collalgo.comm.tracing.trace_file import read_trace
from collalgo.comm.tracing.view import Trace
from collalgo.selection.on_topology import TopologyPricer
from collalgo.topology.presets import load

PRICE = Expectation(1e-3, None)


def ranks(*begins, ended):
    return [
        RankTimes(rank, begun, ended, f"t.py:{rank}")
        for rank, begun in enumerate(begins)
    ]


FAST, LATE, SLOW = (
    ranks(0.0, 1e-4, 0.0, ended=1e-3),
    ranks(0.0, 4e-2, 0.0, ended=4.1e-2),
    ranks(0.0, 1e-4, 0.0, ended=4e-2),
)
STEPS = [
    Step(0, 0, 0.0, 1e-3, (1,)),
    Step(2, 1, 1e-3, 4e-2, (0,)),
    Step(1, 1, 1e-4, 2e-3, ()),
]


HERE, THERE = (0, 0, 0), (0, 0, 1)
REASONS = [
    (FAST, STEPS, HERE, 8, "$"),
    (LATE, STEPS, HERE, 1, r"41 ms, 41\.0 times its price: rank 1 began it 40 ms"),
    (SLOW, STEPS, HERE, 2, r"40 ms, 40\.0 times its price: 3 ranks share 2 cores$"),
    (SLOW, STEPS, THERE, 2, r".*: step 1 of rank 2 took 39 ms, receiving from rank 0 "
                            r"on another host; likely the link$"),
    (SLOW, STEPS, HERE, 3, r".* receiving from rank 0; likely the host was busy$"),
    (SLOW, STEPS[2:], HERE, 3, r".*: step 1 of rank 1 took .* its core was busy$"),
    (SLOW, [], HERE, 3, r".*: all ranks were in it in time, and its steps are not"),
]  # fmt: skip


@pytest.mark.parametrize(("of", "steps", "hosts", "cores", "found"), REASONS)
def test_a_slow_call_has_a_likely_reason(of, steps, hosts, cores, found):
    why = reason(of, steps, PRICE, hosts, cores)
    assert re.match(found, why), why


def test_what_a_trace_itself_takes_is_not_slow():
    short = Expectation(1e-7, None)
    assert not reason(ranks(0.0, 0.0, ended=2e-5), [], short, (0, 0), 8)
    assert reason(ranks(0.0, 0.0, ended=3e-5), [], short, (0, 0), 8)


def record(collective, algorithm, count=1000, dtype="float32"):
    return {
        "collective": collective,
        "algorithm": algorithm,
        "count": count,
        "dtype": dtype,
    }


def test_prices_and_bounds_are_those_of_select():
    pricer = TopologyPricer(load("dgx_a100"))
    prices = CallPrices(pricer)
    for collective, count, nbytes in (
        ("allreduce", 1000, 4000), ("allgather", 1000, 32000), ("reduce_scatter", 8000,
        32000), ("broadcast", 1000, 4000), ("alltoall", 8000, 32000),
    ):  # fmt: skip
        wanted = collalgo.select(collective, nbytes, topology=pricer)
        found = prices.of(record(collective, wanted.choice.row.name, count))
        assert found.price == pytest.approx(wanted.seconds)
        assert found.bound == wanted.bound_seconds
    for unknown in (
        record("allgatherv", "direct"),
        record("allreduce", "exchange of split"),
        record("allreduce", "my_schedule"),
        record("allreduce", "ring on devices"),
        record("allreduce", "ring", dtype="[('a', '<i8')]"),
    ):
        assert prices.of(unknown) is None


def test_a_trace_has_prices_and_names_the_late_rank(tmp_path):
    path = tmp_path / "t.json"

    def on_each_rank(comm):
        comm.allreduce(np.ones(10))
        with collalgo.trace(path, comm):
            comm.barrier()
            if comm.rank == 1:
                time.sleep(0.05)
            comm.allreduce(np.ones(10))
            comm.allgatherv(np.ones(comm.rank))

    collalgo.threads(on_each_rank, 3, timeout=60)
    calls = [span.about for span in read_trace(path).spans if span.is_call]
    priced = {about["collective"] for about in calls if about.get("price", 0) > 0}
    assert priced == {"barrier", "allreduce"}
    (late,) = (c for c in Trace(path).slow_calls() if c.name.startswith("allreduce"))
    assert "rank 1 began it" in late.why
    result = CliRunner().invoke(main, ["trace", "summary", str(path)])
    assert "took over twice the price" in result.output
    assert "rank 1 began it" in result.output
    assert "Calls over twice their price" in Trace(path).page()


def test_odd_figures_of_a_trace_are_not_shown(tmp_path):
    from collalgo.base.chrome_trace import TRACE

    about = {"collective": "barrier", "algorithm": "x", "sequence": 1, "count": 0}
    for figure in ("x", [], None, True):
        odd = {**about, "price": figure, "bound": figure, "slow": figure}
        event = {"ph": "X", "ts": 1.0, "dur": 2.0, "tid": 0, "name": "x", "args": odd}
        path = tmp_path / "t.json"
        path.write_text(
            json.dumps({"otherData": {"maker": TRACE.mark}, "traceEvents": [event]})
        )
        (row,) = Trace(path).summary()
        assert row.price is row.bound is None
        assert Trace(path).page()
