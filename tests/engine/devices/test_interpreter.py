"""The kernel that runs whole plans, on the host: its blocks are threads."""

import ctypes
import os
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from collalgo import ALGORITHMS
from collalgo._kernels.engine.devices import sources
from collalgo.comm.program_cache import ProgramCache
from collalgo.engine.call import Call
from collalgo.engine.devices import interpreted
from collalgo.engine.devices.operations import (
    BUFFERS,
    OUTBOX,
    Combine,
    Place,
    flag_bytes,
)
from collalgo.engine.devices.program import lower
from collalgo.engine.plan.rows import INPUT, OUTPUT, SCRATCH
from collalgo.engine.reduction import reduction
from tests.engine.devices.test_device_programs import ROOTED, programs_of
from tests.engine.test_reduction import assert_same_bits
from tests.support.compiling import (
    ARCHITECTURES,
    KERNELS,
    check_for_devices,
    for_host,
    needs_nvcc,
)
from tests.support.device_calls import WORD, in_place_of, world
from tests.support.leisure import at_leisure
from tests.support.oracle import dtype_of
from tests.support.paths import ROOT

USED = [("int64", "sum"), ("float16", "sum"), ("bool", "max"), ("complex128", "prod")]


def build(folder, used):
    """The interpreter for some dtypes and ops, as a library of the host."""
    return for_host("interpret", [sources.interpreter(*one) for one in used], folder)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return build(tmp_path_factory.mktemp("interpreter"), USED)


def buffers_of(program, size):
    """The memory that a rank needs beside its arrays; flags come last."""
    rest = program.scratch_bytes, program.outbox_bytes, flag_bytes(size)
    return [np.zeros(nbytes + 64, np.uint8) for nbytes in rest]


def run(library, programs, given, outputs, dtype, op, blocks=1, times=1):
    """Run programs of all ranks on arrays, from which the buffers begin."""
    size = len(programs)
    tables = [interpreted.interpreted(p.operations, size) for p in programs]
    arrived = [np.zeros(len(table.rows) + 1, np.uint32) for table in tables]
    own = [buffers_of(program, size) for program in programs]
    addresses = []
    for source, target, rest in zip(given, outputs, own, strict=True):
        addresses += [source, target, *(array.ctypes.data for array in rest)]
    buffers = (ctypes.c_int64 * sources.ROOM)(*addresses)

    def pointers(arrays):
        return (ctypes.c_void_p * size)(*(array.ctypes.data for array in arrays))

    getattr(library, sources.interpreter(dtype, op).name)(
        *(size, blocks, times),
        pointers([table.rows for table in tables]),
        (ctypes.c_int * size)(*(len(table.rows) for table in tables)),
        pointers([table.places for table in tables]),
        buffers,
        pointers(arrived),
    )
    assert not any(flags.any() for *_, flags in own), "flags are not as they were"
    assert not any(counts.any() for counts in arrived)


def placed(rank, given, length, in_place):
    """Arrays for the input and the output, which may be one, and where they begin."""
    if in_place is None:
        return given.copy(), np.full(length + 1, 77, WORD), 0, 0
    target = in_place(rank)
    start = -min(0, target)
    room = np.full(start + max(len(given), target + length) + 1, 77, WORD)
    room[start : start + len(given)] = given
    return room, room, start, start + target


SOME = ("allreduce-ring", "allreduce-halving_doubling", "alltoall-bruck")


def ids(value):
    return value if isinstance(value, int) else f"{value.collective}-{value.name}"


def check_in_one_kernel(library, programs, given, expected, in_place, blocks):
    arrays = [
        placed(r, g, 0 if e is None else len(e), in_place)
        for r, (g, e) in enumerate(zip(given, expected, strict=True))
    ]
    run(
        library,
        programs,
        [source.ctypes.data + 8 * at for source, _, at, _ in arrays],
        [target.ctypes.data + 8 * at for _, target, _, at in arrays],
        "int64", "sum", blocks, 1 if in_place else 3,
    )  # fmt: skip
    for (_, target, _, at), result in zip(arrays, expected, strict=True):
        if result is not None:
            np.testing.assert_array_equal(target[at : at + len(result)], result)


#: Each algorithm in one block or in three, by turns; and those that are sanitized.
BY_TURNS = [
    (row, blocks)
    for number, row in enumerate(ALGORITHMS)
    for blocks in (1, 3)
    if number % 2 == (blocks == 3) or (blocks == 3 and ids(row) in SOME)
]


@pytest.mark.parametrize(
    ("row", "blocks"), at_leisure(product(ALGORITHMS, [1, 3]), BY_TURNS), ids=ids
)
def test_every_algorithm_is_right_in_one_kernel(library, row, blocks):
    rng = np.random.default_rng(20)
    for size in (1, 2, 3, 5, 8):
        if row.obstacle(size) is not None:
            continue
        root = size - 1 if row.collective in ROOTED else 0
        for block in (1, 301) if blocks == 1 else (301,):
            op = "avg" if row.collective == "allreduce" and block > 1 else "sum"
            programs = programs_of(row, size, root, block, op)
            given, expected = world(row.collective, size, root, block, rng)
            right = [x // size if x is not None and op == "avg" else x
                     for x in expected]  # fmt: skip
            for in_place in {None, in_place_of(row.collective, size, block)}:
                check_in_one_kernel(library, programs, given, right, in_place, blocks)


@pytest.mark.parametrize(("dtype", "op"), USED)
@pytest.mark.parametrize("offset", [0, 1])
def test_elements_are_those_of_the_host(library, dtype, op, offset):
    """Vectors and what lies before and after them; and offsets that differ by rank."""
    kind, size, count = dtype_of(dtype), 3, 1001
    call = Call("allreduce", kind, count, op, algorithm="one_shot").plain()
    programs = lower(ProgramCache(0, size, None).plans(call))
    rng = np.random.default_rng(21)
    given = [rng.integers(-3, 4, count + size).astype(kind) for _ in range(size)]
    starts = [offset * rank for rank in range(size)]
    outputs = [np.zeros(count + size, kind) for _ in range(size)]
    run(
        library,
        programs,
        [a.ctypes.data + s * kind.itemsize for a, s in zip(given, starts, strict=True)],
        [a.ctypes.data for a in outputs],
        dtype, op, blocks=2,
    )  # fmt: skip
    parts = [a[s : s + count] for a, s in zip(given, starts, strict=True)]
    expected = reduction(kind, op)(np.empty(count, kind), parts)
    for output in outputs:
        assert_same_bits(output[:count], expected)


def test_blocks_meet_where_one_needs_what_another_does():
    def combine(target, *sources):
        places = [Place(0, *place) for place in (target, *sources)]
        return Combine(places[0], tuple(places[1:]), 8)

    operations = [
        combine((SCRATCH, 0), (INPUT, 0)),
        combine((SCRATCH, 8), (INPUT, 0)),
        combine((OUTBOX, 0), (SCRATCH, 4)),  # reads what both have written
        combine((SCRATCH, 0), (INPUT, 0)),  # writes what that has read
        combine((OUTBOX, 8), (INPUT, 8)),
        combine((OUTPUT, 64), (SCRATCH, 16)),  # may be the input that that has read
        combine((SCRATCH, 32), (OUTBOX, 32)),
    ]
    table = interpreted.interpreted(operations, 1)
    assert table.rows[:, 7].tolist() == [0, 0, 1, 1, 0, 1, 0]


@pytest.mark.skipif("SANITIZE" in os.environ, reason="this is what it runs")
@pytest.mark.skipif(not shutil.which("g++"), reason="there is no g++")
def test_blocks_and_ranks_have_no_races():
    found = subprocess.run(
        ["g++", "-print-file-name=libtsan.so"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    library = found.stdout.strip()
    if not Path(library).is_absolute() or shutil.which("setarch") is None:
        pytest.skip("there is no sanitizer of threads, or no setarch to run it")
    name = test_every_algorithm_is_right_in_one_kernel.__name__
    sanitized = {"SANITIZE": "-g -fsanitize=thread", "LD_PRELOAD": library}
    done = subprocess.run(
        ["setarch", "-R", sys.executable, "-m", "pytest", "-q", "-p",
         "no:cacheprovider", *(f"{__file__}::{name}[{row}-3]" for row in SOME)],
        capture_output=True, text=True, check=False, cwd=ROOT,
        env=os.environ | sanitized | {"TSAN_OPTIONS": "exitcode=66"},
    )  # fmt: skip
    if "unexpected memory mapping" in done.stderr:
        pytest.skip("the sanitizer cannot run in this address space")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(SOME)} passed" in done.stdout


def test_as_many_buffers_as_the_kernel_knows():
    text = (KERNELS / "interpret.cuh").read_text()
    assert f"constexpr int BUFFERS = {sources.ROOM};" in text
    assert f"enum Kind : int64 {{ {', '.join(interpreted.Kind.__members__)} }}" in text
    most = sources.ROOM // len(BUFFERS)
    assert interpreted.fits(most)
    assert not interpreted.fits(most + 1)


SAMPLE = [sources.interpreter(*used) for used in USED]
EVERY = [
    sources.Interpreter(kernel.element, kernel.op)
    for kernel in sources.every_kernel()
    if (kernel.inputs, kernel.width) == (2, 1)
]


@needs_nvcc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("which", at_leisure(["some", "all"], {"some"}))
def test_the_interpreter_compiles_for_devices(architecture, which, tmp_path):
    chosen = SAMPLE if which == "some" else EVERY
    check_for_devices(chosen, architecture, tmp_path, sources.INTERPRETER_SOURCES)
