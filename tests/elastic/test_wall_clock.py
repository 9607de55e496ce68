"""Wall clocks that are set by an hour while a job runs have no effect on it."""

import re
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest

from tests.launch.test_restarting import SCRIPT, weights
from tests.support.paths import SCRIPTS
from tests.support.processes import ended

pytestmark = pytest.mark.deadline

RANKS, STEPS, HOUR = 3, 200, 3600

#: In succession the errors of the clocks of the ranks, in hours.
ERRORS = [(1, 0, 0), (1, -1, 0), (-1, -1, 1), (0, 1, -1)]

#: Says the time before the script begins.
TOLD = "import sys, time; print('began', time.time(), flush=True); del sys.argv[0]; "
TOLD += "exec(open(sys.argv[0]).read())"


@pytest.fixture
def clocks(tmp_path, monkeypatch):
    """The errors of the clocks of the ranks in seconds, and the library to preload."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler for a clock that can be set")
    library, source = tmp_path / "wall_clock.so", SCRIPTS / "wall_clock.c"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-Wall", "-Werror", source, "-o", library],
        check=True,
    )
    monkeypatch.setenv("WALL_CLOCK", str(tmp_path / "errors"))
    return np.memmap(tmp_path / "errors", np.int64, "w+", shape=512), library


def test_wall_clocks_that_are_set_do_not_disturb_a_job(clocks):
    errors, library = clocks
    errors[0] = HOUR
    words = [
        *(sys.executable, "-m", "collalgo", "run", "-n", str(RANKS), "--min", "2"),
        *("env", f"LD_PRELOAD={library}", sys.executable, "-c", TOLD),
        *(SCRIPT, str(STEPS), ""),
    ]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with ended([subprocess.Popen(words, **pipes)]) as (job,):
        told = []
        for line in job.stdout:
            told.append(line)
            if len(told) % 100 == 0 and len(told) // 100 <= len(ERRORS):
                errors[:RANKS] = np.array(ERRORS[len(told) // 100 - 1]) * HOUR
        job.wait(60)
    text = "".join(told)
    assert job.returncode == 0, text
    assert text.count(weights(STEPS)) == RANKS, text
    assert set(re.findall(r"with (\d)\n", text)) == {str(RANKS)}, text
    assert "going back to the commit" not in text
    began = dict(re.findall(r"\[(\d)\] began (\d+)", text))
    wrong = {rank: round((int(at) - time.time()) / HOUR) for rank, at in began.items()}
    assert wrong == {"0": 1, "1": 0, "2": 0}
