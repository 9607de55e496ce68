"""Trees on a torus: each rank hears each part of the data by another of its links.

There is a tree for each direction: along each axis forwards, then along each backwards.
On the tree of a direction, who differs from the root in k axes hears along the one that
is k - 1 after it. So no two trees share a link, and together they use all.

>>> from collalgo import verify
>>> print(verify("torus_2d_trees", size=9, collective="broadcast"))
broadcast of 9 ranks: 8 steps, 27/16 n bytes, 32 links, same bits on every rank
"""

from collections.abc import Sequence
from itertools import accumulate, product
from operator import mul

from collalgo.algorithms import tree
from collalgo.algorithms.radix import square
from collalgo.schedule import Group, Steps, together


def broadcast(group: Group, dims: Sequence[int] = (), axes: int = 2) -> Steps:
    """A part of the data along each tree, from the root on by all of its links."""
    trees = trees_of(group, dims or square(group.size, axes))
    yield from together(*(tree.broadcast(*one) for one in trees))


def reduce(group: Group, dims: Sequence[int] = (), axes: int = 2) -> Steps:
    """A part of the data is summed along each tree, to the root by all of its links."""
    trees = trees_of(group, dims or square(group.size, axes))
    yield from together(*(tree.reduce(*one) for one in trees))


def trees_of(group: Group, dims: Sequence[int]) -> list[tuple[Group, list[tree.Round]]]:
    """The parts of the data, each with the shape of the tree that it goes along."""
    group.check_grid(dims)
    long = tuple(length for length in dims if length > 1)
    root = group.peer(0)  # positions count from it on, ranks along the first axis first
    shapes = group.once(
        ("trees", long),
        lambda: [tree.of_parents(parents(long, root, i)) for i in range(2 * len(long))],
    )
    return tree.shared(group, shapes)


def parents(dims: tuple[int, ...], root: int, direction: int) -> tuple[int | None, ...]:
    """Whom each position hears from on the tree of a direction."""
    strides = [*accumulate(dims, mul, initial=1)]
    size = strides.pop()

    def position(place: Sequence[int]) -> int:
        axes = zip(place, strides, dims, strict=True)
        rank = sum((root // step + at) % length * step for at, step, length in axes)
        return (rank - root) % size

    heard: list[int | None] = [None] * size
    for place in product(*map(range, dims)):
        if any(place):
            heard[position(place)] = position(before(place, direction))
    return tuple(heard)


def before(place: tuple[int, ...], direction: int) -> tuple[int, ...]:
    """The place before one on the tree of a direction, both as seen from the root.

    >>> [before((2, 0), direction) for direction in range(4)]
    [(1, 0), (2, -1), (3, 0), (2, 1)]
    """
    number = direction + sum(map(bool, place)) - 1
    opposite, axis = divmod(number, len(place))
    at = place[axis] + (1 if opposite % 2 else -1)
    return (*place[:axis], at, *place[axis + 1 :])
