"""The C parts by themselves: under sanitizers, and on another processor."""

import os
import shutil
import subprocess

import pytest

from tests.support.compiling import NATIVE
from tests.support.leisure import at_leisure
from tests.support.paths import ROOT

KERNELS = ROOT / "collalgo" / "_kernels"
INCLUDES = sorted({f"-I{header.parent}" for header in KERNELS.rglob("*.h")})
COMPILER = os.environ.get("CC", "cc")
FLAGS = ["-std=gnu11", "-g", "-Wall", "-Wno-unused-function", "-pthread"]
# Those of Linux lie beside those of glibc; what musl has comes first.
SYSTEM = ["/usr/include", f"/usr/include/{os.uname().machine}-linux-gnu"]
KERNEL_HEADERS = [word for folder in SYSTEM for word in ("-idirafter", folder)]


def build(compiler, flags, name, folder):
    """Build a program; the end of a test that cannot without this compiler or flag."""
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no compiler {compiler!r}")
    program = folder / name
    source = NATIVE / f"{name}.c"
    built = subprocess.run(
        [
            compiler,
            *FLAGS,
            *dict.fromkeys(INCLUDES),
            *flags,
            str(source),
            "-o",
            str(program),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if "cannot find" in built.stderr or "unrecognized" in built.stderr:
        pytest.skip(f"this compiler cannot build with {' '.join(flags)}")
    assert built.returncode == 0, built.stderr
    return program


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=250)
    if "unexpected memory mapping" in done.stderr:
        pytest.skip("the sanitizer cannot run in this address space")
    assert done.returncode == 0, done.stderr
    assert "all right" in done.stdout


@pytest.mark.parametrize("ranks", at_leisure([2, 3], {3}))
@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_the_transport_has_no_races_and_no_bad_accesses(tmp_path, sanitizer, ranks):
    flags = ["-O1", f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all"]
    flags += [f"-DRANKS={ranks}"]
    run([build(COMPILER, flags, "exchange", tmp_path)])


def test_a_call_gives_way_to_its_caller_while_that_computes(tmp_path):
    run([build(COMPILER, ["-O1"], "waiting", tmp_path)])


SANITIZED = "-O1 -fsanitize=address,undefined"


@pytest.mark.parametrize("flags", at_leisure(["-O1", SANITIZED], {SANITIZED}))
def test_what_is_staged_arrives_however_it_is_written(tmp_path, flags):
    run([build(COMPILER, flags.split(), "staged_copy", tmp_path)])


@pytest.mark.parametrize("flags", at_leisure(["-O1", SANITIZED], {SANITIZED}))
def test_what_is_reduced_for_several_is_the_same_for_each(tmp_path, flags):
    run([build(COMPILER, flags.split(), "reduce_forward", tmp_path)])


PROGRAMS = ["exchange", "reduce", "reduce_forward", "staged_copy"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_arm64_gives_the_same_results(tmp_path, name):
    if shutil.which("qemu-aarch64") is None:
        pytest.skip("there is no qemu-aarch64 to run what is built for arm64")
    flags = ["-O3", "-static", "-fwrapv", "-ffp-contract=off"]
    run(["qemu-aarch64", build("aarch64-linux-gnu-gcc", flags, name, tmp_path)])


@pytest.mark.parametrize("name", at_leisure([*PROGRAMS, "waiting"], {"staged_copy"}))
def test_musl_gives_the_same_results(tmp_path, name):
    flags = ["-O2", "-static", "-fwrapv", "-ffp-contract=off"]
    run([build("musl-gcc", [*flags, *KERNEL_HEADERS], name, tmp_path)])
