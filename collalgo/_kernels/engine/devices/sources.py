"""The kernels of CUDA devices: which there are, and their C++ as one file."""

import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from collalgo.engine.dtypes import DTYPES

#: Threads of a block that reduces, and of one of those that run a whole plan.
THREADS, TEAM_THREADS = 256, 512

#: Bytes that a thread reads and writes at once, where all arrays lie right for it.
VECTOR = 16

#: More arrays than this are not reduced at once.
MOST = 64

#: The most buffers of all ranks that the kernel for whole plans accepts.
ROOM = 480

#: Numbers of arrays for which there is a kernel of its own; 0 is for all others.
NUMBERS = (2, 0)

#: No multiplication is fused with an addition: results are those of the host.
OPTIONS = ("-std=c++17", "--fmad=false")

#: The files of the kernels, each included by the next.
SOURCES = ("elements.cuh", "ops.cuh", "reduce.cuh", "reduce.cu")
INTERPRETER_SOURCES = (*SOURCES[:3], "interpret.cuh", "interpret.cu")

_STRUCTURES = {"sum": "Sum", "prod": "Prod", "min": "Min", "max": "Max", "band": "Band",
               "bor": "Bor", "bxor": "Bxor", "land": "Land", "lor": "Lor",
               "lxor": "Lxor"}  # fmt: skip

#: What the ops are for booleans, as in NumPy.
_OF_BOOL = {"sum": "Lor", "prod": "Land", "min": "Land", "max": "Lor", "band": "Land",
            "bor": "Lor", "bxor": "Lxor", "land": "Land", "lor": "Lor",
            "lxor": "Lxor"}  # fmt: skip


class Kernel(NamedTuple):
    """A kernel for a dtype, an op, a number of arrays, and a vector width."""

    element: str
    op: str
    inputs: int
    width: int

    @property
    def name(self) -> str:
        """What it is called."""
        return f"reduce_{self.element}_{self.op}_{self.inputs}_{self.width}"

    @property
    def definition(self) -> str:
        """A line that defines it."""
        return f"REDUCE_KERNEL({self.name}, {', '.join(map(str, self))})"


class Interpreter(NamedTuple):
    """The kernel that runs whole plans, for a dtype and an op."""

    element: str
    op: str

    @property
    def name(self) -> str:
        """What it is called."""
        return f"interpret_{self.element}_{self.op}"

    @property
    def definition(self) -> str:
        """A line that defines it."""
        return f"INTERPRETER({self.name}, {', '.join(self)})"


@cache
def itemsize(dtype: str) -> int:
    """The bytes of an element of a dtype."""
    bits = re.search(r"\d+", dtype)
    return int(bits[0]) // 8 if bits else 1


def interpreter(dtype: str, op: str) -> Interpreter:
    """The kernel that runs plans for a dtype and an op, except averages.

    Raises
    ------
    TypeError
        If the dtype does not have the op.
    """
    if dtype.startswith("complex"):
        able = op in {"sum", "prod"}
    else:
        able = "float" not in dtype or op not in {"band", "bor", "bxor"}
    if not able:
        raise TypeError(f"op {op!r} is not defined for {dtype}")
    element = "uint8" if dtype == "bool" else dtype
    return Interpreter(element, _OF_BOOL[op] if dtype == "bool" else _STRUCTURES[op])


@cache
def kernels(dtype: str, op: str) -> tuple[Kernel, ...]:
    """The kernels for a dtype and an op, except averages.

    Raises
    ------
    TypeError
        If the dtype does not have the op.
    """
    element, structure = interpreter(dtype, op)
    widths = sorted({VECTOR // itemsize(dtype), 1}, reverse=True)
    return tuple(
        Kernel(element, structure, inputs, width)
        for width in widths
        for inputs in NUMBERS
    )


def every_kernel() -> list[Kernel]:
    """All of them, each once."""
    found: dict[Kernel, None] = {}
    for dtype in DTYPES:
        for op in _STRUCTURES:
            try:
                found.update(dict.fromkeys(kernels(dtype, op)))
            except TypeError:
                continue
    return list(found)


def source(
    kernels: Sequence[Kernel | Interpreter], names: Sequence[str] = SOURCES
) -> str:
    """Some kernels as one file, which includes nothing."""
    folder = files("collalgo._kernels.engine.devices")
    lines = "\n".join(folder.joinpath(name).read_text() for name in names)
    own = [line for line in lines.splitlines() if not line.startswith("#include")]
    return "\n".join([*own, *(kernel.definition for kernel in kernels), ""])


def chosen(dtype: str, op: str, pointers: Sequence[int]) -> Kernel:
    """The kernel for a result and its inputs at some addresses.

    Vectors are taken where all arrays begin at the same place between two of them.

    Raises
    ------
    ValueError
        If an array does not begin at a whole element.
    """
    size = itemsize(dtype)
    if any(pointer % size for pointer in pointers):
        raise ValueError(
            f"reduce: an array of {dtype} does not begin at a multiple of {size} bytes "
            "in memory"
        )
    inputs = len(pointers) - 1
    number = inputs if inputs in NUMBERS else 0
    alike = len({pointer % VECTOR for pointer in pointers}) == 1
    width = VECTOR // size if alike else 1
    return next(k for k in kernels(dtype, op) if k[2:] == (number, width))
