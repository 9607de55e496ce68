"""What is wrong in a program of MSCCL is told."""

import re
from functools import partial

import pytest
from click.testing import CliRunner

from collalgo import ScheduleError
from collalgo.algorithms.catalogue import find
from collalgo.cli.main import main
from collalgo.errors import AlgorithmNotApplicable
from collalgo.integrations.msccl import xml_of
from collalgo.integrations.msccl.msccl import LARGEST
from tests.support.msccl_programs import algo, all_pairs, proof_of, read


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (
            partial(re.sub, 'type="r"', 'type="x"', count=1),
            "unknown type 'x'; choose from nop",
        ),
        (partial(re.sub, 'coll="[a-z]+"', 'coll="scan"'), "coll 'scan' cannot be read"),
        (
            partial(re.sub, "algo", "also"),
            "root element is <also>; MSCCL XML has <algo>",
        ),
        (
            partial(re.sub, 'ngpus="3"', 'ngpus="4"'),
            "with ngpus=4 the GPUs need the ids 0 to 3",
        ),
        (
            partial(re.sub, 'srcbuf="i"', 'srcbuf="x"'),
            "srcbuf 'x' must be i, o or s",
        ),
        (partial(re.sub, 'tb id="1"', 'tb id="2"'), "tb 1 of gpu 0 has the id 2"),
        (partial(re.sub, 's="1"', 's="7"'), "has the number 7, out of order"),
        (partial(re.sub, 'send="1"', 'send="3"'), "3 is not between -1 and 2"),
        (partial(re.sub, 'cnt="1"', 'cnt="1e9"', count=1), "'1e9' is not an integer"),
        (partial(re.sub, '(type="s".*?)cnt="1"', r'\1cnt="2"', count=1), "be equal"),
        (partial(re.sub, 'depid="1"', 'depid="9"'), "block 9, which does not exist"),
        (
            partial(re.sub, r'depid="\d+"', 'depid="-1"'),
            "no dependency orders them",
        ),
        (partial(re.sub, 'type="re"', 'type="cpy"'), "made of the contributions of"),
        (partial(re.sub, "<step s=.3.*/>", "", count=1), "must be received"),
        (partial(re.sub, 'send="1" recv="1"', 'send="-1" recv="1"'), "names no peer"),
        (partial(re.sub, "</algo>", ""), "invalid XML"),
        (lambda text: text + " " * LARGEST, "more than"),
        (
            lambda text: '<!DOCTYPE a [<!ENTITY b "c">]>' + text,
            "XML with entities is refused",
        ),
    ],
)
def test_what_is_wrong_in_a_file_is_told(change, complaint):
    text = all_pairs(3)
    assert change(text) != text
    with pytest.raises(ScheduleError, match=re.escape(complaint)):
        proof_of(read(change(text)), 3)


def test_blocks_that_wait_for_each_other_are_found():
    waiting = [(-1, -1, 0, [("nop", "i0", "i0", 0, 1 - k, 0)]) for k in range(2)]
    with pytest.raises(ScheduleError, match="in a cycle"):
        read(algo("allreduce", [waiting], 1))


def test_what_is_read_before_it_is_written_is_told():
    send = [(1, -1, 0, [("s", "s0", "i0", 1)])], [(-1, 0, 0, [("r", "s0", "i0", 1)])]
    with pytest.raises(ScheduleError, match="is read before anything is written to it"):
        read(algo("allreduce", send, 1))


def test_unequal_parts_cannot_be_added():
    adds = [[(-1, -1, 0, [("re", "i1", "i0", 1)])]]
    with pytest.raises(ScheduleError, match="only equal parts can be added"):
        read(algo("allreduce", adds, 2))


def test_a_result_in_the_wrong_place_is_told():
    moves = [[(-1, -1, 0, [("cpy", "i1", "i0", 1)])]]
    with pytest.raises(ScheduleError, match="ends with part 1 in chunk 0"):
        read(algo("allreduce", moves, 2))


def test_what_msccl_does_not_take_is_told(tmp_path):
    command = ["algorithms", "export", "-o", str(tmp_path / "x.xml"), "-c", "allreduce"]
    run = partial(CliRunner().invoke, main)
    assert "warning" not in run([*command, "ring", "-n", "8"]).output
    found = run([*command, "one_shot", "-n", "20"])
    assert "at most 32 blocks on a channel, and this has 39" in found.output
    found = run([*command, "ring(segments=400)", "-n", "2"])
    assert "at most 256 steps in a block, and this has" in found.output
    assert (tmp_path / "x.xml").exists()


def test_only_what_msccl_knows_is_written():
    with pytest.raises(
        AlgorithmNotApplicable, match="written only for allreduce, allgather"
    ):
        xml_of(find("scan", "linear", 3), 3)
