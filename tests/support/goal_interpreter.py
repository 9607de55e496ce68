"""A small interpreter of GOAL: it matches the messages and orders the operations."""

import re
from collections import Counter, defaultdict
from graphlib import TopologicalSorter
from typing import NamedTuple

OPERATION = re.compile(
    r"(?P<label>[a-z]\w*): (?:(?P<kind>send|recv) (?P<bytes>\d+)b (?:to|from) "
    r"(?P<peer>\d+) tag (?P<tag>\d+)|calc (?P<time>\d+))"
)
DEPENDENCY = re.compile(r"([a-z]\w*) requires ([a-z]\w*)")


class Goal(NamedTuple):
    """What a file says: the operations by rank and label, and what each awaits."""

    operations: dict[tuple[int, str], re.Match]
    awaited: dict[tuple[int, str], set[tuple[int, str]]]

    def sent(self):
        """The bytes that each rank sends."""
        found = Counter()
        for (rank, _), what in self.operations.items():
            if what["kind"] == "send":
                found[rank] += int(what["bytes"])
        return found

    def rounds(self):
        """The most messages of a chain of operations."""
        ends = {}
        for node in TopologicalSorter(self.awaited).static_order():
            before = max((ends[one] for one in self.awaited[node]), default=0)
            ends[node] = before + (self.operations[node]["kind"] == "recv")
        return max(ends.values(), default=0)


def run(text):
    """The operations of a text; raises ValueError unless all of them can be executed.

    Every label must be defined before it is required, every send have one receive of
    the same bytes, and the order be acyclic.
    """
    operations, awaited = {}, {}
    size, *ranks = re.split(r"^rank (\d+) \{\n", text, flags=re.MULTILINE)
    refuse_unless(
        re.search(rf"^num_ranks {len(ranks) // 2}$", size, re.MULTILINE), size
    )
    for rank, body in zip(map(int, ranks[::2]), ranks[1::2], strict=True):
        for line in body.strip().removesuffix("}").splitlines():
            if needs := DEPENDENCY.fullmatch(line):
                awaited[rank, needs[1]].add((rank, needs[2]))
                refuse_unless((rank, needs[2]) in operations, line)
                continue
            what = OPERATION.fullmatch(line)
            refuse_unless(what, line)
            refuse_unless((rank, what["label"]) not in operations, line)
            operations[rank, what["label"]] = what
            awaited[rank, what["label"]] = set()
    match(operations, awaited)
    found = Goal(operations, awaited)
    found.rounds()  # raises CycleError, a ValueError
    return found


def refuse_unless(good, line):
    """Refuse a line of the text."""
    if not good:
        raise ValueError(line)


def match(operations, awaited):
    """Let each receive await its send."""
    ends = defaultdict(lambda: ([], []))
    for (rank, label), what in operations.items():
        if what["kind"]:
            sends = what["kind"] == "send"
            pair = (rank, int(what["peer"])) if sends else (int(what["peer"]), rank)
            message = (*pair, what["tag"], what["bytes"])
            ends[message][not sends].append((rank, label))
    for message, (sends, receives) in ends.items():
        if (len(sends), len(receives)) != (1, 1):
            raise ValueError(f"{message}: {len(sends)} sends, {len(receives)} receives")
        awaited[receives[0]].add(sends[0])
