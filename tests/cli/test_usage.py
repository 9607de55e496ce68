"""Command lines that contradict themselves or cannot be are refused with a reason."""

import errno
import io
import os
import re
import sys

import pytest
from click.testing import CliRunner

from collalgo.cli import doctor, select as choices
from collalgo.cli.main import main
from collalgo.cli.standard_output import refusing_output


@pytest.fixture
def machine(tmp_path):
    """A file that describes a machine."""
    path = str(tmp_path / "machine.yaml")
    assert (
        CliRunner().invoke(main, ["topo", "convert", "dgx1v", "-o", path]).exit_code
        == 0
    )
    return path


def refused(*words):
    """What a command says that it refuses."""
    found = CliRunner().invoke(main, words)
    assert found.exit_code == 2, found.output
    return " ".join(found.output.replace("\u2502", " ").split())


SELECT = ("select", "allreduce")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((*SELECT, "-n", "4", "--hosts", "3"), "hosts=3: parameters need --topology"),
        ((*SELECT, "1M", "-n", "4", "zzz=1"), "zzz=1: parameters need --topology"),
        ((*SELECT, "1M", "--size", "2M", "-n", "4"), "two sizes: 1M and --size 2M"),
        ((*SELECT, "-n", "4", "--topology", "dgx1v"), "give either -n"),
        (SELECT, "give either -n"),
        (
            (*SELECT, "--topology", "dgx1v", "1M", "hosts=2", "--hosts", "4"),
            "hosts is given twice: 2 and 4",
        ),
        (("bound", "allreduce", "dgx1v", "64", "MiB"), "'64' is not a parameter; "),
        (("simulate", "allreduce", "ring", "dgx1v", "MiB"), "sizes as --size 64M"),
        ((*SELECT, "64", "XiB", "--topology", "dgx1v"), "'XiB' must be of the form"),
        (("bound", "allreduce", "dgx1v", "--only", "foo"), "nvlink"),
        (("algorithms", "-n", "99999999"), "not in the range 1<=x<=1024"),
        (("algorithms", "show", "ring", "-n", "99999999"), "range 1<=x<=256"),
        (("algorithms", "export", "ring", "-n", "99999999"), "range 1<=x<=32768"),
        (("doctor", "-n", "99999999"), "not in the range 1<=x<=4096"),
        (("bench", "-R", "99999999"), "not in the range 1<=x<=4096"),
        (("tune", "-R", "99999999", "x.yaml"), "not in the range 2<=x<=4096"),
        (("verify", "ring", "-n", "100000000"), "not in the range 1<=x<=32768"),
        ((*SELECT, "-n", "99999999"), "not in the range 1<=x<=1024"),
        (("run", "-n", "2000000", "true"), "are more than the 4096 that one host"),
        (("run", "--log-dir", "", "true"), "the name is empty; name a folder"),
        (("run", "/"), "'/' is a folder; name a script or a program"),
        (("run", "/etc/passwd"), "is not an executable file; make it one (chmod +x)"),
        ((*SELECT, "-n", "2", "--size", "1K.."), "'1K..': "),
        (("run", "no_such_script.py"), "there is no file 'no_such_script.py'"),
    ],
)
def test_what_contradicts_itself_is_refused(words, reason):
    assert reason in refused(*words)


#: The commands on a machine, with a place for it and its parameters.
ON_MACHINE = {
    "bound": ("bound", "allreduce", "--size", "1M"),
    "simulate": ("simulate", "allreduce", "ring", "--size", "1M"),
    "select": (*SELECT, "1M", "--topology"),
    "select WHAT": (*SELECT, "1M"),
    "topo show": ("topo", "show"),
    "topo convert": ("topo", "convert"),
}


@pytest.mark.parametrize("command", ON_MACHINE)
@pytest.mark.parametrize(
    "given", [("--topology", "dgx1v", "--hosts", "2"), ("dgx1v", "--hosts", "2")]
)
def test_a_topology_is_given_as_a_word_or_by_options(command, given):
    words = [word for word in ON_MACHINE[command] if word != "--topology"]
    named = CliRunner().invoke(main, [*words, "--topology", "dgx1v", "hosts=2"])
    found = CliRunner().invoke(main, [*words, *given])
    assert found.exit_code == named.exit_code == 0, found.output + named.output
    assert found.output == named.output


@pytest.mark.parametrize("command", ON_MACHINE)
def test_two_topologies_and_none_are_refused(command):
    words = [word for word in ON_MACHINE[command] if word != "--topology"]
    assert "--topology" in refused(*words)
    said = refused(*words, "dgx2", "--topology", "dgx1v")
    assert "'dgx2' must be of the form name=value: the topology is that of" in said


@pytest.mark.parametrize("command", ON_MACHINE)
def test_hosts_of_a_file_are_those_of_the_same_machine_by_name(command, machine):
    words = ON_MACHINE[command]
    joined = CliRunner().invoke(main, [*words, machine, "hosts=2", "nics=2"])
    by_name = CliRunner().invoke(main, [*words, "dgx1v", "hosts=2", "nics=2"])
    assert joined.exit_code == by_name.exit_code == 0, joined.output
    assert joined.output == by_name.output


@pytest.mark.parametrize("command", ON_MACHINE)
def test_a_network_cannot_be_joined_to_several(command, tmp_path):
    path = str(tmp_path / "two.yaml")
    words = ["topo", "convert", "dgx1v", "hosts=2", "-o", path]
    assert CliRunner().invoke(main, words).exit_code == 0
    found = CliRunner().invoke(main, [*ON_MACHINE[command], path, "hosts=2"])
    assert found.exit_code == 1
    assert "has 2 hosts and a network already" in found.output
    found = CliRunner().invoke(main, [*ON_MACHINE[command], path, "nvlink=2"])
    assert found.exit_code == 1
    assert "has no parameter 'nvlink'; its file declares none" in found.output


def test_a_function_of_no_known_collective_names_the_option(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("def pair(group):\n    yield ()\n")
    reason = "the collective of pair is unknown; pass -c, one of"
    assert reason in refused("verify", f"{path}:pair")


@pytest.mark.parametrize(
    "words",
    [
        ("select", "allreduce", "1M", "--topology", "dgx1v", "--hosts", "99999999"),
        ("simulate", "allreduce", "ring", "dgx1v", "hosts=99999999"),
        ("bound", "allreduce", "dgx1v", "hosts=131073"),
    ],
)
def test_hosts_that_take_hours_are_refused(words):
    found = CliRunner().invoke(main, words)
    assert found.exit_code == 1
    assert "exceeds 131072, the largest number that can be priced" in found.output


@pytest.mark.parametrize(
    "ranks",
    [("-n", "8"), ("-n", "12"), ("--topology", "dgx_a100", "--hosts", "2")],
)
def test_a_selection_lists_ten_candidates_or_all(ranks):
    words = ("select", "allreduce", "1M", *ranks)
    few = CliRunner().invoke(main, words).output
    everything = CliRunner().invoke(main, [*words, "--all"]).output
    row = re.compile(r"^  \S.* us\b", re.MULTILINE)
    more = "\n  and other algorithms, variants or orders of ranks\n"
    assert len(row.findall(few)) == 10
    assert more in few
    assert len(row.findall(everything)) > 10
    assert more not in everything


@pytest.mark.parametrize("size", ["64 MiB", "1.5 K", "2 gb", "64MiB"])
def test_a_size_may_be_two_words(size):
    shown = CliRunner().invoke(main, [*SELECT, *size.split(), "-n", "2"]).output
    one = CliRunner().invoke(main, [*SELECT, size, "-n", "2"]).output
    assert shown == one
    assert shown.startswith("allreduce of ")


SCHEDULES = """
import collalgo
from collalgo.algorithms import ring


@collalgo.algorithm("allreduce", "of_a_file")
def of_a_file(group):
    yield from ring.allreduce(group)


def plain(group):
    yield from ring.allreduce(group)
"""


def test_a_file_is_simulated_as_it_is_verified(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(SCHEDULES)
    of = {}
    for name in ("ring", path, f"{path}:of_a_file", f"{path}:plain"):
        words = ["simulate", "allreduce", str(name), "dgx1v", "--size", "1M"]
        shown = CliRunner().invoke(main, words).output
        of[name] = re.sub(r"allreduce by \S+ of", "", shown)
    assert len(set(of.values())) == 1
    assert "bottleneck" in of["ring"]
    reason = "has no algorithm for allgather, only for allreduce"
    assert reason in refused("simulate", "allgather", str(path), "dgx1v")
    assert "has no function 'x'" in refused(
        "simulate", "allreduce", f"{path}:x", "dgx1v"
    )
    path = tmp_path / "two.py"
    path.write_text("".join(SCHEDULES.replace("of_a_file", n) for n in ("one", "two")))
    reason = "has 2 algorithms of allreduce: one, two; name one of them"
    assert reason in refused("simulate", "allreduce", str(path), "dgx1v")


@pytest.mark.parametrize("dims", ["4x4", "4,4", "(4, 4)"])
def test_lists_are_written_in_the_usual_ways(dims):
    words = ["bound", "allreduce", "torus", f"dims={dims}"]
    assert CliRunner().invoke(main, words).exit_code == 0


def test_the_list_of_fabrics_shows_what_may_be_typed():
    assert "dims=4x4" in CliRunner().invoke(main, ["topo", "list"]).output


@pytest.fixture
def large(tmp_path):
    """A file of some 2,100 hosts under 23 switches."""
    path = tmp_path / "topology.conf"
    leaves = "".join(
        f"SwitchName=leaf{i} Nodes=n[{100 * i}-{100 * i + 90 + i % 3}]\n"
        for i in range(23)
    )
    path.write_text(f"SwitchName=root Switches=leaf[0-22]\n{leaves}")
    return path


def test_a_machine_that_is_too_large_is_refused_with_what_to_do(large, monkeypatch):
    monkeypatch.setattr(choices, "MOST_UNEQUAL", 2048)
    path = large
    for words, reason in (
        (("bound", "allreduce", path), ""),
        (("bound", "alltoall", path), ""),
        (("simulate", "allreduce", "ring", path), ""),
        (
            ("simulate", "allreduce", "two_shot", path),
            "that are priced together; choose",
        ),
        ((*SELECT, "1M", "--topology", path), "more than the 2048 for which all"),
        (("topo", "draw", path, "-o", "/dev/null"), ""),  # equal hosts share a box
    ):
        done = CliRunner().invoke(main, [str(word) for word in words])
        assert done.exit_code == bool(reason), done.output
        assert reason in done.output


def test_the_doctor_names_the_extra_to_install(monkeypatch, capfd):
    monkeypatch.setattr(doctor, "_version", lambda _package: "")
    with pytest.raises(SystemExit):
        main(["doctor"])
    assert "pip install collalgo[mpi]" in capfd.readouterr().out


class Full(io.StringIO):
    """Standard output on a full disk, which fails as it is written or flushed."""

    def __init__(self, fails):
        super().__init__()
        self.fails = fails

    def write(self, text):
        return self._fail() if self.fails == "write" else len(text)

    def flush(self):
        return self._fail()

    def _fail(self):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("fails", ["write", "flush"])
@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["--version"],
        ["algorithms", "--help"],
        ["topo", "list"],
        ["topo", "convert", "dgx1v", "-o", "-"],
        ["env"],
        ["verify", "ring", "-n", "2"],
    ],
)
def test_standard_output_on_a_full_disk_is_one_sentence(
    monkeypatch, capsys, words, fails
):
    monkeypatch.setattr(sys, "stdout", Full(fails))
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 1
    said = "cannot write to standard output: No space left on device\n"
    assert " ".join(capsys.readouterr().err.split()) == f"Error: {said.strip()}"


def test_other_errors_of_the_system_remain():
    for error in (OSError(errno.ENOSPC, "full", "file"), OSError(errno.EMFILE, "many")):
        with pytest.raises(OSError, match=r"full|many"), refusing_output():
            raise error
