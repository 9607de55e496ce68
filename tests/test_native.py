"""The C parts under the sanitizers of the compiler, where it has them."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
KERNELS = HERE.parent / "collalgo" / "_kernels"
COMPILER = os.environ.get("CC", "cc")


@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_the_transport_has_no_races_and_no_bad_accesses(tmp_path, sanitizer):
    if shutil.which(COMPILER) is None:
        pytest.skip(f"there is no compiler {COMPILER!r}")
    program = tmp_path / "exchange"
    flags = ["-std=gnu11", "-g", "-O1", "-Wall", "-Wno-unused-function", "-pthread"]
    flags += [f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all", f"-I{KERNELS}"]
    built = subprocess.run(
        [COMPILER, *flags, str(HERE / "native" / "exchange.c"), "-o", str(program)],
        capture_output=True,
        text=True,
        check=False,
    )
    if "cannot find" in built.stderr or "unrecognized" in built.stderr:
        pytest.skip(f"this compiler has no {sanitizer} sanitizer")
    assert built.returncode == 0, built.stderr
    done = subprocess.run([program], capture_output=True, text=True, timeout=250)
    if "unexpected memory mapping" in done.stderr:
        pytest.skip("the sanitizer cannot run in this address space")
    assert done.returncode == 0, done.stderr
    assert "all bytes right" in done.stdout
