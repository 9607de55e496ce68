"""Build the Cython extensions; everything else is in pyproject.toml."""

from pathlib import Path

import numpy as np
from Cython.Build import cythonize
from setuptools import Extension, setup

KERNELS = Path("collalgo/_kernels")
# Integers wrap around, and the bits do not depend on the instruction set.
FLAGS = ["-O3", "-g0", "-fwrapv", "-ffp-contract=off", "-fno-trapping-math"]
HEADERS = sorted(str(path) for path in KERNELS.glob("*.h"))

extensions = [
    Extension(
        f"collalgo._kernels.{path.stem}",
        [str(path)],
        depends=HEADERS,
        include_dirs=[np.get_include()],
        define_macros=[("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION")],
        extra_compile_args=FLAGS,
    )
    for path in sorted(KERNELS.glob("*.pyx"))
]

setup(ext_modules=cythonize(extensions, build_dir="build"))
