"""Hosts of a job as users write them, and the ranks on each."""

import tempfile
from contextlib import suppress

import pytest
from hypothesis import given, strategies as st

from collalgo.errors import BootstrapError
from collalgo.launch.hosts import (
    LARGEST,
    MAX_SLOTS,
    Host,
    RankPosition,
    assign_ranks,
    hosts_of,
    parse_hosts,
    read_hostfile,
)
from collalgo.launch.mpi_command import MPICH, Mpiexec, Step, mpi_line
from collalgo.launch.options import LaunchOptions
from collalgo.launch.plan import launch_plan
from collalgo.launch.remote_shell import is_this_host

IS_NO_HOST = r"is not the name of a host|slots; give|is not a setting"


def test_hosts_are_read_from_a_line_or_a_file(tmp_path):
    hosts = [Host("a", 4), Host("user@b.example", 2), Host("c", 1)]
    assert parse_hosts("a:4,user@b.example:2,c") == hosts
    path = tmp_path / "hosts"
    path.write_text("# mine\na slots=4\nuser@b.example:2 # a comment\n\nc\n")
    assert read_hostfile(path) == hosts
    for hosts_given in ("a:4,user@b.example:2,c", ["a:4", "user@b.example:2", "c"],
                  ("a:4", "user@b.example:2,c"), path, str(path)):  # fmt: skip
        assert hosts_of(hosts_given) == hosts


def test_ipv6_addresses_have_brackets(tmp_path):
    text = "[::1]:2,ada@[2001:db8::7],[fe80::1%eth0]:3,a:4"
    hosts = [Host("::1", 2), Host("ada@2001:db8::7", 1), Host("fe80::1%eth0", 3)]
    assert parse_hosts(text) == [*hosts, Host("a", 4)]
    path = tmp_path / "hosts"
    path.write_text("[::1] slots=2\nada@[2001:db8::7]\n[fe80::1%eth0]:3\n")
    assert read_hostfile(path) == hosts
    for wrong in ("::1", "2001:db8::7:4", "ada@::1"):
        with pytest.raises(BootstrapError, match=r"address .* in brackets: \["):
            parse_hosts(wrong)
    assert is_this_host("::1")
    assert not is_this_host("2001:db8::7")
    with pytest.raises(BootstrapError, match="takes no IPv6 addresses, as ::1"):
        mpi_line(Mpiexec("mpiexec", MPICH, 4), Step(2, hosts[:1], LaunchOptions(["x"])))


@pytest.mark.parametrize("text", ["a:0", "a:x", "a:-1", "-oProxyCommand=x:1", "a b:1",
                                  "a;b:1", ":4", "", "a:99999", "a:²", "a:٣", "a:1_0",
                                  "[::1]:0", "[::1", "[a]:2", "[::1]2", "[]", "[::1%]",
                                  "-x@[::1]", "a: 4 4", "a:+4",
                                  "a" * 200_000, f"a:{'9' * 5000}",
                                  "ä:1", "a\0:1"])  # fmt: skip
def test_what_is_no_host_is_refused_in_a_line_and_in_a_file(text, tmp_path):
    with pytest.raises(BootstrapError, match=IS_NO_HOST) as line:
        parse_hosts(text)
    path = tmp_path / "hosts"
    path.write_text(f"good\n{text or '-'}\n")
    with pytest.raises(BootstrapError, match=IS_NO_HOST) as file:
        read_hostfile(path)
    for raised in (line, file):
        assert len(str(raised.value).replace(str(path), "")) < 300


@pytest.mark.parametrize("slots", ["", "²", "x", "-1", "0", "4097", "9" * 5000])
def test_slots_of_a_file_are_numbers(slots, tmp_path):
    path = tmp_path / "hosts"
    path.write_text(f"# hosts\na slots={slots}\n")
    with pytest.raises(BootstrapError, match=r"line 2: host a has .* slots; give"):
        read_hostfile(path)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("a slot=4", "'slot=4' is not a setting"),
        ("a slots=4 user=ada", "'user=ada' is not a setting"),
        ("a slots=2 slots=3", "slots is given twice"),
        ("a:2 slots=3", "slots is given twice"),
        ("a slots=4 max_slots=2", "has 4 slots, but max_slots is 2"),
        ("a slots=4 max-slots=x", "has 4 slots, but max_slots is x"),
    ],
)
def test_a_line_has_known_settings_once(line, words, tmp_path):
    path = tmp_path / "hosts"
    path.write_text(f"b\n{line}\n")
    with pytest.raises(BootstrapError, match=f"hosts, line 2: .*{words}"):
        read_hostfile(path)


def test_a_line_may_have_settings_of_other_launchers(tmp_path):
    path = tmp_path / "hosts"
    path.write_text("a slots=4 max_slots=4\nb:2 max-slots=8 ifname=ib0\n")
    assert read_hostfile(path) == [Host("a", 4), Host("b", 2)]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"a slots=4\n\xff\xfe", "byte 10 is not UTF-8"),
        (bytes(range(128, 256)) * 99, "byte 0 is not UTF-8"),
        (b"\0" * 5000, "is not the name of a host"),
        (b"", "names no host"),
        (b"# none\n\n", "names no host"),
        (b"a\n" * (LARGEST // 2 + 1), f"has more than {LARGEST} bytes"),
    ],
)
def test_a_file_that_is_no_list_of_hosts_is_refused(data, words, tmp_path):
    path = tmp_path / "hosts"
    path.write_bytes(data)
    with pytest.raises(BootstrapError, match=words):
        read_hostfile(path)


def test_a_file_of_hosts_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(BootstrapError, match="it is a folder; name a file"):
        read_hostfile(tmp_path)


@given(st.binary(max_size=200))
def test_whatever_a_file_of_hosts_holds_hosts_or_an_error_come_out(data):
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        with suppress(BootstrapError):
            assert all(
                1 <= host.slots <= MAX_SLOTS for host in read_hostfile(file.name)
            )


def test_ranks_fill_the_slots_host_after_host():
    positions = assign_ranks([Host("a", 3), Host("b", 2), Host("c", 4)], 6)
    ranks = {host.name: [p.rank for p in at] for host, at in positions.items()}
    assert ranks == {
        "a": [0, 1, 2], "b": [3, 4], "c": [5],
    }  # fmt: skip
    assert positions[Host("a", 3)][0] == RankPosition(0, 6, 0, 3, 0, 3)
    assert positions[Host("b", 2)][1] == RankPosition(4, 6, 1, 2, 1, 2)
    assert positions[Host("c", 4)][0] == RankPosition(5, 6, 0, 1, 2, 3)
    assert sum(map(len, assign_ranks([Host("a", 3), Host("b", 2)], None).values())) == 5
    with pytest.raises(BootstrapError, match="6 ranks do not fit into 5 slots"):
        assign_ranks([Host("a", 3), Host("b", 2)], 6)
    with pytest.raises(BootstrapError, match="host a is named twice"):
        assign_ranks([Host("a", 3), Host("a", 2)], None)


def test_more_ranks_than_a_job_can_have_are_refused_at_once():
    with pytest.raises(BootstrapError, match="at most 131072"):
        assign_ranks([Host(f"h{i}", 4096) for i in range(100)], None)
    with pytest.raises(BootstrapError, match="at most 131072"):
        launch_plan(LaunchOptions(["true"], 2_000_000, delegates=True))


@pytest.mark.parametrize("counts", [[1], [3, 1, 2], [1, 2, 3, 4], [5, 5], [2] * 33])
def test_ranks_with_one_local_rank_are_numbered_across_hosts(counts):
    hosts = [Host(f"h{i}", count) for i, count in enumerate(counts)]
    positions = [p for each in assign_ranks(hosts, None).values() for p in each]
    assert [p.rank for p in positions] == list(range(sum(counts)))
    for local in range(max(counts)):
        cross = [p for p in positions if p.local_rank == local]
        assert [p.cross_rank for p in cross] == list(range(len(cross)))
        assert {p.cross_size for p in cross} == {len(cross)}


def test_thousands_of_hosts_are_assigned_in_proportional_time():
    hosts = [Host(f"h{i}", 2) for i in range(30_000)]
    assert len(assign_ranks(hosts, None)) == len(hosts)
