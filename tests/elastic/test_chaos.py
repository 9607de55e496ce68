"""Jobs that are disturbed at random: the weights are those of a job that is not."""

import os
import random
import re

import pytest

from tests.launch.test_restarting import left_over, run, weights
from tests.support.chaos import chaos, failures, finish
from tests.support.clusters import needs_root, skip_without_etcd
from tests.support.shared_memory import left_in_memory, names_in_memory
from tests.support.ucx import skip_without_ucx

pytestmark = pytest.mark.deadline

STEPS, RANKS = 200, 4


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_any_kills_leave_the_weights_as_they_are(seed):
    rng = random.Random(seed)
    memory = names_in_memory()
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
    assert not left_in_memory(memory)
    assert not left_over(marker)


@needs_root
@pytest.mark.parametrize(
    ("seed", "bursts"),
    [(0, [8]), *(pytest.param(n, [10] * 5, marks=pytest.mark.slow) for n in range(20))],
)
def test_any_events_leave_the_weights_as_they_are(seed, bursts, tmp_path):
    """Ranks, agents, stores and the network fail, and hosts come and leave."""
    skip_without_etcd()
    skip_without_ucx()
    memory = names_in_memory()
    with chaos(tmp_path, seed) as events:
        for count in bursts:
            events.happen(count)
            events.settle()
        codes, ends = finish(events.cluster)
        output = events.cluster.output()
        assert codes == [0] * len(codes), output
        assert not failures(output), output
        assert not events.cluster.left_over()
    assert len(ends) == 6
    ((step, bits),) = set(map(tuple, ends))
    assert int(step) >= events.top
    assert bits == weights(int(step))
    assert not left_in_memory(memory)
    print(f"{events.counts}, all back after {max(events.recoveries):.1f} s at most")
