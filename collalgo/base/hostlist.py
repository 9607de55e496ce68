"""Host lists with ranges: ``node[01-03,7]`` is node01, node02, node03 and node7."""

import re

from collalgo.errors import TopologyError

#: The most names that a list may expand to, and the most characters of a name.
MOST_NAMES, LONGEST_NAME = 65_536, 255

#: An entry between commas outside of brackets.
_TOP_LEVEL = re.compile(r"(?:[^,\[]|\[[^\]]*\]?)+")
#: The characters of a pattern of a shell, which means unknown names.
_PATTERN = re.compile(r"[*?{}]")
_RANGES = re.compile(r"\[([0-9,\- ]*)\]")


def expand(text: str) -> list[str]:
    """Expand a list to names: commas separate, brackets hold ranges, zeros are kept.

    >>> expand("node[01-03,7],spare")
    ['node01', 'node02', 'node03', 'node7', 'spare']
    >>> expand("r[1-2]n[0-1]")
    ['r1n0', 'r1n1', 'r2n0', 'r2n1']

    Raises
    ------
    TopologyError
        If brackets hold no ranges, a name is a pattern, or there are too many or too
        long names.
    """
    names: list[str] = []
    for word in _TOP_LEVEL.findall(text):
        if word.strip():
            names += _words(word.strip(), MOST_NAMES - len(names))
    return names


def _words(word: str, room: int) -> list[str]:
    names = [""]
    for i, part in enumerate(_RANGES.split(word)):
        numbers = _numbers(part, word, room) if i % 2 else [part]
        if _PATTERN.search(part):
            raise TopologyError(
                f"{word[:60]!r} is a pattern; list the names, as n[1-4] or n1,n2"
            )
        if len(names) * len(numbers) > room:
            raise _too_many(word)
        if len(names[0]) + len(numbers[0]) > LONGEST_NAME:
            raise TopologyError(
                f"{word[:60]!r} has names of more than {LONGEST_NAME} characters"
            )
        names = [name + number for name in names for number in numbers]
    if re.search(r"[\[\]]", names[0]):
        raise TopologyError(f"{word[:60]!r}: brackets must hold ranges, as n[1-4]")
    return names


def _too_many(word: str) -> TopologyError:
    return TopologyError(f"{word[:60]!r} expands to more than {MOST_NAMES} names")


def _numbers(ranges: str, word: str, room: int) -> list[str]:
    numbers: list[str] = []
    for piece in ranges.split(","):
        found = re.fullmatch(r"\s*([0-9]{1,9})(?:\s*-\s*([0-9]{1,9}))?\s*", piece)
        if found is None:
            raise TopologyError(f"{word[:60]!r}: {piece[:20]!r} is not a range")
        first, last = int(found[1]), int(found[2] or found[1])
        if last < first or last - first >= MOST_NAMES:
            raise TopologyError(
                f"{word[:60]!r}: a range from {first} to {last} is empty or too long"
            )
        if len(numbers) + last - first >= room:
            raise _too_many(word)
        width = len(found[1])
        numbers += [str(n).zfill(width) for n in range(first, last + 1)]
    return numbers


def fold(names: list[str]) -> str:
    """Fold names that differ in a trailing number into ranges.

    >>> fold(["gpu0", "gpu1", "gpu2", "nic0"])
    'gpu[0-2],nic0'
    """
    runs: list[list[str]] = []
    for name in names:
        if runs and _follows(runs[-1][-1], name):
            runs[-1].append(name)
        else:
            runs.append([name])
    return ",".join(_run(run) for run in runs)


def natural_order(name: str) -> tuple[str, int]:
    """The key that sorts names with numbers at their ends by these.

    >>> sorted(["gpu10", "gpu9", "nic0"], key=natural_order)
    ['gpu9', 'gpu10', 'nic0']
    """
    stem, number = _split(name)
    return stem, int(number or 0)


def _split(name: str) -> tuple[str, str]:
    """A name without the number at its end, and the number, of at most 9 digits."""
    found = re.fullmatch(r"(.*?)(\d{0,9})", name, re.DOTALL)
    return (found[1], found[2]) if found else (name, "")


def _follows(name: str, other: str) -> bool:
    (stem, number), (next_stem, next_number) = _split(name), _split(other)
    return (
        stem == next_stem
        and bool(number and next_number)
        and str(int(number) + 1).zfill(len(number)) == next_number
    )


def _run(run: list[str]) -> str:
    if len(run) == 1:
        return run[0]
    (stem, first), (_, last) = _split(run[0]), _split(run[-1])
    return f"{stem}[{first}-{last}]"
