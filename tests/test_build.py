"""A wheel is the same, bit for bit, wherever and whenever it is built."""

import hashlib
import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.support.paths import ROOT

# Fewer modules, compiled in a quarter of the time.
FAST = {"COLLALGO_BUILD": "first"}


def built(folder: Path, umask: int) -> Path:
    """The wheel that is built in a clone."""
    line = ["git", "clone", "--quiet", "--no-hardlinks", ROOT, folder]
    subprocess.run(line, check=True, umask=umask)
    tools = f"BIN={ROOT / '.venv/bin'}"
    line = ["make", "-o", ".venv/installed", tools, "build"]
    subprocess.run(line, cwd=folder, check=True, umask=umask, env=os.environ | FAST)
    (wheel,) = (folder / "dist").glob("*.whl")
    return wheel


def members(wheel: Path) -> list[tuple[object, ...]]:
    """What a wheel says of each file, and the file's hash."""
    with zipfile.ZipFile(wheel) as archive:
        return [
            (one.filename, one.date_time, oct(one.external_attr >> 16), digest)
            for one in archive.infolist()
            for digest in [hashlib.sha256(archive.read(one)).hexdigest()]
        ]


@pytest.mark.slow
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs a clone")
@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
@pytest.mark.timeout(1800)
def test_wheels_of_two_folders_of_users_with_other_masks_are_the_same(tmp_path):
    first = built(tmp_path / "first", 0o022)
    second = built(tmp_path / "a folder elsewhere", 0o077)
    assert members(first) == members(second)
    assert (first.name, first.read_bytes()) == (second.name, second.read_bytes())
