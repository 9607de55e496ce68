"""Commands that did something else than was asked, and did not say so."""

import json
import re

import pytest
from click.testing import CliRunner

from collalgo.cli.main import main

OWN = """
import collalgo
from collalgo import recv, send
@collalgo.algorithm("allgather", "of_silences")
def ring(group):
    for step in range(group.size - 1):
        yield (
            send(group.right, group.chunk(group.rank - step)),
            recv(group.left, group.chunk(group.rank - step - 1)),
        )
"""

FILES = {
    "own.py": OWN,
    "ends.py": "import sys; sys.exit(3)",
    "empty.json": json.dumps({"name": "x"}),
}


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (
            "verify own.py -c allreduce",
            "no algorithm for allreduce, only for allgather",
        ),
        ("verify ends.py", "ends.py cannot be run: SystemExit: 3"),
        ("trace summary empty.json", "not a trace of collalgo: it has no 'otherData'"),
        ("trace price empty.json dgx1v", "empty.json has no calls; name a Chakra"),
        ("bench -R 2 -b 1M -e 1K", "-b 1048576 is above -e 1024; give the smaller"),
        (
            "tune rules.yaml -b 1M -e 1K",
            "-b 1048576 is above -e 1024; give the smaller",
        ),
        ("bound scan mesh --assume pcie=1 --assume pcie=2", "pcie is given twice: 1"),
        ("bound scan mesh --assume pcie=1,pcie=2", "pcie is given twice: 1 and 2"),
        (
            "select allreduce 1M dgx1v --policy nccl --algorithm ring",
            "the policy 'nccl' decides nothing; pass one of them",
        ),
        (
            "select broadcast 1M dgx1v --reproducible",
            "broadcast reduces nothing, so that reproducible does not apply",
        ),
        ("bound allreduce dgx1v --only ici", "dgx1v: no ici link leaves"),
        (
            "bound barrier dgx1v --size 1M",
            "barrier carries no data; leave the size",
        ),
        ("simulate barrier tree dgx1v --size 8", "leave the size out"),
        ("select barrier 1M --topology dgx1v", "leave the size out"),
        ("select barrier --size 8,1K --topology dgx1v", "leave the size out"),
        ("select barrier --topology dgx1v --plot a.svg", "by size; give a size above"),
        ("select reduce 0 --topology dgx1v --plot a.svg", "by size; give a size above"),
        ("bound scan dgx1v --only ici --only c2c", "dgx1v: no c2c or ici link leaves"),
    ],
)
def test_what_cannot_be_done_is_an_error(words, complaint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    found = CliRunner().invoke(main, words.split())
    assert complaint in " ".join(found.output.split())
    assert found.exit_code in (1, 2)


def test_a_policy_without_an_algorithm_is_said_not_to_decide():
    words = ["select", "alltoall", "1M", "--topology", "fully_connected", "hosts=2"]
    found = CliRunner().invoke(main, [*words, "--policy", "nccl"])
    assert "the policy nccl names no algorithm for this alltoall" in found.stderr
    assert not CliRunner().invoke(main, [*words, "--policy", "mpich"]).stderr


@pytest.mark.parametrize(
    "words",
    [
        "bound barrier dgx1v",
        "select barrier --topology dgx1v",
        "select barrier 0 --topology dgx1v",
        "select barrier --topology dgx1v --peers",
        "select barrier -n 2",
        "simulate barrier tree dgx1v",
        "simulate barrier tree dgx1v --order rail --timeline barrier.svg",
        "simulate barrier tree dgx1v --model fluid",
    ],
)
def test_a_barrier_has_no_size(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = CliRunner().invoke(main, words.split())
    assert found.exit_code == 0, found.output
    drawn = "".join(path.read_text() for path in tmp_path.iterdir())
    assert "barrier" in found.output
    assert not re.search(r"\d ([KMG]i)?B\b", found.output + drawn)
    assert "size" not in found.output
