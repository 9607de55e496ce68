"""The page docs/over_bounds.md: prices over bounds, on many machines."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from collalgo.bench.over_bounds.machines import GROUPS as MACHINES
from collalgo.bench.over_bounds.measuring import COMPARED, VERSION, Cell

from collalgo.base.json_files import read_json
from collalgo.cost.placement import Placement
from collalgo.synthesis.planner import MOST_RANKS, can_plan
from collalgo.synthesis.synthesized import NAME as SYNTHESIZED
from docs.pages import GENERATED, percent, write_page

RESULTS = Path(__file__).parents[1] / "bench" / "results" / "over_bounds"

#: The ratio to the bound that is aimed at.
AIM, OF_ALLTOALL = 1.02, 1.05

#: The number of the worst cells of a collective that are listed.
WORST = 8

HEAD = f"""# Prices over bounds

{GENERATED} from `bench/results/over_bounds`, which this writes (some hours; what it
has already is left out):

```sh
python -m collalgo.bench.over_bounds --folder FOLDER_OF_TOPOLOGY_FILES
```

The price of the choice for 1 GiB over the lower bound of the collective
(lower is better, 1 is optimal), on the machines of these groups that have been measured
so far, the first of each group:

"""

#: What the machines of each group are.
GROUPS = {
    "presets": "the machines of `collalgo topo list`, 1, 2 and 4 hosts, with all NICs "
    "and with 1, 2, 4 and 8 of them",
    "fabrics": "tori, meshes, trees and others, with their default sizes",
    "files": "files of other tools, of 2 to 128 ranks",
    "random": "3 to 8 hosts of 1 to 3 GPUs and 1 or 2 NICs of different speeds, on "
    "switches that are joined at random",
    "broken": "each of the random machines without a random link that it "
    "can do without, or whole if it needs all",
    "subsets": "one or two servers with a random part of their devices",
}

ROUNDS = """
Prices are in rounds: each step lasts at least as long as the slowest of its messages
without bytes, and data that a rank receives in a step is sent on in a later one. So a
broadcast or a reduce cannot attain the bound by bytes. Its bound in rounds is the
greatest of three, [each with its proof](bounds.md#rounds):

- with K equal parts of the ranks (hosts, or single ranks) beside that of the root, B
  seconds by bytes and a latency of a, it takes at least
  (sqrt(B) + sqrt((1 - 1 / K) a))^2; for up to 16 ranks, each further message of a rank
  in a step adds its gap to a, and fewer messages fill less of the links;
- for all ranks, each message of a rank in a step reaches at most one part more;
- between hosts, the root alone sends in the first step, and the ranks of another host
  receive different data in the last one, so that steps grow slowly at both ends.

Bounds of up to 64 ranks, of an allgather or reduce-scatter up to 32, and of up to 320
with few unlike links, are those over the [routes of messages](bounds.md), not only by
cuts. The aim is a ratio of {aim}, of alltoall {alltoall}.

"""

COLUMNS = (
    "| collective | cells | median | 95 % | worst | within aim | within aim in rounds |"
)


class Row(NamedTuple):
    """A cell with its group, its machine and the number of ranks."""

    group: str
    machine: str
    size: int
    collective: str
    cell: Cell

    @property
    def aim(self) -> float:
        """The ratio that is aimed at."""
        return OF_ALLTOALL if self.collective == "alltoall" else AIM

    @property
    def reason(self) -> str:
        """The largest part of the time above the bound."""
        cell = self.cell
        if self.size > MOST_RANKS and not self._is_planned:
            return f"no schedule is synthesised for {self.size} ranks"
        relayed, started = cell.in_rounds - cell.bound, cell.latency
        above = cell.seconds - cell.bound
        if relayed >= above / 2:
            return "data is relayed a step later"
        if started >= above / 2:
            return "start-up of the steps"
        return "links wait for data, or carry more than in the bound"

    @property
    def _is_planned(self) -> bool:
        """Whether a schedule is synthesised for the ranks of the machine."""
        if self.cell.algorithm == SYNTHESIZED:
            return True
        every = MACHINES[self.group]()
        machine = next(one for one in every if one.name == self.machine)
        return can_plan(self.collective, Placement(machine.load()))


def results() -> dict[str, dict[str, Any]]:
    """The results of each group that has any."""
    files = {group: RESULTS / f"{group}.json" for group in GROUPS}
    return {group: read_json(file) for group, file in files.items() if file.exists()}


def rows() -> list[Row]:
    """All cells of the results."""
    return [
        Row(group, machine, found["size"], collective, Cell(*cell))
        for group, measured in results().items()
        for machine, found in measured["machines"].items()
        for collective, cell in found.get("cells", {}).items()
    ]


def page() -> str:
    """The content of the page."""
    every = rows()
    groups = [f"- {name}: {words};\n" for name, words in GROUPS.items()]
    of = {name: measured["of"] for name, measured in results().items()}
    text = ROUNDS.format(aim=AIM, alltoall=OF_ALLTOALL)
    parts = [HEAD, *groups, text, _versions()]
    parts += _table("All machines", every, sum(of.values()))
    for group in GROUPS:
        some = [row for row in every if row.group == group]
        parts += _table(group.capitalize(), some, of.get(group, 0))
    return "".join([*parts, *_worst(every)])


def _versions() -> str:
    """How many machines were measured with the present schedules."""
    machines = [one for some in results().values() for one in some["machines"].values()]
    present = sum(one.get("version") == VERSION for one in machines if "cells" in one)
    earlier = sum("cells" in one for one in machines) - present
    if not earlier:
        return ""
    return (
        f"Of these machines, {present} were measured with the present schedules only, "
        f"{earlier} in some cells\nwith earlier ones: without the way `shares` of "
        "allreduces and `far_first` of scatters,\nwithout more trees of more than 128 "
        "ranks, or with waves that end in even steps.\n\n"
    )


def _table(title: str, some: Sequence[Row], of: int) -> Iterator[str]:
    """The table of the distribution of ratios, by collective."""
    if not some:
        return
    machines = len({(row.group, row.machine) for row in some})
    yield f"## {title}: measured {machines} of {of}\n\n{COLUMNS}\n" + "|---" * 7 + "|\n"
    for collective in COMPARED:
        mine = [row for row in some if row.collective == collective]
        ratios = [row.cell.ratio for row in mine]
        in_rounds = [row.cell.ratio_in_rounds for row in mine]
        figures = [f"{one:.3f}" for one in np.percentile(ratios, [50, 95, 100])]
        shares = [_within(mine[0].aim, each) for each in (ratios, in_rounds)]
        cells = [collective, str(len(mine)), *figures, *shares]
        yield f"| {' | '.join(cells)} |\n"
    yield "\n"


def _within(aim: float, ratios: Sequence[float]) -> str:
    """The part of some ratios that is at most the aim, to three digits."""
    return percent(sum(round(one, 3) <= aim for one in ratios) / len(ratios))


def _worst(every: Sequence[Row]) -> Iterator[str]:
    """The cells farthest above the bound, or above the bound in rounds."""
    yield (
        "## The worst cells\n\n| collective | machine | ranks | choice | over bound "
        "| in rounds | mostly |\n" + "|---" * 7 + "|\n"
    )
    for collective in COMPARED:
        mine = [row for row in every if row.collective == collective]
        mine.sort(key=lambda row: -row.cell.ratio_in_rounds)
        for row in mine[:WORST]:
            ratios = [f"{row.cell.ratio:.3f}", f"{row.cell.ratio_in_rounds:.3f}"]
            about = [row.machine, str(row.size), row.cell.algorithm]
            yield f"| {' | '.join([collective, *about, *ratios, row.reason])} |\n"


def write() -> None:
    """Write the page."""
    write_page(Path(__file__).with_name("over_bounds.md"), page())
