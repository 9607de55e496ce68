"""Equitable partitions of a flow network, which make a large one small.

All devices of a set have the same capacity to each other set. A greatest flow from some
of the sets to others can be averaged over the devices of each set, and so is as great
if each set is contracted to one device; the least cuts are the same, too (Grohe,
Kersting, Mladenov and Selman, Dimension reduction via colour refinement, 2014).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

#: The capacities to the neighbours of each device; links have the same both ways.
Capacities: TypeAlias = Mapping[str, Mapping[str, int]]


class EquitablePartition:
    """The coarsest equitable partition in which no set has devices of two parts.

    Parameters
    ----------
    capacities
        The network.
    parts
        Devices that must not be in a set with others.

    Attributes
    ----------
    sets : list of dict
        The devices of each set, as keys in order.
    """

    def __init__(self, capacities: Capacities, parts: Iterable[Iterable[str]] = ()):
        self._capacities = capacities
        self.sets = [dict.fromkeys(capacities)]
        self._number = dict.fromkeys(capacities, 0)
        self._refine(parts, [0])

    def refined(self, parts: Iterable[Iterable[str]]) -> "EquitablePartition":
        """The same for further parts, in time proportional to the changes."""
        finer = object.__new__(EquitablePartition)
        finer._capacities = self._capacities
        finer.sets = [one.copy() for one in self.sets]
        finer._number = self._number.copy()
        finer._refine(parts, [])
        return finer

    def kinds_of(self, devices: Iterable[str]) -> tuple[int, ...]:
        """The numbers of the sets of some devices, sorted."""
        return tuple(sorted(map(self._number.__getitem__, devices)))

    def contracted(self) -> Iterator[tuple[int, int, int]]:
        """The numbers of any two linked sets, and the capacity between them."""
        for number, members in enumerate(self.sets):
            total: dict[int, int] = defaultdict(int)
            for other, capacity in self._capacities[next(iter(members))].items():
                total[self._number[other]] += capacity
            for there, capacity in total.items():
                if there != number:
                    yield number, there, capacity * len(members)

    def _refine(self, parts: Iterable[Iterable[str]], changed: list[int]) -> None:
        """Split all sets whose devices differ in a part or in their capacities."""
        pending = dict.fromkeys(changed)
        for part in parts:
            self._split(dict.fromkeys(part, 1), pending)
        while pending:
            number, _ = pending.popitem()
            into: dict[str, int] = defaultdict(int)
            for device in self.sets[number]:
                for other, capacity in self._capacities[device].items():
                    into[other] += capacity
            self._split(into, pending)

    def _split(self, values: Mapping[str, int], pending: dict[int, None]) -> None:
        """Split sets by a value of their devices, 0 if not given; note the new sets.

        One part keeps the number of the set: what is alike towards the set and all its
        other parts is so towards this part as well (Hopcroft).
        """
        found: dict[int, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
        for device, value in values.items():
            if value:
                found[self._number[device]][value].append(device)
        for number, by_value in found.items():
            groups = sorted(by_value.values(), key=len)
            if sum(map(len, groups)) == len(self.sets[number]):
                groups.pop()
            for group in groups:
                for device in group:
                    del self.sets[number][device]
                    self._number[device] = len(self.sets)
                pending[len(self.sets)] = None
                self.sets.append(dict.fromkeys(group))
