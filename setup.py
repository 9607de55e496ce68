"""Build the Cython extensions; everything else is in pyproject.toml."""

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
FLAGS = ["-O3", "-g0", "-fwrapv", "-ffp-contract=off", "-fno-trapping-math"]
HEADERS = sorted(KERNELS.rglob("*.h"))

extensions = [
    Extension(
        ".".join(path.with_suffix("").parts),
        [str(path)],
        depends=[str(header) for header in HEADERS],
        include_dirs=[np.get_include(), *sorted({str(h.parent) for h in HEADERS})],
        define_macros=[("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION")],
        extra_compile_args=FLAGS,
    )
    for path in sorted([*KERNELS.rglob("*.pyx"), *COMPILED])
]

setup(
    ext_modules=cythonize(
        extensions, build_dir="build", compiler_directives=DIRECTIVES
    ),
    options={"build_ext": {"parallel": True}},  # a compiler for each core
)
