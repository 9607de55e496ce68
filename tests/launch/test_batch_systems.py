"""Batch systems name the hosts of a job and its ranks."""

import pytest
from hypothesis import given, strategies as st

from collalgo.errors import BootstrapError
from collalgo.launch.allocation import allocation, node_names, task_counts
from collalgo.launch.delegated_rank import position_of
from collalgo.launch.environment import of_rank
from collalgo.launch.hosts import Host, RankPosition, positions_by_host

HOSTS = (Host("a", 2), Host("b", 1))


def test_each_batch_system_names_its_hosts(tmp_path):
    lines, slots = tmp_path / "lines", tmp_path / "slots"
    lines.write_text("a\na\nb\n")
    slots.write_text("a 2 all.q@a UNDEFINED\nb 1 all.q@b UNDEFINED\n")
    for env, system in (
        ({"PBS_NODEFILE": str(lines)}, "PBS"),
        ({"LSB_DJOB_HOSTFILE": str(lines)}, "LSF"),
        ({"LSB_HOSTS": "a a b"}, "LSF"),
        ({"LSB_MCPU_HOSTS": "a 2 b 1"}, "LSF"),
        ({"PE_HOSTFILE": str(slots)}, "Grid Engine"),
        ({"SLURM_JOB_NODELIST": "a,b", "SLURM_TASKS_PER_NODE": "2,1"}, "Slurm"),
    ):
        found = allocation(env)
        assert (found.system, tuple(found.hosts)) == (system, HOSTS)
    assert allocation({}) is None


def test_lists_of_slurm_are_expanded():
    assert node_names("a[1-3,07],b,c[09-11]x", "N") == [
        "a1", "a2", "a3", "a07", "b", "c09x", "c10x", "c11x",
    ]  # fmt: skip
    assert task_counts("4(x2),1", "T") == [4, 4, 1]


@pytest.mark.parametrize(
    "text", ["a[1-", "a[]", "a[1-999999999]", "[", "a[-1]", "a]", "a[1][2]"]
)
def test_lists_of_slurm_that_are_none_are_refused(text):
    with pytest.raises(BootstrapError, match=r"not a list of nodes|more than 131072"):
        node_names(text, "N")


@pytest.mark.parametrize(
    ("variable", "env"),
    [
        (
            "SLURM_TASKS_PER_NODE",
            {"SLURM_JOB_NODELIST": "a", "SLURM_TASKS_PER_NODE": "x"},
        ),
        ("LSB_DJOB_HOSTFILE", {"LSB_DJOB_HOSTFILE": "/nowhere"}),
        ("PE_HOSTFILE", {"PE_HOSTFILE": "/nowhere"}),
    ],
)
def test_an_error_names_the_variable(variable, env):
    with pytest.raises(BootstrapError, match=f"^{variable}"):
        allocation(env)


@given(st.text("a0[]-,()x", max_size=30))
def test_whatever_a_batch_system_says_is_short_or_refused(text):
    for read in (lambda: node_names(text, "N"), lambda: task_counts(text, "T")):
        try:
            assert len(read()) <= 1 << 17
        except BootstrapError as error:
            assert len(str(error)) < 200


LAUNCHERS = {
    "Open MPI": lambda p, counts, node: {
        "OMPI_COMM_WORLD_RANK": p.rank, "OMPI_COMM_WORLD_SIZE": p.size,
        "OMPI_COMM_WORLD_LOCAL_RANK": p.local_rank,
        "OMPI_COMM_WORLD_LOCAL_SIZE": p.local_size,
    },
    "MPICH": lambda p, counts, node: {
        "PMI_RANK": p.rank, "PMI_SIZE": p.size,
        "MPI_LOCALRANKID": p.local_rank, "MPI_LOCALNRANKS": p.local_size,
    },
    "jsrun": lambda p, counts, node: {
        "JSM_NAMESPACE_RANK": p.rank, "JSM_NAMESPACE_SIZE": p.size,
        "JSM_NAMESPACE_LOCAL_RANK": p.local_rank,
        "JSM_NAMESPACE_LOCAL_SIZE": p.local_size,
    },
    "srun": lambda p, counts, node: {
        "SLURM_PROCID": p.rank, "SLURM_LOCALID": p.local_rank, "SLURM_NODEID": node,
        "SLURM_STEP_TASKS_PER_NODE": ",".join(map(str, counts)),
    },
}  # fmt: skip


@pytest.mark.parametrize("name", ["Open MPI", "MPICH", "jsrun"])
@pytest.mark.parametrize("change", [(0, 3), (0, -1), (1, 0), (2, 2), (2, -1), (3, 4)])
def test_numbers_of_a_launcher_that_contradict_each_other_are_refused(name, change):
    right = LAUNCHERS[name](RankPosition(1, 3, 1, 2, 0, 1), [2, 1], 0)
    place, value = change
    wrong = right | {list(right)[place]: value}
    env = {key: str(each) for key, each in wrong.items()}
    with pytest.raises(BootstrapError, match=r"contradict each .*need 0 <= rank"):
        position_of(env)


@pytest.mark.parametrize(
    "counts", [[1], [5], [3, 1, 2], [1, 2, 3, 4], [8, 8], [1] * 17]
)
@pytest.mark.parametrize("launcher", list(LAUNCHERS))
def test_all_launchers_lead_to_the_same_variables(launcher, counts):
    nodes = [node for node, count in enumerate(counts) for _ in range(count)]
    for position, node in zip(positions_by_host(counts), nodes, strict=True):
        given = LAUNCHERS[launcher](position, counts, node)
        env = {name: str(value) for name, value in given.items()}
        assert position_of(env, counts) == position


def test_ranks_that_are_placed_otherwise_have_no_cross_rank():
    placed = RankPosition(
        1, 4, 0, 2, None, None
    )  # by node: the first one of the second
    env = LAUNCHERS["MPICH"](placed, [2, 2], 1)
    found = position_of({name: str(value) for name, value in env.items()}, [2, 2])
    assert found == placed
    assert not {"CROSS_RANK", "CROSS_SIZE"} & of_rank(found).keys()


def test_the_variables_have_both_names_on_request():
    found = of_rank(RankPosition(5, 8, 1, 4, 1, 2), "horovod")
    for name, value in (("RANK", "5"), ("LOCAL_SIZE", "4"), ("CROSS_SIZE", "2")):
        assert found[name] == found[f"HOROVOD_{name}"] == value
    assert found["WORLD_SIZE"] == found["HOROVOD_SIZE"] == "8"
    assert found["LOCAL_WORLD_SIZE"] == "4"
