"""Numbers of cores as Linux lists them: ``0-3,8``."""

import re
from collections.abc import Iterable


def cores_of(text: str) -> set[int]:
    """The numbers in a list of the kernel's form "0-3,8"."""
    cores: set[int] = set()
    for first, last in re.findall(r"(\d{1,6})(?:-(\d{1,6}))?", text):
        cores.update(range(int(first), int(last or first) + 1))
    return cores


def shown(cpus: Iterable[int]) -> str:
    """The list of some numbers, as ``0-3,8``."""
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and cpu == ranges[-1][-1] + 1:
            ranges[-1] = [ranges[-1][0], cpu]
        else:
            ranges.append([cpu])
    return ",".join("-".join(map(str, each)) for each in ranges)
