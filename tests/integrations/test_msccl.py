"""Programs of MSCCL are written and read as the algorithms that they are."""

from random import Random

import numpy as np
import pytest
from click.testing import CliRunner

from collalgo import ALGORITHMS, load_algorithms, threads
from collalgo.algorithms.catalogue import find
from collalgo.cli.main import main
from collalgo.errors import AlgorithmNotApplicable
from collalgo.integrations.msccl import algorithm_of, xml_of
from collalgo.integrations.msccl.cells import NAMES
from collalgo.integrations.msccl.msccl import parse
from tests.support.leisure import at_leisure
from tests.support.msccl_orders import is_right, outcome
from tests.support.msccl_programs import (
    algo,
    all_pairs,
    fused_ring,
    out_of_place,
    proof_of,
    read,
)
from tests.support.oracle import check, vectors

CAN_BE_WRITTEN = set(NAMES.values())


def rows_of(size):
    return [
        row
        for row in ALGORITHMS
        if row.collective in CAN_BE_WRITTEN and row.obstacle(size) is None
    ]


@pytest.mark.parametrize(
    "size", at_leisure([1, 2, 3, 4, 5, 7, 8, 12, 17], {1, 2, 3, 5})
)
def test_what_is_written_is_right_and_read_as_the_same_algorithm(size):
    for row in rows_of(size):
        text = xml_of(row, size)
        program, dice = parse(text), Random(size)
        assert is_right(program, outcome(program, dice)), row.name
        before, after = proof_of(row, size), proof_of(read(text), size)
        assert (before.sent, before.reduced) == (after.sent, after.reduced), row.name
        assert before.links == after.links
        assert before.consistent == after.consistent
        assert after.steps <= 3 * before.steps / 2  # messages in parts may come apart


@pytest.mark.parametrize("size", [2, 3, 4])
def test_what_is_read_runs(size):
    read_again = [read(xml_of(row, size)) for row in rows_of(size)]
    ALGORITHMS.extend(read_again)

    def on_each_rank(comm):
        for count in (5, 10_000):
            inputs = vectors(size, count, np.float32)
            for row in read_again:
                check(comm, row, inputs)

    threads(on_each_rank, size, timeout=120)


@pytest.mark.parametrize("size", [2, 3, 5, 8])
def test_what_is_added_from_scratch_is_added_as_it_comes(size):
    proof = proof_of(read(all_pairs(size)), size)
    assert (proof.steps, proof.spare, proof.consistent) == (2, 0, True)
    assert proof.sent == proof_of(find("allreduce", "two_shot", size), size).sent


@pytest.mark.parametrize("size", [2, 3, 5, 8])
@pytest.mark.parametrize("kept", ["rrs", "rrcs"])
def test_what_is_received_and_sent_on_is_a_ring(size, kept):
    proof = proof_of(read(fused_ring(size, kept=kept)), size)
    ring = proof_of(find("allreduce", "ring", size), size)
    assert (proof.steps, proof.sent, proof.links) == (ring.steps, ring.sent, ring.links)


def test_each_channel_may_have_a_part():
    """An allgather of pairs, each of which passes on what it has from the other."""
    gpus = []
    for me in range(4):
        blocks = []
        for c in range(4):
            near, far, both = (f"o{4 * (me ^ other) + c}" for other in (1, 2, 3))
            mine = f"i{c}"
            told = [("s", mine, near, 1), ("rcs", mine, far, 1)]
            own = [("s", mine, far, 1), ("cpy", mine, f"o{4 * me + c}", 1)]
            blocks += [
                (-1, me ^ 1, c, [("r", mine, near, 1), ("r", "o0", both, 1)]),
                (me ^ 1, me ^ 2, c, told),
                (me ^ 2, -1, c, own),
            ]
        gpus.append(blocks)
    text = algo("allgather", gpus, 16, inplace=0).replace('cnt="1"', "")  # the default
    proof = proof_of(read(text), 4)
    ours = proof_of(find("allgather", "bruck", 4), 4)
    assert (proof.steps, proof.sent, proof.links) == (2, ours.sent, 8)


def test_results_may_be_apart_from_what_is_read():
    proof = proof_of(read(out_of_place(4)), 4)
    assert (proof.steps, proof.links) == (1, 12)
    both = [
        [(1 - me, 1 - me, 0, [("s", "i0", "s0", 1), ("rrc", "i0", "o0", 1)])]
        for me in range(2)
    ]
    assert proof_of(read(algo("allreduce", both, 1, inplace=0)), 2).steps == 1


def test_a_copy_is_made_where_what_is_added_to_is_still_wanted():
    """GPU 0 adds to a copy of what it sends behind the sum, which GPU 1 throws away."""
    first = [
        ("cpy", "i0", "s0", 1),
        ("rrc", "s0", "s0", 1),
        ("s", "s0", "i0", 1),
        ("s", "i0", "s0", 1),
        ("cpy", "s0", "i0", 1),
    ]
    second = [("s", "i0", "s0", 1), ("r", "s0", "i0", 1), ("r", "i0", "s0", 1)]
    text = algo("allreduce", [[(1, 1, 0, first)], [(0, 0, 0, second)]], 1)
    assert proof_of(read(text), 2).spare == 1
    alone = text.replace('<step s="3" type="s"', '<step s="3" type="nop"')
    alone = alone.replace('<step s="2" type="r"', '<step s="2" type="nop"')
    assert proof_of(read(alone), 2).spare == 0


def test_a_message_may_bring_the_same_twice():
    copies = [("cpy", "o0", "s0", 1), ("cpy", "o0", "s1", 1), ("s", "s0", "s0", 2)]
    taken = [("r", "s0", "s0", 2), ("cpy", "s0", "o0", 1), ("s", "s1", "s2", 1)]
    first = [*copies, ("r", "s1", "s2", 1), ("r", "o1", "o1", 1)]
    second = [*taken, ("s", "o1", "o1", 1)]
    text = algo("allgather", [[(1, 1, 0, first)], [(0, 0, 0, second)]], 2)
    proof = proof_of(read(text), 2)
    assert (proof.steps, proof.spare) == (2, 1)


def test_a_part_of_a_message_may_be_needed_before_another_can_be_added():
    """Only what comes of the one brings what the other is to be added to."""
    first = [
        ("s", "i0", "s0", 2),
        ("r", "s0", "s4", 1),
        ("r", "i1", "s3", 1),
        ("s", "s3", "i1", 1),
        ("r", "i0", "i0", 2),
    ]
    second = [
        ("r", "i0", "s0", 2),
        ("s", "s0", "s4", 1),
        ("s", "i1", "s3", 1),
        ("r", "s3", "i1", 1),
        ("re", "s1", "i1", 1),
        ("re", "s0", "i0", 1),
        ("s", "i0", "i0", 2),
    ]
    text = algo("allreduce", [[(1, 1, 0, first)], [(0, 0, 0, second)]], 2)
    assert proof_of(read(text), 2).consistent


def test_a_file_is_proved_drawn_and_exported_by_commands(tmp_path):
    run = CliRunner().invoke
    path = tmp_path / "ring.xml"
    command = ["algorithms", "export", "ring", "-c", "allreduce", "-n", "4"]
    assert run(main, [*command, "-o", str(path)]).exit_code == 0
    assert path.read_text() == run(main, command).output
    found = run(main, ["verify", str(path)])
    assert "allreduce_ring_4: allreduce of 4 ranks: 6 steps, 3/2 n" in found.output
    assert "⊕ reduce" in run(main, ["algorithms", "show", str(path)]).output
    path.write_text(fused_ring(5).replace('type="rcs"', 'type="rrcs"', 1))
    found = run(main, ["verify", str(path)])
    assert found.exit_code
    assert "twice" in found.output
    found = run(main, ["algorithms", "export", "ring"])
    assert "choose one algorithm, by -c: allreduce ring" in found.output
    assert (
        "none.xml: it cannot be read: No such file"
        in run(main, ["verify", "none.xml"]).output
    )
    path.write_text("no XML")
    assert f"{path}: invalid XML" in run(main, ["verify", str(path)]).output


def test_a_file_is_an_algorithm_for_the_ranks_that_it_is_for(tmp_path):
    path = tmp_path / "pairs.xml"
    path.write_text(all_pairs(3))
    load_algorithms(str(path))
    row = find("allreduce", "of_others_1", 3)
    total = threads(lambda comm: comm.allreduce(np.ones(7), algorithm=row.name), 3)
    assert [x.tolist() for x in total] == [[3.0] * 7] * 3
    with pytest.raises(AlgorithmNotApplicable, match="of a file for 3 ranks"):
        find("allreduce", row.name, 4)
    load_algorithms(str(path))  # another version takes its place
    assert algorithm_of(path).summary == "The schedule of pairs.xml."
