"""Build the Cython extensions; everything else is in pyproject.toml.

``COLLALGO_BUILD`` may be ``first``, for the modules that the first step of `make demo`
needs, compiled fast without optimisation; or ``none``, where all are compiled in place.
"""

import multiprocessing
import os
import re
import sys
from pathlib import Path

import numpy as np
from Cython.Build import cythonize
from setuptools import Extension, setup

BUILD = os.environ.get("COLLALGO_BUILD")
KERNELS = Path("collalgo/_kernels")
# Plain Python, compiled as it is: the modules on the way of every call.
COMPILED = [
    *Path("collalgo/comm/functions").glob("[!_]*.py"),
    Path("collalgo/comm/background.py"),
    Path("collalgo/comm/current.py"),
    Path("collalgo/comm/point_to_point/calls.py"),
]
# Annotations are for people and type checkers: timeout may be an int. Objects of C are
# not pickled; code for that, and comments with the source, take time to compile.
DIRECTIVES = {
    "annotation_typing": False,
    "auto_pickle": False,
    "emit_code_comments": False,
}
# Integers wrap around, and the bits do not depend on the instruction set.
FLAGS = ["-g0", "-fwrapv", "-ffp-contract=off", "-fno-trapping-math"]
# -O3 unrolls the kernels before it would vectorise them: some take seven times as long,
# and all twice as long to compile. The elimination of partial redundancies (pre) makes
# the minimum and maximum of four floats six times as slow. Most other modules call
# Python.
KERNEL_FLAGS = ["-O2", "-ftree-vectorize", "-fvect-cost-model=dynamic"]
KERNEL_FLAGS += ["-fno-tree-pre"]
# The layers that calls go through: with -O2 a call of one rank takes 2 % longer.
ON_THE_WAY = {"engine", "comm"}
# What Cython adds to each module that has typed memoryviews, compiled once for all.
MEMORYVIEWS = "collalgo._kernels.memoryviews"
HEADERS = {path.name: path for path in sorted(KERNELS.rglob("*.h"))}
FOLDERS = sorted({str(path.parent) for path in HEADERS.values()})
# The modules that calls of processes on one host do not import.
NOT_FOR_FIRST = re.compile(
    r"_kernels\.(cost|elastic|integrations|synthesis|schedule\.replay|comm\.step_log"
    r"|comm\.(carried_call|point_to_point)"
    r"|engine\.transport\.(comparison|composite|device_messages|mpi|network|packets|ucx))"
)
# What the source of a module or a header includes, and the modules that it cimports.
INCLUDED = re.compile(r'(?:extern from|#include)\s+"([^"]+)"')
CIMPORTED = re.compile(r"^(?:from|cimport) (collalgo\.[\w.]+)", re.MULTILINE)


def optimization(path: Path) -> list[str]:
    """The options of the compiler for a module."""
    if BUILD == "first":
        return ["-O0"]
    if "reduction" in path.parts:
        return KERNEL_FLAGS
    if "integrations" in path.parts:
        return ["-O2", "-fexceptions"]  # of C++, which pass through their functions
    return ["-O3"] if ON_THE_WAY.intersection(path.parts) else ["-O2"]


def headers_of(path: Path) -> list[str]:
    """The headers that a module needs, itself or through what it cimports."""
    found, left = set(), [path, path.with_suffix(".pxd")]
    while left:
        file = left.pop()
        if file in found or not file.exists():
            continue
        found.add(file)
        text = file.read_text(encoding="utf-8")
        left += [HEADERS[name] for name in INCLUDED.findall(text) if name in HEADERS]
        if file.suffix != ".h":
            names = CIMPORTED.findall(text)
            left += [Path(name.replace(".", "/") + ".pxd") for name in names]
    return sorted(str(file) for file in found if file.suffix == ".h")


extensions = [
    Extension(
        ".".join(path.with_suffix("").parts),
        [str(path)],
        depends=headers_of(path),
        include_dirs=[np.get_include(), *FOLDERS],
        define_macros=[("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION")],
        extra_compile_args=[*FLAGS, *optimization(path)],
    )
    for path in sorted([*KERNELS.rglob("*.pyx"), *COMPILED])
]
# The kernels take longest to compile, so that they come first.
extensions.sort(key=lambda extension: "reduction" not in extension.name)
# Preloaded into MPI programs; it is no module.
PRELOADED = KERNELS / "integrations" / "mpi_preload.c"
extensions.append(
    Extension(
        ".".join(PRELOADED.with_suffix("").parts),
        [str(PRELOADED)],
        depends=[str(path) for path in PRELOADED.parent.glob("*preload*.h")],
        extra_compile_args=["-g0", "-O2"],
        libraries=["dl", "pthread"],
    )
)
extensions.append(
    Extension(MEMORYVIEWS, [], extra_compile_args=[*FLAGS, *optimization(KERNELS)])
)
if BUILD == "first":
    extensions = [one for one in extensions if not NOT_FOR_FIRST.search(one.name)]
elif BUILD == "none":
    extensions = []

# The source distribution and the metadata need no C code.
if not {"dist_info", "egg_info", "sdist"}.intersection(sys.argv):
    # By CPython 3.14's default each process would run this file again.
    multiprocessing.set_start_method("fork", force=True)
    extensions = cythonize(
        extensions,
        build_dir="build",
        compiler_directives=DIRECTIVES,
        shared_utility_qualified_name=MEMORYVIEWS,
        nthreads=os.cpu_count() or 1,
        quiet=True,
    )

setup(
    ext_modules=extensions,
    options={"build_ext": {"parallel": True}},  # a compiler for each core
)
