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


def test_hosts_are_read_from_a_line_or_a_file(tmp_path):
    hosts = [Host("a", 4), Host("user@b.example", 2), Host("c", 1)]
    assert parse_hosts("a:4,user@b.example:2,c") == hosts
    path = tmp_path / "hosts"
    path.write_text("# mine\na slots=4\nuser@b.example:2 # a comment\n\nc\n")
    assert read_hostfile(path) == hosts


@pytest.mark.parametrize("text", ["a:0", "a:x", "a:-1", "-oProxyCommand=x:1", "a b:1",
                                  "a;b:1", ":4", "", "a:99999"])  # fmt: skip
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
