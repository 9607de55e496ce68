"""Reductions on a CUDA device; test_elements.py tests without one what is computed."""

import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from collalgo.bench import devices

import collalgo
from collalgo._kernels.engine.devices import cuda, sources
from collalgo.engine.devices import nccl
from collalgo.engine.dtypes import DTYPES
from collalgo.engine.reduction import OPS
from tests.engine.devices.test_elements import operands
from tests.engine.test_reduction import assert_same_bits, has, twin
from tests.support.oracle import dtype_of
from tests.support.paths import ROOT

SINGLE = [op for op in OPS if op != "avg"]


@pytest.fixture(scope="module")
def cupy():
    try:
        found = cuda.checked_cupy()
        found.cuda.Device().use()
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"no CUDA device can be used here: {error}")
    return found


def on_device(cupy, arrays, offset):
    """Arrays on the device that begin some elements after a whole vector."""
    found = []
    for array in arrays:
        room = cupy.zeros(array.nbytes + 256, np.uint8)
        begin = -room.data.ptr % 64 + offset * array.itemsize
        room[begin : begin + array.nbytes] = cupy.asarray(array.view(np.uint8))
        found.append((room, begin))
    return found


def address(placed):
    room, begin = placed
    return room.data.ptr + begin


def fetched(placed, like):
    room, begin = placed
    return room[begin : begin + like.nbytes].get().view(like.dtype)


@pytest.mark.gpu
@pytest.mark.parametrize("op", SINGLE)
@pytest.mark.parametrize("name", DTYPES)
def test_the_device_computes_what_the_host_does(cupy, name, op):
    dtype = dtype_of(name)
    if not has(dtype, op):
        pytest.skip(f"{name} has no {op}")
    rng = np.random.default_rng(13)
    reduce = cuda.reducer(cupy.cuda.Device().id, name, op)
    for count in (0, 1, 3, 17, 1000, 100_003):
        for n, offset in ((2, 0), (2, 1), (3, 2), (8, 5), (sources.MOST, 0)):
            arrays = operands(rng, dtype, op, count, n)
            inputs = on_device(cupy, arrays, offset)
            reduce(address(inputs[-1]), [address(i) for i in inputs], count)
            assert_same_bits(fetched(inputs[-1], arrays[0]), twin(arrays, op))


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "int32"])
def test_arrays_that_lie_differently_and_means(cupy, name):
    dtype = dtype_of(name)
    arrays = [np.arange(i, 5000 + i).astype(dtype) for i in range(3)]
    inputs = [on_device(cupy, [a], i)[0] for i, a in enumerate(arrays)]
    reduce = cuda.reducer(cupy.cuda.Device().id, name, "sum")
    reduce(address(inputs[0]), [address(i) for i in inputs], 5000, 4)
    from collalgo.engine.reduction import reduction

    expected = reduction(dtype, "avg")(np.empty_like(arrays[0]), arrays, 4)
    assert_same_bits(fetched(inputs[0], arrays[0]), expected)


def ended(*command, **environment):
    """The output of a script, which has ended well."""
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        capture_output=True, text=True, timeout=280, check=False,
        cwd=ROOT, env=os.environ | environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "through the host" not in done.stderr
    return done.stdout


@pytest.mark.gpu
@pytest.mark.parametrize("one_kernel", ["", "0", "1000000"])
@pytest.mark.parametrize("size", [2, 4, 8])
@pytest.mark.usefixtures("cupy")
def test_processes_on_one_device_by_every_algorithm(size, one_kernel):
    found = ended(
        "-m", "collalgo", "run", "-n", size,
        sys.executable, "-m", "tests.support.script_on_devices",
        COLLALGO_ONE_KERNEL=one_kernel,
    )  # fmt: skip
    assert found.count("right") == size


@pytest.mark.gpu
@pytest.mark.parametrize("one_kernel", ["", "0", "1000000"])
@pytest.mark.parametrize("size", [1, 2, 3, 8])
@pytest.mark.usefixtures("cupy")
def test_threads_on_one_device_by_every_algorithm(size, one_kernel):
    found = ended(
        "-m", "tests.support.script_on_devices", size, COLLALGO_ONE_KERNEL=one_kernel
    )
    assert found.count("right") == size


@pytest.mark.gpu
@pytest.mark.usefixtures("cupy")
def test_torch_works_on_it_with_tensors_of_a_device():
    if not pytest.importorskip("torch").cuda.is_available():
        pytest.skip("this torch cannot use the device")
    found = ended(
        "-m", "collalgo", "run", "-n", "3",
        sys.executable, "-m", "tests.support.script_torch_on_gpu",
    )  # fmt: skip
    assert found.count("right") == 3


@pytest.mark.gpu
def test_arrays_of_others_are_taken(cupy, monkeypatch):
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # others need some
    comm = collalgo.init()
    torch, numba = (pytest.importorskip(name) for name in ("torch", "numba.cuda"))
    tensor = torch.arange(5.0, device="cuda")
    assert comm.allreduce(tensor, "avg") is tensor
    foreign = numba.to_device(np.arange(5.0))
    assert comm.allreduce(foreign) is foreign
    assert foreign.copy_to_host().tolist() == tensor.tolist() == [0, 1, 2, 3, 4]
    jax = pytest.importorskip("jax.numpy")
    fixed, out = jax.arange(5.0), cupy.zeros(5, np.float32)
    with pytest.raises(ValueError, match="allreduce: buf is read-only"):
        comm.allreduce(fixed)
    assert comm.allreduce(fixed, out=out).tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(TypeError, match="allreduce: one of buf and out is on a device"):
        comm.allreduce(cupy.zeros(5), out=np.zeros(5))


@pytest.mark.gpu
def test_nccl_carries_what_a_rank_sends_itself(cupy):
    if nccl.version() is None:
        pytest.skip("this CuPy has no NCCL")
    a, b = cupy.arange(1000), cupy.zeros(1000, int)
    end = nccl.Nccl(nccl.identity(), 0, 1)
    stream = cupy.cuda.get_current_stream()
    end.exchange(stream.ptr, [(a.data.ptr, 8000, 0)], [(b.data.ptr, 8000, 0)])
    assert (a == b).all()
    end.close()


@pytest.mark.parametrize("works", [True, False])
def test_cub_takes_part_in_the_race_where_it_works(monkeypatch, capsys, works):
    """On a fake with the signature of cuda.compute."""

    def binary_transform(*, d_in1, d_in2, d_out, op, num_items):
        if not works:
            raise TypeError("no such dtype")
        assert op == "plus"
        np.add(d_in1[:num_items], d_in2[:num_items], out=d_out)

    fake = SimpleNamespace(
        binary_transform=binary_transform, OpKind=SimpleNamespace(PLUS="plus")
    )
    monkeypatch.setitem(sys.modules, "cuda", SimpleNamespace(compute=fake))
    arrays, result = [np.full(5, i) for i in (1, 2, 3)], np.zeros(5, int)
    found = devices._of_cub(arrays, result)
    assert bool(found) == works
    assert ("left out" in capsys.readouterr().out) != works
    assert not works or (result == 6).all()


def launches_of(monkeypatch):
    """The names of the kernels that a stand-in for CuPy launches from now on."""
    launched = []

    class Cupy:
        class cuda:
            class Device:
                attributes = property(lambda _: {"MultiProcessorCount": 1})

        class RawModule:
            def __init__(self, code, options):
                assert "REDUCE_KERNEL" in code

            def get_function(self, name):
                return lambda *launch: launched.append(name)

    monkeypatch.setattr(cuda, "checked_cupy", lambda: Cupy)
    return launched


@pytest.mark.parametrize("inputs", [0, 1, 2, sources.MOST, sources.MOST + 1])
def test_as_many_arrays_are_taken_as_the_kernels_can(monkeypatch, inputs):
    """One array is what a mean divides at its end."""
    launched = launches_of(monkeypatch)
    reduce = cuda.Reducer("float32", "sum")
    assert len(launched) == len(sources.kernels("float32", "sum"))  # so CUDA loads them
    launched.clear()
    if 1 <= inputs <= sources.MOST:
        reduce(64, [128] * inputs, 1000, 4)
        assert launched == [f"reduce_float32_Sum_{2 * (inputs == 2)}_4"]
    else:
        with pytest.raises(
            ValueError, match=f"{inputs} arrays; 1 to {sources.MOST} can"
        ):
            reduce(64, [128] * inputs, 1000, 4)


class _Runtime:
    def __init__(self, driver, toolkit):
        self.driverGetVersion = lambda: driver
        self.runtimeGetVersion = lambda: toolkit


@pytest.mark.parametrize(
    ("driver", "message"),
    [
        (0, "this machine has no NVIDIA driver"),
        (12080, r"the driver knows CUDA 12\.8, and CuPy was made for 13\.1; .*cuda12x"),
    ],
)
def test_a_driver_that_will_not_do_is_named(monkeypatch, driver, message):
    class Cupy:
        class cuda:
            runtime = _Runtime(driver, 13010)

    monkeypatch.setitem(sys.modules, "cupy", Cupy)
    with pytest.raises(RuntimeError, match=message):
        cuda.checked_cupy.__wrapped__()


def test_without_cupy_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(ImportError, match=r"pip install collalgo\[cuda\]"):
        cuda.checked_cupy.__wrapped__()
