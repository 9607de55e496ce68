"""Rules that choose by the number of ranks and the size: those of peers, and of users.

A rules file is YAML::

    collalgo: rules/1
    name: mine
    blocks: [alltoall]
    rules:
      allreduce:
        - {ranks: 2..7, sizes: {0: one_shot, 4096: ring}}
        - {ranks: 8.., power_of_two: true, sizes: {0: halving_doubling}}

Of the rules of a collective the first that fits the ranks counts; in it, the algorithm
at the largest size that is not above that of the call. ``blocks`` names collectives
whose sizes are those of one block, not of all that a rank has.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import inf
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from collalgo.algorithms.catalogue import named
from collalgo.base.input_files import read_text
from collalgo.base.yaml_documents import line_of
from collalgo.errors import CollalgoError, RulesError
from collalgo.schedule.collective import COLLECTIVES

#: The first line of every file.
FORMAT = "rules/1"

#: The largest size of a rules file, in bytes.
LARGEST = 1 << 20


class Rule(NamedTuple):
    """The algorithms by least size, for a range of numbers of ranks."""

    least: int
    most: float
    power_of_two: bool
    sizes: tuple[tuple[int, str], ...]

    def fits(self, size: int) -> bool:
        """Whether the rule is for a number of ranks."""
        exact = not self.power_of_two or size & (size - 1) == 0
        return self.least <= size <= self.most and exact


@dataclass(frozen=True)
class Rules:
    """The rules of a file.

    Attributes
    ----------
    name : str
        The name of the rules, for users.
    blocks : frozenset of str
        Collectives whose sizes are of one block.
    table : dict
        The rules of each collective.
    """

    name: str
    blocks: frozenset[str]
    table: Mapping[str, tuple[Rule, ...]]

    def by_size(self, collective: str, size: int) -> tuple[tuple[int, str | None], ...]:
        """The names of the algorithms from least sizes in bytes on, the first from 0.

        A name is None where no rule fits.
        """
        times = size if collective in self.blocks else 1
        for rule in self.table.get(collective, ()):
            if rule.fits(size):
                found = tuple((least * times, name) for least, name in rule.sizes)
                return found if found and found[0][0] == 0 else ((0, None), *found)
        return ((0, None),)

    def choose(self, collective: str, size: int, nbytes: int) -> str | None:
        """The name of the algorithm for a size, or None where no rule fits."""
        found = self.by_size(collective, size)
        return found[bisect_right(found, nbytes, key=itemgetter(0)) - 1][1]

    @classmethod
    def read(cls, path: str | Path) -> "Rules":
        """The rules of a file.

        Raises
        ------
        RulesError
            If it cannot be read, holds no rules, is too large, or has an unknown name.
        """
        try:
            text = read_text(path, LARGEST)
        except ValueError as error:
            raise RulesError(f"{path}: {error}") from None
        return cls.of_text(text, str(path))

    @classmethod
    def of_text(cls, text: str, source: str) -> "Rules":
        """The rules in a text; errors name the source."""
        from collalgo.topology.readers.text import yaml_of

        try:
            documents = yaml_of(text)
        except CollalgoError as error:
            raise RulesError(f"{source}: {error}") from None
        document = documents[0] if len(documents) == 1 else None
        if not isinstance(document, dict) or document.get("collalgo") != FORMAT:
            raise RulesError(f"{source}: the first line must be collalgo: {FORMAT}")
        blocks = document.get("blocks") or []
        if not isinstance(blocks, list):
            raise RulesError(f"{source}: blocks must be a list of collectives")
        table = _table(document.get("rules"), source)
        _check_collectives((*table, *blocks), source)
        rules = {
            collective: tuple(_rule(entry, collective, source) for entry in entries)
            for collective, entries in table.items()
        }
        return cls(str(document.get("name", source)), frozenset(blocks), rules)


def _table(given: Any, source: str) -> dict[Any, list[Any]]:
    """The lists of rules of a document, unless it has none."""
    if not isinstance(given, dict) or not all(
        isinstance(entries, list) for entries in given.values()
    ):
        raise RulesError(f"{source}: rules must map collectives to lists")
    return given


def _check_collectives(names: Iterable[Any], source: str) -> None:
    for name in names:
        if not isinstance(name, str) or name not in COLLECTIVES:
            raise RulesError(f"{source}: there is no collective {name!r:.60}")


def _rule(entry: Any, collective: str, source: str) -> Rule:
    """A rule from an entry of a file."""
    where = f"{source}: {line_of(entry)}{collective}: {entry!r:.80}"
    if not isinstance(entry, dict) or not isinstance(entry.get("sizes"), dict):
        raise RulesError(f"{where} must have ranks and sizes")
    unknown = set(entry) - {"ranks", "power_of_two", "sizes"}
    if unknown:
        raise RulesError(f"{where}: unknown key {', '.join(map(str, unknown))}")
    found = re.fullmatch(r"(\d{1,9})(?:\.\.(\d{0,9}))?", str(entry.get("ranks", "1..")))
    if not found:
        raise RulesError(f"{where}: ranks must be as 4, 2..7 or 8..")
    least, most = int(found[1]), found[2]
    top = inf if most == "" else int(most) if most else least
    if top < least:
        raise RulesError(f"{where}: the range {least}..{top} is empty")
    if not isinstance(entry.get("power_of_two", False), bool):
        raise RulesError(f"{where}: power_of_two must be true or false")
    sizes = tuple(sorted(_sizes(entry["sizes"], collective, where)))
    return Rule(least, top, bool(entry.get("power_of_two")), sizes)


def _sizes(
    given: dict[Any, Any], collective: str, where: str
) -> Iterator[tuple[int, str]]:
    """The sizes of a rule with the names of their algorithms."""
    for size, name in given.items():
        if type(size) is not int or size < 0:
            raise RulesError(f"{where}: {size!r:.40} is not a size in bytes")
        try:
            named(collective, str(name))
        except CollalgoError as error:
            raise RulesError(f"{where}: {error!s:.500}") from None
        yield size, str(name)


def of_peer(name: str) -> Rules:
    """The rules that come with the package."""
    from importlib import resources  # slow, as it imports all about archives

    file = resources.files("collalgo.selection.policies") / f"{name}.yaml"
    return Rules.of_text(file.read_text(encoding="utf-8"), f"{name}.yaml")
