"""Schedules as the XML of MSCCL: written, read again, and those of others."""

import re
from collections import defaultdict, deque
from functools import partial
from random import Random

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings, strategies as st

from collalgo import ALGORITHMS, ScheduleError, load_algorithms, threads, verify
from collalgo.algorithms.catalogue import find
from collalgo.cli.main import main
from collalgo.errors import AlgorithmNotApplicable
from collalgo.integrations.msccl import algorithm_of, xml_of
from collalgo.integrations.msccl.cells import NAMES, Cell
from collalgo.integrations.msccl.msccl import LARGEST, parse
from collalgo.integrations.msccl.row import named_after
from tests.conftest import at_leisure
from tests.support.oracle import check, vectors

pytestmark = pytest.mark.parallel

CAN_BE_WRITTEN = set(NAMES.values())


def rows_of(size):
    return [
        row
        for row in ALGORITHMS
        if row.collective in CAN_BE_WRITTEN and row.obstacle(size) is None
    ]


def read(text):
    return named_after(parse(text), "test.xml")


def proof_of(row, size):
    return verify(row.schedule, size=size, collective=row.collective)


@pytest.mark.parametrize(
    "size", at_leisure([1, 2, 3, 4, 5, 7, 8, 12, 17], {1, 2, 3, 5, 8})
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


@pytest.fixture
def rows():
    """The table, which is afterwards as it was."""
    before = list(ALGORITHMS)
    yield ALGORITHMS
    ALGORITHMS[:] = before


@pytest.mark.parametrize("size", [2, 3, 4])
def test_what_is_read_runs(size, rows):
    read_again = [read(xml_of(row, size)) for row in rows_of(size)]
    rows += read_again

    def on_each_rank(comm):
        for count in (5, 10_000):
            inputs = vectors(size, count, np.float32)
            for row in read_again:
                check(comm, row, inputs)

    threads(on_each_rank, size, timeout=120)


# ---- as other tools write


def algo(collective, gpus, chunks, *, inplace=1):
    """The XML of GPUs, each a list of (send, recv, channel, steps)."""
    lines = [
        f'<algo name="of-others 1" proto="LL" nchannels="2" nchunksperloop="{chunks}" '
        f'ngpus="{len(gpus)}" coll="{collective}" inplace="{inplace}">'
    ]
    for number, blocks in enumerate(gpus):
        lines.append(f'<gpu id="{number}" i_chunks="1" o_chunks="1" s_chunks="1">')
        for tb, (send, recv, channel, steps) in enumerate(blocks):
            lines.append(f'<tb id="{tb}" send="{send}" recv="{recv}" chan="{channel}">')
            for s, (kind, source, target, count, *after) in enumerate(steps):
                depid, deps = after or (-1, -1)
                lines.append(
                    f'<step s="{s}" type="{kind}" srcbuf="{source[0]}" '
                    f'srcoff="{source[1:]}" dstbuf="{target[0]}" '
                    f'dstoff="{target[1:]}" cnt="{count}" depid="{depid}" '
                    f'deps="{deps}" hasdep="0"/>'
                )
            lines.append("</tb>")
        lines.append("</gpu>")
    return "\n".join([*lines, "</algo>"])


def all_pairs(size):
    """Everyone receives its part of all into scratch, adds it up, and sends it back."""
    gpus = []
    for me in range(size):
        others = [peer for peer in range(size) if peer != me]
        adding = [("nop", "i-1", "o-1", 0, 1 + k, 1) for k in range(1, size - 1)]
        adding += [
            ("re", f"s{k}", f"i{me}", 1, *([1, 1] if not k else []))
            for k in range(size - 1)
        ]
        blocks = [(-1, -1, 0, adding)]
        for peer in others:
            place = others.index(peer)
            there = [p for p in range(size) if p != peer].index(me)
            steps = [
                ("s", f"i{peer}", f"s{there}", 1),
                ("r", f"i{me}", f"s{place}", 1),
                ("s", f"i{me}", f"i{me}", 1, 0, len(adding) - 1),
                ("r", f"i{peer}", f"i{peer}", 1),
            ]
            blocks.append((peer, peer, 0, steps))
        gpus.append(blocks)
    return algo("allreduce", gpus, size)


def fused_ring(size, *, kept="rrs"):
    """A ring in one block for each GPU, which sends on what it receives."""
    gpus = []
    for me in range(size):
        at = [f"i{(me - step) % size}" for step in range(2 * size)]
        steps = [("s", at[0], at[0], 1)]
        steps += [(kept, at[k], at[k], 1) for k in range(1, size - 1)]
        steps += [("rrcs", at[size - 1], at[size - 1], 1)]
        steps += [("rcs", at[k], at[k], 1) for k in range(size, 2 * size - 2)]
        steps += [("r", at[2 * size - 2], at[2 * size - 2], 1)]
        gpus.append([((me + 1) % size, (me - 1) % size, 0, steps)])
    return algo("allreduce", gpus, size)


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


def out_of_place(size):
    """An alltoall and an allreduce whose results are apart from what they read."""
    gpus = []
    for me in range(size):
        steps = [[("cpy", f"i{me}", f"o{me}", 1)]]
        blocks = [(-1, -1, 0, steps[0])]
        for peer in range(size):
            if peer != me:
                swap = [("s", f"i{peer}", f"o{me}", 1), ("r", f"i{me}", f"o{peer}", 1)]
                blocks.append((peer, peer, 0, swap))
        gpus.append(blocks)
    return algo("alltoall", gpus, size, inplace=0)


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
            "nothing says which comes first",
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


# ---- what is proved happens, in whatever order


def outcome(program, dice):
    """What all chunks hold in the end: a home, and the ranks that contributed."""
    cells = program.cells
    memory = [
        {cell: (home, (rank,)) for cell, home in cells.given(rank).items()}
        for rank in range(cells.size)
    ]
    ways, over = defaultdict(deque), set()
    blocks = [
        (gpu, number, block, enumerate(block.steps))
        for gpu, of_gpu in enumerate(program.blocks)
        for number, block in enumerate(of_gpu)
    ]
    waiting = [(block, next(block[3], None)) for block in blocks]
    while waiting := [(block, step) for block, step in waiting if step]:
        able = [
            i for i, (block, step) in enumerate(waiting) if can(block, step, ways, over)
        ]
        if not able:
            return None
        i = dice.choice(able)
        (gpu, number, block, steps), (step, what) = waiting[i]
        perform(memory[gpu], cells, gpu, block, what, ways)
        over.add((gpu, number, step))
        waiting[i] = (waiting[i][0], next(steps, None))
    return memory


def can(place, step, ways, over):
    """Whether the next instruction of a block can happen."""
    gpu, _, block, _ = place
    _, what = step
    if what.after is not None and (gpu, *what.after) not in over:
        return False
    return not what.receives or bool(ways[block.recv, gpu, block.channel])


def perform(memory, cells, gpu, block, what, ways):
    """Let an instruction happen."""

    def at(first):
        return [
            cells.named(gpu, Cell(first.buffer, first.number + i))
            for i in range(what.chunks)
        ]

    values = [memory.get(cell) for cell in at(what.source)]
    if what.receives:
        came = ways[block.recv, gpu, block.channel].popleft()
        values = list(map(added, values, came)) if what.reduces else came
    elif what.kind == "re":
        values = [
            added(memory.get(cell), one)
            for cell, one in zip(at(what.target), values, strict=True)
        ]
    if what.keeps or what.kind in ("re", "cpy"):
        memory.update(zip(at(what.target), values, strict=True))
    if what.sends:
        ways[gpu, block.send, block.channel].append(values)


def added(one, other):
    """The sum of two values, if both are the same part of the buffer."""
    if one is None or other is None or one[0] != other[0]:
        return None
    return one[0], tuple(sorted(one[1] + other[1]))


def is_right(program, memory):
    cells = program.cells
    everyone = tuple(range(cells.size))
    owner = {
        "allgather": lambda home: (home // cells.each,),
        "alltoall": lambda home: (home // cells.each // cells.size,),
    }.get(cells.collective, lambda _: everyone)
    return memory is not None and all(
        memory[rank].get(cell) == (home, owner(home))
        for rank in everyone
        for cell, home in cells.wanted(rank).items()
    )


FILES = {
    "pairs": all_pairs(3),
    "ring": fused_ring(4),
    "apart": out_of_place(3),
    **{
        f"{collective} {name}": xml_of(find(collective, name, size), size)
        for collective, name, size in (
            ("allreduce", "one_shot", 4),
            ("allreduce", "circulant", 5),
            ("allgather", "bruck", 5),
            ("reduce_scatter", "pat", 4),
            ("alltoall", "bruck", 4),
        )
    },
}
ATTRIBUTE = re.compile(r'(\w+(?:buf|off)|cnt|type|depid|deps|send|recv|chan)="[^"]*"')
VALUES = [*"ios01234r", "-1", "7", "rrc", "rrs", "rcs", "rrcs", "re", "cpy", "nop"]


def changed(text, dice):
    """A file with some other attributes."""
    for _ in range(dice.choice((0, 1, 1, 2, 3))):
        found = dice.choice(list(ATTRIBUTE.finditer(text)))
        other = f'{found[1]}="{dice.choice(VALUES)}"'
        text = text[: found.start()] + other + text[found.end() :]
    return text


@settings(max_examples=60)
@given(dice=st.randoms(use_true_random=False))
@pytest.mark.parametrize("name", FILES)
def test_what_is_proved_is_right_in_whatever_order_it_happens(name, dice):
    text = changed(FILES[name], dice)
    try:
        row = read(text)
        proof_of(row, row.function.cells.size)
    except ScheduleError:
        return
    program = parse(text)
    for _ in range(3):
        assert is_right(program, outcome(program, dice))


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


@pytest.mark.usefixtures("rows")
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


@pytest.mark.usefixtures("rows")
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
