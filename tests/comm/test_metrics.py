"""Counters of calls as OpenMetrics text."""

import re
import subprocess
import sys
import time
from functools import partial

import numpy as np
import pytest

import collalgo
from collalgo.comm.current import runner_of
from collalgo.comm.tracing.lateness import lateness
from tests.support.paths import ROOT

SAMPLE = re.compile(r"(\w+)(?:\{(.*)\})? (\S+)")


def samples(text):
    """The values of a text by name and labels; the format is checked on the way."""
    found, families = {}, {}
    *lines, end, empty = text.split("\n")
    assert (end, empty) == ("# EOF", "")
    for line in lines:
        if line.startswith("# TYPE"):
            _, _, family, kind = line.split()
            assert kind == "counter"
            assert family not in families
            families[family] = line
        elif not line.startswith("#"):
            name, labels, value = SAMPLE.fullmatch(line).groups()
            assert name == f"{[*families][-1]}_total"
            found[name.removeprefix("collalgo_"), labels or ""] = float(value)
        elif line.startswith("# UNIT"):
            assert line.split()[2].endswith(line.split()[3])
    return found


def increase(before, after):
    """What has grown between two texts; nothing has shrunk."""
    old, new = samples(before), samples(after)
    grown = {key: value - old.get(key, 0) for key, value in new.items()}
    assert min(grown.values(), default=0) >= 0
    return {key: value for key, value in grown.items() if value}


RING = 'collective="allreduce",algorithm="ring"'


def counted(comm):
    before = collalgo.metrics()
    for _ in range(5):
        comm.allreduce(np.ones(100, np.float32), algorithm="ring")
    comm.allreduce_async(np.ones(25), algorithm="ring").wait()
    comm.broadcast(np.ones(8), algorithm="binomial")
    comm.barrier()  # so that all ranks have ended what is counted
    comm.barrier()
    return before, collalgo.metrics()


def test_calls_bytes_and_seconds_grow_by_collective_and_algorithm():
    found = increase(*collalgo.threads(counted, 1)[0])
    assert found["calls_total", RING] == 6
    assert found["buffer_bytes_total", RING] == 5 * 400 + 200
    assert 0 < found["call_seconds_total", RING] < 60
    linear = 'collective="broadcast",algorithm="binomial"'
    assert found["buffer_bytes_total", linear] == 64
    assert not [key for key in found if key[0] == "failed_calls_total"]


def many(comm, count):
    before = collalgo.metrics()
    x = np.ones(1)
    for _ in range(count):
        comm.allreduce(x, algorithm="ring")
    return before, collalgo.metrics()


@pytest.mark.parametrize("count", [1, 15, 16, 17, 511, 1025, 5000])
def test_no_call_is_lost_when_records_are_overwritten(count):
    found = increase(*collalgo.threads(lambda comm: many(comm, count), 1)[0])
    assert found["calls_total", RING] == count
    assert found["buffer_bytes_total", RING] == 8 * count
    assert ("unread_calls_total", "") not in found


def closed(comm):
    before = collalgo.metrics()
    with comm.dup() as other:
        other.allreduce(np.ones(3), algorithm="ring")
    return before


def test_calls_of_a_closed_communicator_stay_in_the_counters():
    before = collalgo.threads(closed, 1)[0]
    assert increase(before, collalgo.metrics())["calls_total", RING] == 1


def failing(comm):
    before = collalgo.metrics()

    def refuse(a, b):
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        comm.allreduce(np.ones(1), op=refuse)
    return before, collalgo.metrics()


def test_failed_calls_are_counted_apart():
    found = increase(*collalgo.threads(failing, 2)[0])
    failed = [value for (name, _), value in found.items() if name.startswith("failed")]
    assert sum(failed) >= 1


def late(comm, recorders):
    """Rank 1 begins each call when rank 0 is in it."""
    mine = recorders[comm.rank] = runner_of(comm).recorder
    before = collalgo.metrics(comm)
    for begun in range(mine.count + 1, mine.count + 4):
        if comm.rank == 1:
            while recorders[0].count < begun:
                time.sleep(0.001)
            time.sleep(0.02)
        comm.allreduce(np.ones(1000), algorithm="ring")
    return before, collalgo.metrics(comm)


def test_late_ranks_of_a_communicator_are_counted():
    before, after = collalgo.threads(partial(late, recorders={}), 2)[0]
    found = increase(before, after)
    by_name = {key[0]: [] for key in found}
    for (name, labels), value in found.items():
        by_name[name].append((labels.rpartition(",")[2], value))
    assert dict(by_name["compared_calls_total"]).popitem()[1] == 3
    assert dict(by_name["last_calls_total"])['rank="1"'] == 3
    assert dict(by_name["waited_seconds_total"])['rank="0"'] > 0.05


def test_lateness_of_no_calls_is_nothing():
    assert lateness([[], []]) == (0, (0, 0), (0.0, 0.0))


OFF = """
import collalgo, numpy as np, sys
collalgo.threads(lambda comm: [comm.allreduce(np.ones(1)) for _ in range(20)], 1)
assert "collalgo.comm.tracing.metrics" not in sys.modules
text = collalgo.metrics()
assert text.endswith("# EOF\\n"), text
"""


def test_nothing_is_counted_before_the_first_request():
    subprocess.run([sys.executable, "-c", OFF], cwd=ROOT, check=True, timeout=60)
