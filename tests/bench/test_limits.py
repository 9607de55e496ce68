"""The limits of the machine, and the floor of a cell."""

import os
from functools import partial

import pytest
from collalgo.bench.cells import Cell, ops_of
from collalgo.bench.limits import Limit, hand_over

from collalgo import threads


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
