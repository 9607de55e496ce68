"""Build the Cython extensions; everything else is in pyproject.toml."""

import os
from pathlib import Path

import numpy as np
from Cython.Build import cythonize
from setuptools import Extension, setup

KERNELS = Path("collalgo/_kernels")
# Plain Python, compiled as it is: the modules on the way of every call.
COMPILED = [
    *Path("collalgo/comm/functions").glob("[!_]*.py"),
    Path("collalgo/comm/background.py"),
    Path("collalgo/comm/current.py"),
    Path("collalgo/comm/point_to_point/calls.py"),
]
# Annotations are for people and type checkers: timeout may be an int.
DIRECTIVES = {"annotation_typing": False}
# Integers wrap around, and the bits do not depend on the instruction set.
FLAGS = ["-g0", "-fwrapv", "-ffp-contract=off", "-fno-trapping-math"]
# -O3 unrolls the kernels before it would vectorise them: some take seven times as long,
# and all twice as long to compile. The elimination of partial redundancies (pre) makes
# the minimum and maximum of four floats six times as slow. Most other modules call
# Python.
KERNEL_FLAGS = ["-O2", "-ftree-vectorize", "-fvect-cost-model=dynamic"]
KERNEL_FLAGS += ["-fno-tree-pre"]
# What Cython adds to each module that has typed memoryviews, compiled once for all.
MEMORYVIEWS = "collalgo._kernels.memoryviews"
HEADERS = sorted(KERNELS.rglob("*.h"))


def optimization(path: Path) -> list[str]:
    """The options of the compiler for a module."""
    if "reduction" in path.parts:
        return KERNEL_FLAGS
    if "integrations" in path.parts:
        return ["-O2", "-fexceptions"]  # of C++, which pass through their functions
    return ["-O3"] if "engine" in path.parts else ["-O2"]


extensions = [
    Extension(
        ".".join(path.with_suffix("").parts),
        [str(path)],
        depends=[str(header) for header in HEADERS],
        include_dirs=[np.get_include(), *sorted({str(h.parent) for h in HEADERS})],
        define_macros=[("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION")],
        extra_compile_args=[*FLAGS, *optimization(path)],
    )
    for path in sorted([*KERNELS.rglob("*.pyx"), *COMPILED])
]
# The kernels take longest to compile, so that they come first.
extensions.sort(key=lambda extension: "reduction" not in extension.name)
extensions.append(
    Extension(MEMORYVIEWS, [], extra_compile_args=[*FLAGS, *optimization(KERNELS)])
)

setup(
    ext_modules=cythonize(
        extensions,
        build_dir="build",
        compiler_directives=DIRECTIVES,
        shared_utility_qualified_name=MEMORYVIEWS,
        nthreads=os.cpu_count() or 1,
    ),
    options={"build_ext": {"parallel": True}},  # a compiler for each core
)
