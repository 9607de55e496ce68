"""The sources of the kernels of devices, compiled for the host and for devices."""

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from collalgo._kernels.engine.devices import sources
from tests.support.leisure import at_leisure
from tests.support.paths import ROOT

NATIVE = ROOT / "tests" / "engine" / "native"
KERNELS = Path(sources.__file__).parent
FLAGS = ("-std=c++17", "-O0", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas",
         "-ffp-contract=off", "-shared", "-fPIC", "-pthread")  # fmt: skip

NVCC = shutil.which("nvcc")
needs_nvcc = pytest.mark.skipif(NVCC is None, reason="there is no nvcc")

ARCHITECTURES = at_leisure(["sm_80", "sm_90", "sm_100"], {"sm_90"})


def for_host(name, kernels, folder):
    """The library of a source in ``native`` with some kernels, made in a folder."""
    if shutil.which("g++") is None:
        pytest.skip("there is no g++ to compile the kernels of the device for the host")
    lines = dict.fromkeys(kernel.definition for kernel in kernels)
    (folder / "definitions.inc").write_text("\n".join(lines))
    library = folder / f"{name}.so"
    _compile(
        ["g++", *FLAGS, *os.environ.get("SANITIZE", "").split(), f"-I{folder}",
         f"-I{KERNELS}", NATIVE / f"{name}.cpp", "-o", library]
    )  # fmt: skip
    return ctypes.CDLL(str(library))


def check_for_devices(kernels, architecture, folder, names=sources.SOURCES):
    """See that nvcc makes some kernels without a warning."""
    path, cubin = folder / "kernels.cu", folder / "kernels.cubin"
    path.write_text(sources.source(kernels, names))
    options = [f"-arch={architecture}", "-cubin", path, "-o", cubin]
    _compile([NVCC, *sources.OPTIONS, *options])
    symbols = cubin.read_bytes()
    assert all(kernel.name.encode() in symbols for kernel in kernels)


def instructions_of(kernels, folder, *options):
    """The instructions that nvcc makes of some kernels, in its own assembly."""
    path, text = folder / "kernels.cu", folder / "kernels.ptx"
    path.write_text(sources.source(kernels))
    _compile(
        [NVCC, *sources.OPTIONS, *options, "-arch=sm_90", "-ptx", path, "-o", text]
    )
    return text.read_text()


def _compile(command):
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (built.returncode, built.stderr) == (0, "")
