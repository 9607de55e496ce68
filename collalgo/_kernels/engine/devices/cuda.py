"""Reductions on a CUDA device: kernels compiled at first use, and their launch."""

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np

from collalgo._kernels.engine.devices.sources import (
    INTERPRETER_SOURCES,
    MOST,
    OPTIONS,
    ROOM,
    TEAM_THREADS,
    THREADS,
    Kernel,
    chosen,
    interpreter,
    kernels,
    source,
)

#: Most blocks of a reduction. A thread that reads one vector of each array and ends is
#: faster than one that goes on, by up to 6 % on an H100; beyond, it goes on.
MOST_BLOCKS = 1 << 30

#: The most blocks of a plan, and the bytes for each.
TEAM, SHARE = 64, 1 << 14


class Reducer:
    """The reduction of arrays of a dtype by an op, on the current device of CuPy.

    Its kernels are launched once, for nothing: CUDA loads them only then.

    Parameters
    ----------
    dtype
        A name of :data:`~collalgo.engine.dtypes.DTYPES`.
    op
        A name of :data:`~collalgo.engine.reduction.OPS`, but no mean.

    Raises
    ------
    ImportError
        Without CuPy.
    RuntimeError
        If the driver is older than the toolkit of CuPy.
    TypeError
        If the dtype does not have the op.
    """

    def __init__(self, dtype: str, op: str):
        cupy = checked_cupy()
        self._dtype, self._op = dtype, op
        able = kernels(dtype, op)
        module = cupy.RawModule(code=source(able), options=OPTIONS)
        # All once: what is looked up at a launch takes as long as the launch.
        self._functions = {k: module.get_function(k.name) for k in able}
        for kernel in able:
            self._launch(kernel, 0, [], 0, 0)

    def __call__(
        self, result: int, inputs: Sequence[int], count: int, divisor: int = 0
    ) -> None:
        """Reduce on the current stream; the host does not wait.

        Parameters
        ----------
        result
            The address of the result, which may be that of an input.
        inputs
            The addresses of the arrays, in the order in which they are combined.
        count
            Their elements.
        divisor
            What the result is divided by, unless it is 0.

        Raises
        ------
        ValueError
            If there is no input or more than :data:`MOST`, or if an array does not
            begin at a whole element.
        """
        if not 1 <= len(inputs) <= MOST:
            raise ValueError(
                f"reduce: {len(inputs)} arrays; 1 to {MOST} can be reduced"
            )
        kernel = chosen(self._dtype, self._op, [result, *inputs])
        if count:
            self._launch(kernel, result, inputs, count, divisor)

    def _launch(
        self, kernel: Kernel, result: int, inputs: Sequence[int], count: int,
        divisor: int,
    ) -> None:  # fmt: skip
        arrays = np.zeros((), _INPUTS)  # which CuPy passes by value
        arrays["array"][: len(inputs)] = inputs
        numbers = np.int32(len(inputs)), np.int64(count), np.int64(divisor)
        blocks = min(-(-count // (kernel.width * THREADS)), MOST_BLOCKS) or 1
        function = self._functions[kernel]
        function((blocks,), (THREADS,), (np.uint64(result), arrays, *numbers))


class Interpretation:
    """The kernel that runs whole plans, on the current device of CuPy.

    It is launched once, for nothing: CUDA loads it only then.

    Parameters
    ----------
    dtype
        A name of :data:`~collalgo.engine.dtypes.DTYPES`.
    op
        A name of :data:`~collalgo.engine.reduction.OPS`, but no mean.

    Raises
    ------
    ImportError, RuntimeError, TypeError
        As of :class:`Reducer`.
    """

    def __init__(self, dtype: str, op: str):
        kernel = interpreter(dtype, op)
        code = source([kernel], INTERPRETER_SOURCES)
        # Blocks that wait for each other must all be on the device: the driver sees to
        # that, or refuses to launch them.
        module = checked_cupy().RawModule(
            code=code, options=OPTIONS, enable_cooperative_groups=True
        )
        self._function = module.get_function(kernel.name)
        self(0, 0, 0, (), 0, 0, 1)

    def __call__(
        self, rows: int, length: int, places: int, buffers: tuple[int, ...],
        arrived: int, nbytes: int, room: int,
    ) -> None:  # fmt: skip
        """Run a plan on the current stream; the host does not wait.

        Parameters
        ----------
        rows, length, places, arrived
            Of the plan: the addresses of what the kernel reads and counts by.
        buffers
            The addresses of the buffers of all ranks.
        nbytes
            Of the whole buffer of the call, to choose the number of blocks by.
        room
            The most blocks that there may be.
        """
        blocks, arguments = _prepared(
            rows, length, places, buffers, arrived, nbytes, room
        )
        self._function(blocks, (TEAM_THREADS,), arguments)


@lru_cache(maxsize=4096)
def _prepared(
    rows: int, length: int, places: int, buffers: tuple[int, ...], arrived: int,
    nbytes: int, room: int,
) -> tuple[tuple[int], tuple[Any, ...]]:  # fmt: skip
    """The blocks that run a plan, and the plan as a value that CuPy passes."""
    addresses = np.zeros((), _BUFFERS)
    addresses["begin"][: len(buffers)] = buffers
    blocks = min(-(-nbytes // SHARE), TEAM, room) or 1
    plan = np.uint64(rows), np.int32(length), np.uint64(places)
    return (blocks,), (*plan, addresses, np.uint64(arrived))


_INPUTS = np.dtype([("array", np.uint64, MOST)])
_BUFFERS = np.dtype([("begin", np.uint64, ROOM)])


@cache
def reducer(_device: int, dtype: str, op: str) -> Reducer:
    """The reduction on a device, compiled once."""
    return Reducer(dtype, op)


@cache
def interpretation(_device: int, dtype: str, op: str) -> Interpretation:
    """The kernel that runs plans on a device, compiled once."""
    return Interpretation(dtype, op)


@cache
def checked_cupy() -> Any:
    """CuPy, if it can be used here.

    Raises
    ------
    ImportError
        If it is not installed; the message says how to.
    RuntimeError
        If there is no device, or its driver is older than the toolkit of CuPy.
    """
    try:
        import cupy
    except ImportError as error:
        raise ImportError(
            f"arrays on a CUDA device need CuPy ({error}); install it with: "
            "pip install collalgo[cuda]"
        ) from None
    runtime = cupy.cuda.runtime
    driver, toolkit = runtime.driverGetVersion(), runtime.runtimeGetVersion()
    if driver == 0:
        raise RuntimeError("this machine has no NVIDIA driver; install one")
    if driver // 1000 < toolkit // 1000:
        raise RuntimeError(
            f"the driver knows CUDA {_version(driver)}, and CuPy was made for "
            f"{_version(toolkit)}; update the driver, or install the package of CuPy "
            f"for CUDA {driver // 1000}: pip install cupy-cuda{driver // 1000}x"
        )
    return cupy


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"
