"""The public calls: arrays of all kinds, and bad input refused with a reason."""

import array
import functools
import os
import tracemalloc
from threading import Thread
from time import sleep

import ml_dtypes
import numpy as np
import pytest

import collalgo
from collalgo import AlgorithmNotApplicable, CollalgoError, CommunicatorClosed, threads
from collalgo.algorithms import ring
from collalgo.comm import shared_kinds
from collalgo.comm.current import runner_of
from collalgo.cost.host_profile import host_profile
from collalgo.engine.transport import shm, thread
from collalgo.selection import on_host
from collalgo.selection.pricer import TableCache

pytestmark = pytest.mark.parallel


@pytest.fixture
def alone():
    with collalgo.comm.communicator.Communicator(
        collalgo.bootstrap.threads.ThreadRendezvous().connect("", 0, [0])
    ) as comm:
        yield comm


class FromDLPack:
    """An array of another library, which speaks nothing but DLPack."""

    def __init__(self, wrapped):
        self.wrapped = wrapped

    def __dlpack__(self, **how):
        return self.wrapped.__dlpack__(**how)

    def __dlpack_device__(self):
        return self.wrapped.__dlpack_device__()


class WithoutNumPy:
    """An array whose dtype NumPy does not have, as a bfloat16 tensor of torch."""

    def __dlpack__(self, **how):
        raise RuntimeError("unsupported dtype")

    def __dlpack_device__(self):
        return 1, 0


def test_allreduce_works_in_place_and_returns_its_array():
    def on_each_rank(comm):
        x = np.arange(5.0) + comm.rank
        assert collalgo.allreduce(x, comm) is x
        return x

    for result in threads(on_each_rank, 3):
        np.testing.assert_array_equal(result, 3 * np.arange(5.0) + 3)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[::2],
        lambda x: x[::-1],
        lambda x: x.reshape(4, 5).T,
        lambda x: x.reshape(4, 5)[:, 1:3],
        lambda x: x[3:3],
        lambda x: np.asfortranarray(x.reshape(4, 5)),
        lambda x: x.reshape(()) if x.size == 1 else x[0, ...],
    ],
)
def test_arrays_of_every_layout_are_right(view):
    def on_each_rank(comm):
        x = np.arange(20.0) * (comm.rank + 1)
        part = view(x)
        before = part.copy()
        result = comm.allreduce(part)
        assert result is part
        np.testing.assert_array_equal(part, before / (comm.rank + 1) * 6)
        blocks = comm.allgather(before)
        np.testing.assert_array_equal(blocks[2], before / (comm.rank + 1) * 3)

    threads(on_each_rank, 3)


def test_a_misaligned_array_is_right():
    def on_each_rank(comm):
        raw = np.zeros(33, np.uint8)
        x = raw[1:].view(np.float64)
        x[...] = comm.rank + 1
        assert not x.flags.aligned
        comm.allreduce(x)
        assert (x == 3).all()

    threads(on_each_rank, 2)


def test_an_output_that_is_not_contiguous_is_right():
    def on_each_rank(comm):
        whole = np.zeros((4, 6), np.float32)
        out = whole[:, ::2]
        comm.allreduce(np.ones((4, 3), np.float32), out=out)
        assert (out == 2).all()
        assert (whole[:, 1::2] == 0).all()

    threads(on_each_rank, 2)


@pytest.mark.parametrize(
    "make",
    [
        lambda: bytearray(b"\1\2"),
        lambda: array.array("d", [1, 2]),
        lambda: memoryview(bytearray(b"\1\2")),
        lambda: FromDLPack(np.array([1.0, 2.0])),
    ],
)
def test_arrays_of_other_libraries_are_reduced_in_their_own_memory(make):
    def on_each_rank(comm):
        buf = make()
        assert comm.allreduce(buf) is buf
        return np.asarray(buf.wrapped if isinstance(buf, FromDLPack) else buf).tolist()

    assert threads(on_each_rank, 2) == [[2, 4]] * 2


def test_a_scalar_array_is_an_array():
    assert threads(lambda c: c.allreduce(np.array(2.0)).item(), 3) == [6.0] * 3
    assert threads(lambda c: c.allgather(np.array(c.rank)).tolist(), 2) == [[0, 1]] * 2


@pytest.mark.slow
def test_big_counts_do_not_overflow(alone):
    """More than 2**31 elements, without the memory for more than one copy."""
    big = np.zeros(2**31 + 3, np.int8)
    big[-1] = 5
    out = np.empty_like(big)
    assert alone.allreduce(big, out=out)[-1] == 5


@pytest.mark.parametrize(
    ("buf", "error", "message"),
    [
        ([1, 2], TypeError, "needs an array .* got list; wrap it with numpy.array"),
        (3.0, TypeError, "got float"),
        (None, TypeError, "got NoneType"),
        (WithoutNumPy(), TypeError, r"cannot share the memory .*unsupported dtype"),
        (np.array([None]), TypeError, "dtype object is not .* as broadcast_object"),
        (np.array(["a"]), TypeError, "allreduce: op 'sum' is not defined for U1"),
        (b"bytes", ValueError, "buf is read-only.*pass a writeable array or out="),
        (np.broadcast_to(np.ones(1), 4), ValueError, "buf is read-only"),
    ],
)
def test_what_cannot_be_reduced_is_refused(alone, buf, error, message):
    with pytest.raises(error, match=message):
        alone.allreduce(buf)


def test_a_read_only_array_may_be_read():
    def on_each_rank(comm):
        x = np.ones(3)
        x.flags.writeable = False
        assert (comm.allreduce(x, out=np.empty(3)) == 2).all()
        assert (comm.allgather(x) == 1).all()
        if comm.rank == 0:
            comm.broadcast(x, 0)
        else:
            comm.broadcast(np.zeros(3), 0)

    threads(on_each_rank, 2)


@pytest.mark.parametrize(
    ("out", "error", "message"),
    [
        (np.empty(4), ValueError, r"out has shape \(4,\) but the result has \(3,\)"),
        (np.empty(3, "f4"), TypeError, "out has dtype float32 but buf has float64"),
        ([0, 0, 0], TypeError, "got list"),
        (np.broadcast_to(0.0, 3), ValueError, "out is read-only"),
    ],
)
def test_an_output_that_does_not_fit_is_refused(alone, out, error, message):
    with pytest.raises(error, match=message):
        alone.allreduce(np.ones(3), out=out)


def test_an_output_that_overlaps_is_refused_unless_it_is_the_same(alone):
    x = np.zeros(10)
    with pytest.raises(ValueError, match="out overlaps buf"):
        alone.allreduce(x[:6], out=x[4:])
    with pytest.raises(ValueError, match="out overlaps buf"):
        alone.allreduce(x[::2], out=x[:5])
    alone.allreduce(x[::2], out=x[1::2])
    alone.allreduce(x[:5], out=x[:5])
    alone.reduce_scatter(x, out=x)


def test_who_passes_the_output_as_op_is_told_how_to_pass_it(alone):
    with pytest.raises(
        ValueError,
        match=r"^reduce_scatter: op is of type ndarray; .* pass the target of the",
    ):
        alone.reduce_scatter(np.ones(2), np.ones(2))


def test_unknown_names_list_the_choices(alone):
    for dtype in (np.float32, np.int64):
        for call in (alone.allreduce, alone.reduce, alone.reduce_scatter, alone.scan):
            words = f"^{call.__name__}: unknown op 'plus'; choose one of sum"
            with pytest.raises(ValueError, match=words):
                call(np.ones(1, dtype), "plus")
    with pytest.raises(
        AlgorithmNotApplicable,
        match=r"no algorithm 'rng'; did you mean 'ring'\? There are one_shot",
    ):
        alone.allreduce(np.ones(1), algorithm="rng")
    with pytest.raises(TypeError, match="op 'band' is not defined for float64"):
        alone.allreduce(np.ones(1), "band")


def test_an_algorithm_that_cannot_run_is_never_replaced():
    def on_each_rank(comm):
        x = np.ones(2)
        with pytest.raises(
            AlgorithmNotApplicable,
            match="needs an even number of ranks but there are 3; choose one of direct",
        ):
            comm.allgather(x, algorithm="neighbor_exchange")
        with pytest.raises(AlgorithmNotApplicable, match=r"even.*no algorithm"):
            comm.allgather(x, algorithm=["neighbor_exchange", "bruk"])
        comm.allgather(x, algorithm=["neighbor_exchange", "bruck"])
        comm.allgather(x, algorithm=["neighbor_exchange", "bruck"])

    threads(on_each_rank, 3)


def test_a_wrong_schedule_of_the_user_moves_no_byte():
    def allreduce(group):
        yield from ring.reduce_scatter(group)

    def on_each_rank(comm):
        x = np.full(10, comm.rank)
        with pytest.raises(collalgo.ScheduleError, match="instead of"):
            comm.allreduce(x, algorithm=allreduce)
        assert (x == comm.rank).all()
        comm.allreduce(x)

    threads(on_each_rank, 3)


@pytest.mark.parametrize("root", [-1, 3])
def test_a_root_out_of_range_is_refused(root):
    def on_each_rank(comm):
        with pytest.raises(ValueError, match=f"root {root} is out of range.*3 ranks"):
            comm.broadcast(np.ones(1), root)
        with pytest.raises(ValueError, match="out of range"):
            comm.reduce(np.ones(1), root=root)

    threads(on_each_rank, 3)


def test_counts_must_fit(alone):
    with pytest.raises(ValueError, match=r"counts add up to 2 rows but buf has 3"):
        alone.reduce_scatter(np.ones(3), counts=[2])
    with pytest.raises(ValueError, match=r"must be 1 numbers of rows"):
        alone.reduce_scatter(np.ones(3), counts=[1, 2])
    with pytest.raises(ValueError, match="rank 0 passed 3 rows but counts give it 4"):
        alone.allgatherv(np.ones(3), [4])
    with pytest.raises(ValueError, match="not a 0-d array"):
        alone.reduce_scatter(np.array(1.0))


@pytest.mark.parametrize("timeout", [0, -1, float("nan")])
def test_a_timeout_is_a_positive_number(alone, timeout):
    with pytest.raises(ValueError, match="need seconds above 0"):
        alone.barrier(timeout=timeout)
    with pytest.raises(ValueError, match="need seconds above 0"):
        alone.timeout = timeout


def test_a_closed_communicator_says_so(alone):
    alone.close()
    alone.close()
    with pytest.raises(CommunicatorClosed, match="this communicator is closed"):
        alone.allreduce(np.ones(1))
    with pytest.raises(CommunicatorClosed, match="closed"):
        alone.dup()


def test_a_communicator_of_the_parent_is_refused_in_a_forked_child(alone):
    with collalgo.init() as world:
        reading, writing = os.pipe()
        if not (child := os.fork()):
            try:
                for comm in (alone, world):
                    comm.allreduce(np.ones(1))
            except CommunicatorClosed as error:
                os.write(writing, str(error).encode())
            os._exit(0)
        os.close(writing)
        assert b"made before the process forked" in os.read(reading, 1000)
        os.close(reading)
        os.waitpid(child, 0)
        world.allreduce(np.ones(1))


def test_a_call_from_another_thread_in_the_middle_of_a_call_is_refused():
    def on_each_rank(comm):
        if comm.rank == 0:
            waiting = Thread(target=comm.barrier)
            waiting.start()
            sleep(0.1)
            with pytest.raises(CollalgoError, match="in another call"):
                comm.barrier()
            waiting.join()
        else:
            sleep(0.3)
            comm.barrier()

    threads(on_each_rank, 2)


def test_a_communicator_must_be_one():
    with pytest.raises(TypeError, match="comm is of type str; pass a Communicator"):
        collalgo.allreduce(np.ones(1), "max")


def test_bfloat16_is_reduced():
    def on_each_rank(comm):
        return comm.allreduce(np.ones(100, ml_dtypes.bfloat16)).astype(float).sum()

    assert threads(on_each_rank, 3) == [300] * 3


def test_groups_have_ranks_of_their_own():
    def on_each_rank(comm):
        part = comm.split(comm.rank % 2, key=-comm.rank)
        again = part.dup()
        total = again.allreduce(np.array([comm.rank]))[0]
        assert comm.split(None) is None if comm.rank == 0 else comm.split(1)
        return part.rank, part.size, total

    assert threads(on_each_rank, 5) == [
        (2, 3, 6),
        (1, 2, 4),
        (1, 3, 6),
        (0, 2, 4),
        (0, 3, 6),
    ]


def test_a_group_is_for_its_members():
    def on_each_rank(comm):
        if comm.rank == 2:
            with pytest.raises(
                ValueError, match=r"rank 2 is not in the group \[1, 0\]"
            ):
                comm.group([1, 0])
            return None
        return comm.group([1, 0]).rank

    assert threads(on_each_rank, 3) == [1, 0, None]
    with pytest.raises(ValueError, match=r"\[0, 0\] name rank 0 twice"):
        threads(lambda comm: comm.group([0, 0]), 1)
    with pytest.raises(ValueError, match=r"rank 1 is out of range.*1 ranks"):
        threads(lambda comm: comm.group([1]), 1)


def test_calls_of_one_kind_share_a_program():
    def on_each_rank(comm):
        recorder = runner_of(comm).recorder
        for count in range(600):
            comm.allreduce(np.ones(count), algorithm="ring")
        used = {id(recorder.program(i + 1)) for i in range(600)}
        assert len(runner_of(comm).programs._kinds) == len(used) == 1
        assert [r["count"] for r in recorder.records()] == list(range(600))

    threads(on_each_rank, 2)


def test_a_schedule_with_parameters_has_the_same_name_on_every_rank():
    def on_each_rank(comm):
        def grid(group, rows, cols):  # another function on each rank
            row, column = group.grid(rows, cols)
            yield from ring.reduce_scatter(row)
            yield from ring.allreduce(column)
            yield from ring.allgather(row)

        schedule = functools.partial(grid, rows=2, cols=2)
        return comm.allreduce(np.ones(8), algorithm=schedule).tolist()

    assert threads(on_each_rank, 4) == [[4] * 8] * 4


def test_a_world_has_a_limit():
    with pytest.raises(ValueError, match="one host can hold 1 to 4096"):
        shm.create(5000)


def test_the_world_of_a_rank_is_the_one_it_was_started_in():
    def on_each_rank(comm):
        assert collalgo.init() is comm
        return collalgo.allreduce(np.array([1])).item()

    assert threads(on_each_rank, 3) == [3, 3, 3]
    assert collalgo.init().size == 1


@pytest.mark.parametrize("offset", [0, 1, 8, 16, 31, 32, 63])
def test_copies_are_right_wherever_an_array_lies_in_its_page(offset):
    def on_each_rank(comm):
        for count in (2047, 2048, 2049, 2304, 70_000):
            page = np.zeros(count + 8192, np.uint8)
            start = -page.ctypes.data % 4096 + offset
            x = page[start : start + count]
            x[:] = np.arange(count) % 251 if comm.rank == 0 else 7
            comm.broadcast(x)
            assert (x == np.arange(count) % 251).all()
            assert page[:start].sum() == page[start + count :].sum() == 0

    threads(on_each_rank, 2)


def test_a_call_that_repeats_itself_keeps_no_memory(alone):
    x, out = np.ones(8), np.ones(8)
    calls = (
        lambda: alone.allreduce(x),
        lambda: alone.allreduce(x, out=out),
        lambda: alone.broadcast(x),
        alone.barrier,
    )
    for _ in range(1024):  # which the flight recorder keeps
        alone.barrier()
    for call in calls:
        call()
        tracemalloc.start()
        try:
            for _ in range(1000):
                call()
            now, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert now < 200
        assert peak < 1000


def test_a_list_of_algorithms_that_has_changed_is_read_again():
    def on_each_rank(comm):
        names = ["ring"]
        comm.allreduce(np.ones(3), algorithm=names)
        names[0] = "rong"
        with pytest.raises(AlgorithmNotApplicable, match="no algorithm 'rong'"):
            comm.allreduce(np.ones(3), algorithm=names)

    threads(on_each_rank, 2)


@pytest.mark.parametrize("asked", ["rong", ["rong"]])
def test_an_error_in_a_call_has_nothing_to_do_with_what_was_looked_up(asked):
    def on_each_rank(comm):
        with pytest.raises(AlgorithmNotApplicable, match="no algorithm 'rong'") as told:
            comm.allreduce(np.ones(3), algorithm=asked)
        assert told.value.__context__ is None

    threads(on_each_rank, 2)


def test_calls_of_other_arguments_are_never_mistaken_for_the_last():
    def on_each_rank(comm):
        for _ in range(3):
            for count, dtype in ((2, np.float32), (3, np.float32), (2, np.int16)):
                for op in ("sum", "max"):
                    x = np.full(count, comm.rank + 1, dtype)
                    expected = 3 if op == "sum" else 2
                    assert comm.allreduce(x, op).tolist() == [expected] * count
            for root in (0, 1):
                assert comm.broadcast(np.array([comm.rank]), root)[0] == root
            for algorithm in ("ring", "one_shot", None):
                assert comm.allreduce(np.ones(1), algorithm=algorithm)[0] == 2
            for counts in ([4, 0], [1, 3], None):
                block = comm.reduce_scatter(np.ones(4), counts=counts)
                assert block.tolist() == [2] * (counts or [2, 2])[comm.rank]
            equal = [2, 2] if comm.rank else None  # the same, said and unsaid
            assert comm.reduce_scatter(np.ones(4), counts=equal).size == 2

    threads(on_each_rank, 2)


def test_what_no_message_brings_is_copied_while_waiting():
    out = np.zeros((2, 100_000))

    def on_each_rank(comm):
        mine = np.full(out.shape[1], comm.rank + 1.0)
        if comm.rank == 0:
            comm.allgather(mine, out=out)
            return
        for _ in range(1000):  # rank 0 waits for me, with its own block to copy
            if out[0, 0]:
                break
            sleep(0.01)
        assert out[0, 0] == 1
        comm.allgather(mine)

    threads(on_each_rank, 2)
    assert (out == [[1], [2]]).all()


@pytest.mark.parametrize("size", [1, 2, 3, 8, 33])
def test_threads_make_the_memory_of_a_world_and_its_choices_once(size, monkeypatch):
    host_profile()  # which makes worlds of its own if it is not measured yet
    made = []
    for module, name in ((thread, "memory"), (on_host.HostPricer, "_choices")):
        original = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda *args, f=original: made.append(f) or f(*args)
        )
    monkeypatch.setattr(on_host, "_COMPUTED", TableCache())
    shared_kinds.forget()
    collalgo.threads(lambda comm: comm.allreduce(np.ones(3)), size)
    assert len(made) == 2
