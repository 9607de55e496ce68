"""Hosts of a job as users write them, and the ranks on each."""

import pytest

from collalgo.errors import BootstrapError
from collalgo.launch.hosts import (
    Host,
    RankPosition,
    assign_ranks,
    parse_hosts,
    read_hostfile,
)
from collalgo.launch.plan import Launcher, LaunchOptions, launch_plan


def test_hosts_are_read_from_a_line_or_a_file(tmp_path):
    hosts = [Host("a", 4), Host("user@b.example", 2), Host("c", 1)]
    assert parse_hosts("a:4,user@b.example:2,c") == hosts
    path = tmp_path / "hosts"
    path.write_text("# mine\na slots=4\nuser@b.example:2 # a comment\n\nc\n")
    assert read_hostfile(path) == hosts


@pytest.mark.parametrize("text", ["a:0", "a:x", "a:-1", "-oProxyCommand=x:1", "a b:1",
                                  "a;b:1", ":4", "", "a:99999", "a:\u00b2",
                                  "a:\u0664", "a" * 300, "a:" + "9" * 5000, "\0:1",
                                  "\ud800"])  # fmt: skip
def test_what_is_no_host_is_refused(text):
    with pytest.raises(BootstrapError, match=r"is no name of a host|slots; give"):
        parse_hosts(text)


def test_ranks_fill_the_slots_host_after_host():
    positions = assign_ranks([Host("a", 3), Host("b", 2), Host("c", 4)], 6)
    ranks = {host.name: [p.rank for p in at] for host, at in positions.items()}
    assert ranks == {
        "a": [0, 1, 2], "b": [3, 4], "c": [5],
    }  # fmt: skip
    assert positions[Host("a", 3)][0] == RankPosition(0, 0, 3, 0, 3)
    assert positions[Host("b", 2)][1] == RankPosition(4, 1, 2, 1, 2)
    assert positions[Host("c", 4)][0] == RankPosition(5, 0, 1, 2, 3)
    assert sum(map(len, assign_ranks([Host("a", 3), Host("b", 2)], None).values())) == 5
    with pytest.raises(BootstrapError, match="6 ranks do not fit into 5 slots"):
        assign_ranks([Host("a", 3), Host("b", 2)], 6)
    with pytest.raises(BootstrapError, match="host a is named twice"):
        assign_ranks([Host("a", 3), Host("a", 2)], None)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\xff\xfe\0a", "is no text"),
        (b"a\n" + b"b" * 200_000, "line 2: 'b"),
        (b"a slots=\xc2\xb2", "line 1: host a has"),
        (b"\n" * ((1 << 20) + 1), "has at most 1048576 bytes"),
        (b"".join(b"h%d\n" % i for i in range(10_001)), "more than 10000 hosts"),
    ],
)
def test_a_file_that_is_no_list_of_hosts_is_refused_in_a_line(tmp_path, data, message):
    path = tmp_path / "hosts"
    path.write_bytes(data)
    with pytest.raises(BootstrapError, match=message) as caught:
        read_hostfile(path)
    assert len(str(caught.value)) < 400
    with pytest.raises(BootstrapError, match="No such file"):
        read_hostfile(tmp_path / "none")


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 8, 12, 16, 17, 33])
def test_ranks_know_those_of_the_same_number_on_other_hosts(size):
    hosts = [Host(f"h{i}", 1 + (3 * i) % 5) for i in range(size)]
    positions = list(assign_ranks(hosts, None).values())
    for i, ranks in enumerate(positions):
        for local, position in enumerate(ranks):
            counts = [len(other) > local for other in positions]
            assert position.cross_rank == sum(counts[:i])
            assert position.cross_size == sum(counts)


def test_more_ranks_than_a_job_can_have_are_refused_at_once():
    with pytest.raises(BootstrapError, match="at most 131072"):
        assign_ranks([Host(f"h{i}", 4096) for i in range(100)], None)
    for launcher, most in ((Launcher.COLLALGO, 4096), (Launcher.MPI, 131072)):
        with pytest.raises(BootstrapError, match=f"can have at most {most}"):
            launch_plan(LaunchOptions(["true"], 2_000_000, launcher=launcher))
