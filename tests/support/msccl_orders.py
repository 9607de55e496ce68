"""Programs of MSCCL happen in any order that they leave open."""

from collections import defaultdict, deque

from collalgo.integrations.msccl.cells import Cell


def blocks_of(program):
    """Each block of a program with its GPU, its number there, and its steps to come."""
    return [
        (gpu, number, block, enumerate(block.steps))
        for gpu, of_gpu in enumerate(program.blocks)
        for number, block in enumerate(of_gpu)
    ]


def outcome(program, dice):
    """What all chunks hold in the end: a home, and the ranks that contributed."""
    cells = program.cells
    memory = [
        {cell: (home, (rank,)) for cell, home in cells.given(rank).items()}
        for rank in range(cells.size)
    ]
    ways, over = defaultdict(deque), set()
    waiting = [(block, next(block[3], None)) for block in blocks_of(program)]
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
