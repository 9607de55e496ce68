"""Trees on a torus: each rank receives each part of the data over another link.

There is a tree for each direction: along each axis forwards, then along each backwards.
In the tree of a direction, a rank that differs from the root in k axes receives along
the axis that is k - 1 after it. So no two trees share a link, and all links are used.

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
    """A part of the data goes down each tree, over all links of the root."""
    trees = trees_of(group, dims or square(group.size, axes))
    yield from together(*(tree.broadcast(*one) for one in trees))


def reduce(group: Group, dims: Sequence[int] = (), axes: int = 2) -> Steps:
    """A part of the data is summed up each tree, over all links of the root."""
    trees = trees_of(group, dims or square(group.size, axes))
    yield from together(*(tree.reduce(*one) for one in trees))


def trees_of(group: Group, dims: Sequence[int]) -> list[tuple[Group, list[tree.Round]]]:
    """The parts of the data, each with the shape of its tree."""
    group.check_grid(dims)
    long = tuple(length for length in dims if length > 1)
    root = group.peer(0)  # positions count from it on, ranks along the first axis first
    shapes = group.once(
        ("trees", long),
        lambda: [tree.of_parents(parents(long, root, i)) for i in range(2 * len(long))],
    )
    return tree.shared(group, shapes)


def parents(dims: tuple[int, ...], root: int, direction: int) -> tuple[int | None, ...]:
    """The parent of each position in the tree of a direction."""
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
    """The predecessor of a place in the tree of a direction, relative to the root.

    >>> [before((2, 0), direction) for direction in range(4)]
    [(1, 0), (2, -1), (3, 0), (2, 1)]
    """
    number = direction + sum(map(bool, place)) - 1
    opposite, axis = divmod(number, len(place))
    at = place[axis] + (1 if opposite % 2 else -1)
    return (*place[:axis], at, *place[axis + 1 :])
