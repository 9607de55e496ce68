"""Numbers of cores as Linux lists them: ``0-3,8``."""

import re
from collections.abc import Iterable


def cores_of(text: str) -> set[int]:
    """The numbers in a list of the kernel's form "0-3,8"."""
    cores: set[int] = set()
    for first, last in re.findall(r"(\d{1,6})(?:-(\d{1,6}))?", text):
        cores.update(range(int(first), int(last or first) + 1))
    return cores


def is_list(text: str) -> bool:
    """Whether a text is a list of this form, with no range that ends before it begins.

    >>> [is_list(text) for text in ("0-3,8", "5", "99-1", "0-3,", "all")]
    [True, True, False, False, False]
    """
    parts = [re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", p) for p in text.split(",")]
    return all(part and int(part[1]) <= int(part[2] or part[1]) for part in parts)


def shown(cpus: Iterable[int]) -> str:
    """The list of some numbers, as ``0-3,8``."""
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and cpu == ranges[-1][-1] + 1:
            ranges[-1] = [ranges[-1][0], cpu]
        else:
            ranges.append([cpu])
    return ",".join("-".join(map(str, each)) for each in ranges)
