"""Jobs whose ranks are killed at random: the weights are those of a job without."""

import os
import random
import re

import pytest

from tests.launch.test_restarting import left_over, run, weights

STEPS, RANKS = 200, 4


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_any_kills_leave_the_weights_as_they_are(seed):
    rng = random.Random(seed)
    memory = set(os.listdir("/dev/shm"))
    deaths = {  # by rank, life and step; a life begins where others are
        (rank, life, rng.randrange(STEPS))
        for rank in range(RANKS)
        for life in range(rng.choice([0, 1, 3]))
    }
    words = ",".join(":".join(map(str, each)) for each in sorted(deaths))
    marker = f"chaos-{os.getpid()}-{seed}"
    done = run(
        f"-n {RANKS} --min 1 --max-restarts 9", str(STEPS), words, "wait", marker
    )
    assert done.returncode == 0, done.stdout + done.stderr
    ends = re.findall(r"(\d) members, process \d+: (\w+)", done.stdout)
    assert ends == [(str(RANKS), weights(STEPS))] * RANKS, done.stderr
    assert set(os.listdir("/dev/shm")) <= memory
    assert not left_over(marker)
