"""Binary trees: every rank passes data on to two others.

>>> from collalgo import verify
>>> print(verify("binary", size=15, collective="broadcast"))
broadcast of 15 ranks: 3 steps, 4 n bytes, 14 links, same bits on every rank
>>> print(verify("split_binary", size=15, collective="broadcast"))
broadcast of 15 ranks: 4 steps, 5/2 n bytes, 28 links, same bits on every rank
"""

from collalgo.algorithms import tree
from collalgo.schedule import Group, Steps, recv, send


def shape(group: Group) -> list[tree.Round]:
    """The parent and the children in a heap."""
    first = 2 * group.rank + 1
    return tree.by_depth(
        (group.rank + 1).bit_length() - 1,
        group.size.bit_length() - 1,
        (group.rank - 1) // 2 if group.rank else None,
        range(first, min(first + 2, group.size)),
    )


def broadcast(group: Group) -> Steps:
    """The data goes from each parent on to two children."""
    yield from tree.broadcast(group, shape(group))


def reduce(group: Group) -> Steps:
    """Each rank adds the sums of two children to its own data, for its parent."""
    yield from tree.reduce(group, shape(group))


def in_order_reduce(group: Group) -> Steps:
    """Each rank sums in order: its left subtree, itself, its right subtree.

    So only neighbours in the order of the ranks are ever combined, whatever the root.
    """
    natural = group.natural
    root = natural.position(group.peer(0))
    place = in_order(
        range(group.size), root, natural.rank, (group.size - 1).bit_length()
    )
    yield from tree.reduce(natural, tree.by_depth(*place))


def in_order(
    ranks: range,
    root: int,
    rank: int,
    height: int,
    parent: int | None = None,
    depth: int = 0,
) -> tuple[int, int, int | None, list[int]]:
    """Depth, height, parent and children of ``rank`` in a tree over some ranks."""
    sides = [s for s in (range(ranks.start, root), range(root + 1, ranks.stop)) if s]
    if rank == root:
        middles = [side[len(side) // 2] for side in sides]
        return depth, height, parent, middles
    side = next(side for side in sides if rank in side)
    return in_order(side, side[len(side) // 2], rank, height, root, depth + 1)


def split_broadcast(group: Group) -> Steps:
    """Each half of the data goes down half of the tree; then pairs exchange halves."""
    halves = group.shares(2)
    sides = [descendants(1, group.size), descendants(2, group.size)]
    if group.rank == 0:
        heads = [side[0] for side in sides if side]
        yield tuple(
            send(group.peer(i), half.whole)
            for i, half in zip(heads, halves, strict=False)
        )
        yield from [()] * (len(shape(group)) - 1)
        yield tuple(
            send(group.peer(i), halves[1].whole) for i in heads if len(heads) == 1
        )
        return
    mine = int(group.rank in sides[1])
    yield from tree.broadcast(halves[mine], shape(group))
    yield from _swap(group, halves, sides, mine)


def descendants(position: int, size: int) -> list[int]:
    """A position of the heap and its descendants."""
    found = [position] if position < size else []
    for above in found:
        found += [i for i in (2 * above + 1, 2 * above + 2) if i < size]
    return found


def _swap(
    group: Group, halves: list[Group], sides: list[list[int]], mine: int
) -> Steps:
    """Receive the half of the other side, from a partner or that of another rank."""
    others = sides[1 - mine]
    place = sides[mine].index(group.rank)
    if not others:
        yield recv(group.peer(0), halves[1].whole)
        return
    given = [group.peer(i) for i in others[place :: len(sides[mine])]]
    taken = group.peer(others[place % len(others)])
    yield (
        *(send(p, halves[mine].whole) for p in given),
        recv(taken, halves[1 - mine].whole),
    )
