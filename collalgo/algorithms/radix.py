"""Numbers of ranks written in digits: what multi-way algorithms count by."""

from functools import cache


def powers(size: int, radix: int) -> list[int]:
    """The distances 1, radix, radix squared, ... below ``size``."""
    distances = []
    distance = 1
    while distance < size:
        distances.append(distance)
        distance *= radix
    return distances


@cache
def factors(size: int, radix: int) -> tuple[int, ...]:
    """The factors of ``size`` of at most ``radix``, the largest first."""
    found = []
    for factor in range(min(radix, size), 1, -1):
        while size % factor == 0:
            found.append(factor)
            size //= factor
    return tuple(found)


@cache
def smooth(size: int, radix: int = 2) -> int:
    """The largest number up to ``size`` that is a product of factors up to ``radix``.

    >>> smooth(15), smooth(15, radix=3), smooth(15, radix=5)
    (8, 12, 15)
    """
    return max(n for n in range((size + 1) // 2, size + 1) if is_smooth(n, radix))


def is_smooth(size: int, radix: int) -> bool:
    """Whether ``size`` is a product of factors up to ``radix``."""
    for factor in factors(size, radix):
        size //= factor
    return size == 1


def primes(size: int) -> list[int]:
    """The prime factors, the smallest first.

    >>> primes(12)
    [2, 2, 3]
    """
    return factors_of(size, 2)


def factors_of(size: int, least: int) -> list[int]:
    """The prime factors, none below ``least``."""
    factor = next((f for f in range(least, size) if size % f == 0 and f * f <= size), 0)
    if factor:
        return [factor, *factors_of(size // factor, factor)]
    return [size] if size > 1 else []


def square(size: int, dims: int = 2) -> tuple[int, ...]:
    """The most nearly equal ``dims`` dimensions of a grid of ``size``.

    >>> square(12), square(13), square(24, dims=3)
    ((4, 3), (13, 1), (4, 3, 2))
    """
    if dims == 1:
        return (size,)
    most = round(size ** (1 / dims))
    side = max(d for d in range(1, most + 1) if size % d == 0 and d**dims <= size)
    return (*square(size // side, dims - 1), side)
