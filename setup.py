"""Build the Cython extensions; everything else is in pyproject.toml."""

from pathlib import Path

import numpy as np
from Cython.Build import cythonize
from setuptools import Extension, setup

KERNELS = Path("collalgo/_kernels")
# Plain Python, compiled as it is: what every call passes through.
PASSED = [*Path("collalgo/functions").glob("[!_]*.py"), Path("collalgo/world.py")]
# Integers wrap around, and the bits do not depend on the instruction set.
FLAGS = ["-O3", "-g0", "-fwrapv", "-ffp-contract=off", "-fno-trapping-math"]
HEADERS = sorted(str(path) for path in KERNELS.glob("*.h"))

extensions = [
    Extension(
        ".".join(path.with_suffix("").parts),
        [str(path)],
        depends=HEADERS,
        include_dirs=[np.get_include(), str(KERNELS)],
        define_macros=[("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION")],
        extra_compile_args=FLAGS,
    )
    for path in sorted([*KERNELS.rglob("*.pyx"), *PASSED])
]

setup(ext_modules=cythonize(extensions, build_dir="build"))
