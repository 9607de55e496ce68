"""Templates give for every length the plan that lowering for this length gives."""

import itertools
import math
import random
from collections import defaultdict
from dataclasses import fields
from functools import partial

import numpy as np
import pytest
from hypothesis import given, strategies as st

from collalgo import ALGORITHMS, ScheduleError
from collalgo._kernels.engine.filling import Filling
from collalgo.engine.call import EQUAL_BLOCKS, SPLIT
from collalgo.engine.plan.chunk_pipelining import Slicing, grid
from collalgo.engine.plan.layout import Layout
from collalgo.engine.plan.rows import Plan
from collalgo.engine.plan.template import TemplateKey, averaging_of
from collalgo.schedule import recv, send
from collalgo.schedule.chunk import Chunk
from collalgo.schedule.collective import COLLECTIVES
from tests.support.exact_layout import ExactGrid, exact_plan
from tests.support.leisure import at_leisure

SIZES = [1, 2, 3, 5, 7, 8, 12, 16, 17, 33]


ITEM_SIZES, LENGTHS = (1, 8), (0, 1, 2, 7, 640, 70_001)


def layouts(collective, size, turn):
    """Layouts of many lengths; where each rank has a block, also of uneven ones.

    Of more ranks each length has the sizes of elements by turns.
    """
    blocks = COLLECTIVES[collective].buffer_blocks(size)
    pairs = [*itertools.product(ITEM_SIZES, LENGTHS)]
    if size > 2:
        pairs = [(ITEM_SIZES[(i + turn) % 2], each) for i, each in enumerate(LENGTHS)]
    for itemsize, each in pairs:
        if collective not in EQUAL_BLOCKS:
            for count in {each, max(each * size - 1, 0), each * size + 1}:
                yield Layout(count, itemsize, blocks)
            continue
        yield Layout(each * blocks, itemsize, blocks, (each,) * blocks)
        uneven = tuple((each * (i % 3) + 5 * i) % (2 * each + 1) for i in range(blocks))
        if collective not in SPLIT or collective == "reduce_scatter":
            yield Layout(sum(uneven), itemsize, blocks, uneven)


def by_channel(plan):
    """The runs of bytes of each message on each channel, however they are cut."""
    found = defaultdict(list)
    for first, middle, last in plan.steps.tolist():
        for m in range(first, last):
            begin, end, channel, to = plan.messages[m, :4].tolist()
            runs = joined(plan.pieces[begin:end].tolist())
            for number in plan.channels[channel:to].tolist():
                found[m < middle, number].append(runs)
    return found, joined(plan.copies.tolist()), joined(plan.divisions.tolist())


def joined(pieces):
    runs = []
    for start, nbytes, source, at, target, to, action in pieces:
        if not nbytes:
            continue
        arrays = source, target, action, at - start, to - start
        if runs and runs[-1][0] + runs[-1][1] == start and runs[-1][2] == arrays:
            start, nbytes = runs[-1][0], runs.pop()[1] + nbytes
        runs.append((start, nbytes, arrays))
    return runs


def filled(filling, layout):
    """The plan of a length, in memory that had another one before."""
    filling.fill_layout(layout)
    return filling.template.filled(filling)


def is_cut_finely(layout, key):
    """Whether some of the parts have no elements, so that what is equal may differ."""
    parts = key.template().grid.parts
    smallest = min(layout.counts) if layout.counts else layout.count // layout.blocks
    line = 64 // layout.itemsize
    return smallest < 2 * line * parts // layout.blocks


def is_exact(key, layout):
    """Whether a plan is compared exactly; one that is cut finely is by channel."""
    ours, theirs = filled(Filling(key.template()), layout), exact_plan(key, layout)
    if is_cut_finely(layout, key):
        assert by_channel(ours) == by_channel(theirs)
        return False
    for field in fields(Plan):
        mine, other = getattr(ours, field.name), getattr(theirs, field.name)
        assert np.array_equal(mine, other), (key, layout, field.name)
    return True


@pytest.mark.parametrize("size", at_leisure(SIZES, {1, 2, 3}))
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_a_template_gives_the_plans_of_all_lengths(collective, size):
    if size ** COLLECTIVES[collective].blocks > 600:
        pytest.skip("blocks for each pair of ranks are checked for fewer ranks")
    rows = [
        row
        for row in ALGORITHMS
        if row.collective == collective and row.obstacle(size) is None
    ]
    exact = 0
    each_rank = itertools.product(rows, sorted({0, size // 2, size - 1}))
    for turn, (row, rank) in enumerate(each_rank):
        root = rank if COLLECTIVES[collective].rooted else 0
        key = TemplateKey(collective, row.schedule, size // 2, size, root)
        if COLLECTIVES[collective].reduces and rank % 2 == 1:
            averaging = averaging_of(collective, True, rank % 4 == 1)
            key = key._replace(averaging=averaging)
        each = layouts(collective, size, turn)
        exact += sum(is_exact(key, layout) for layout in each)
    assert exact or collective == "barrier"


@pytest.mark.parametrize("size", at_leisure(range(1, 34), {2, 5}))
def test_so_it_is_for_each_rank_and_root(size):
    """One length for each rank, of all lengths in turn; the root is drawn."""
    turn, exact, draw = 0, 0, random.Random(size)
    for row in ALGORITHMS:
        promise = COLLECTIVES[row.collective]
        if row.obstacle(size) is not None or size**promise.blocks > 600:
            continue
        for rank in range(size):
            turn += 1
            root = draw.randrange(size) if promise.rooted else 0
            key = TemplateKey(row.collective, row.schedule, rank, size, root)
            each = [*layouts(row.collective, size, turn)]
            exact += is_exact(key, each[turn % len(each)])
    assert exact


@pytest.mark.parametrize("size", at_leisure([2, 3, 8], {2, 3}))
@pytest.mark.parametrize("slices", [2, 5])
def test_so_it_is_in_slices(size, slices):
    for row in ALGORITHMS:
        if row.obstacle(size) is not None or row.collective == "barrier":
            continue
        blocks = COLLECTIVES[row.collective].buffer_blocks(size)
        parts = math.lcm(grid(row.schedule, size, 0), blocks)
        key = TemplateKey(row.collective, row.schedule, size - 1, size)
        key = key._replace(slicing=Slicing(slices, parts))
        filling = Filling(key.template())
        for each in (64 * parts, 100 * parts + 8):
            counts = (each,) * blocks if row.collective in EQUAL_BLOCKS else None
            layout = Layout(each * blocks, 4, blocks, counts)
            ours, theirs = filled(filling, layout), exact_plan(key, layout)
            for field in fields(Plan):
                mine, other = getattr(ours, field.name), getattr(theirs, field.name)
                assert np.array_equal(mine, other), (row.name, layout, field.name)


@given(
    parts=st.integers(1, 10**12),
    count=st.integers(0, 2**40),
    itemsize=st.sampled_from([1, 2, 4, 8, 16]),
    data=st.data(),
)
def test_places_are_exact_whatever_the_numbers(parts, count, itemsize, data):
    first = data.draw(st.integers(0, parts - 1))
    chunk = Chunk(first, first + 1, parts, data.draw(st.integers(0, 2)))

    def there_and_back(group):
        yield recv(1, (chunk,))
        yield send(1, (chunk,))

    key = TemplateKey("allreduce", there_and_back, 0, 2)
    layout = Layout(count, itemsize, 2)
    start, nbytes = chunk_bytes(layout, chunk)
    plan = key.template().plan(layout)
    if nbytes:
        assert plan.pieces[:, :2].tolist() == [[start, nbytes]] * 2
    else:
        assert not len(plan.messages)


def chunk_bytes(layout, chunk):
    start, stop = ExactGrid(layout).span(chunk)
    return start, stop - start


def test_equal_schedules_share_a_template():
    def plain(group, radix):
        yield send(1 - group.rank, group.whole)

    keys = [TemplateKey("allreduce", partial(plain, radix=2), 0, 2) for _ in range(2)]
    assert keys[0].template() is keys[1].template()
    unhashable = TemplateKey("allreduce", partial(plain, radix=[2]), 0, 2)
    assert len(unhashable.template().messages) == 1


def test_too_many_parts_are_refused():
    def fine(group):
        yield send(1, (Chunk(0, 1, 3**40),))

    with pytest.raises(ScheduleError, match="cut the buffer into 24315"):
        TemplateKey("allreduce", fine, 0, 2).template()
