"""The page of clusters with unequal links, measured beside peers, and of a cut link."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from collalgo.bench.cluster.report import Outcome, outcomes_in

from collalgo.base.json_files import read_json
from collalgo.base.units import counted, human
from collalgo.synthesis.synthesized import NAME as SYNTHESIZED
from docs.pages import GENERATED, write_page

#: The folder of the results, and the names of their files.
RESULTS = Path(__file__).parents[1] / "bench" / "results" / "cluster"
FILES, CUT = "uneven_*.json", "replanned.json"

#: The module that writes the times of jobs that replan.
MODULE = "collalgo.bench.cluster.replanning"

#: The peers, and their names in results without the version.
PEERS = ("MPICH", "Open MPI", "gloo")

HEAD = f"""# Clusters with unequal links

{GENERATED} from `bench/results/cluster/uneven_*.json` and
`replanned.json`, which these commands write, as root:

```sh
%s
```

The hosts are network namespaces of one machine with two cores; their links have the
rates of a file in `bench/cluster/files`, of 80 to 240 Mbit/s. The time of a call is
that of the slowest rank, the median of {{rounds}} or more. A token bucket limits each
link: after a pause it passes the bytes of 8 ms at once, so that a call may take some
milliseconds less than the bound.
"""

TABLE = """## 16 MiB beside peers

The lower bound is the time to move all bytes across the narrowest cut of the cluster.
The last columns but one are times relative to that of the choice (above 1, the choice
is faster): of the fastest algorithm of the catalogue that was measured, as those with
the least prices were; of MPICH and gloo, alternating with ours in the same processes;
of Open MPI in the same run of the command. `synthesized` is a schedule computed for the
cluster. A link that is cut is one of hosts cabled to each other, with routes around it.
The load is the average of the minute before; other work delays calls a little, as they
wait for links rather than for processors.
"""

COLUMNS = (
    *("cluster", "collective", "choice", "time", "over bound", "price", "catalogue"),
    *PEERS,
    "load",
)

REPLAN = """## A link that is cut in a call

Allreduces of {size} on `{cluster}`, in {trials} of each kind: the link of
`{cut}` is cut in the middle of a call, and {convergence:.0f} ms later the hosts lead
its traffic around it, as a routing protocol does. The interrupted call ends right. All
ranks then pass `topology.without(...)` to `comm.replan`; the next call runs `{after}`
instead of `{before}`. Plans were kept in the cache before, as by `collalgo plan
--each-failure`, or made then, by all ranks at once on the two cores. {wrong} of the
jobs had wrong elements in a call. At a load of {load:.0f} (the first of all times, of a
call on all links, shows how far that delays), milliseconds, lower is better:
"""

REPLAN_COLUMNS = (
    *("from", "to", "plans made then: p50", "most", "plans kept: p50", "most"),
)

#: The columns of a trial, with their ends in words.
PARTS: dict[str, Callable[[dict[str, Any]], float]] = {
    "begin of a call on all links | its end": lambda one: one["whole"],
    "cut | end of that call on all ranks": lambda one: one["interrupted"],
    "there | end of `replan`": lambda one: one["replan"],
    "there | end of the first call on the new plan": lambda one: one["first"],
    "there | end of the second call": lambda one: one["second"],
    "end of the interrupted call | end of the first on the new plan": (
        lambda one: one["replan"] + one["first"]
    ),
}


def page() -> str:
    """The page."""
    documents = [read_json(path) for path in sorted(RESULTS.glob(FILES))]
    cut = read_json(RESULTS / CUT)
    commands = "\n".join(each["command"] for each in (*documents, cut))
    commands = commands.replace("\nreplanning.py", f"\npython -m {MODULE}")
    rounds = counted(min(map(_rounds, documents)), "call")
    lines = [HEAD.format(rounds=rounds) % commands, TABLE, *_head(COLUMNS)]
    for each in documents:
        lines += [_row(one, each.get("load")) for one in outcomes_in(each)]
    lines += ["", *_replanned(cut), "", _conditions(documents[0]), ""]
    return "\n".join(lines)


def _head(columns: Sequence[str]) -> list[str]:
    """The first lines of a table."""
    return [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]


def _rounds(document: dict[str, Any]) -> int:
    """The number of timed calls of each contestant."""
    return min(len(row["seconds"]) for race in document["races"] for row in race)


def _row(one: Outcome, load: float | None) -> str:
    """The row of a collective on a cluster, measured at a load of the machine."""
    catalogue = [t for name, t in one.ours.items() if name != SYNTHESIZED]
    others = [min(catalogue, default=0.0), *(_peer(one, name) for name in PEERS)]
    ratios = [f"{each / one.seconds:.2f}" if each else "" for each in others]
    cells = [
        *(one.cluster, one.collective, one.chosen, f"{one.seconds * 1e3:.0f} ms"),
        f"{one.seconds / one.bound:.3f}",
        f"{one.predicted[one.chosen] * 1e3:.0f} ms",
    ]
    at = "" if load is None else f"{load:.0f}"  # not kept at first
    return f"| {' | '.join([*cells, *ratios, at])} |"


def _peer(one: Outcome, name: str) -> float:
    """The seconds of a peer; 0 if it was not measured."""
    found = (time for full, time in one.peers.items() if full.startswith(name))
    return next(found, 0.0)


def _interrupted(document: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The trials of each kind, but those whose call had ended before the cut."""
    return {
        kind: [one for one in trials if one["interrupted"] > 0]
        for kind, trials in document["trials"].items()
    }


def _replanned(document: dict[str, Any]) -> Iterator[str]:
    """The words and the table of the trials with a link that is cut."""
    kinds = _interrupted(document)
    first, *others = [one for trials in kinds.values() for one in trials]
    wrong = sum(one["wrong"] > 0 for one in (first, *others))
    about = {name: document[name] for name in ("cluster", "cut", "load")}
    yield REPLAN.format(
        **about,
        size=human(document["nbytes"]),
        trials=counted(min(map(len, kinds.values())), "job"),
        convergence=document["convergence"] * 1e3,
        before=_base(first["before"]),
        after=_base(first["after"]),
        wrong=wrong or "None",
    )
    yield from _head(REPLAN_COLUMNS)
    for ends, seconds in PARTS.items():
        cells = [
            f"{found(map(seconds, trials)) * 1e3:.0f}"
            for trials in kinds.values()
            for found in (median, max)
        ]
        yield f"| {ends} | {' | '.join(cells)} |"


def _base(name: str) -> str:
    """The name of an algorithm without its parameters."""
    return name.partition("(")[0]


def _conditions(document: dict[str, Any]) -> str:
    """The machine and the peers."""
    found, peers = document["environment"], _libraries(document["races"])
    return (
        f"_Peers: {', '.join(peers)}. Python {found['python']}, "
        f"{counted(found['cores'], 'core')} ({found['processor']})._"
    )


def _libraries(races: Sequence[Sequence[dict[str, Any]]]) -> list[str]:
    """The names of the peers, with their versions."""
    rows = (row for race in races for row in race)
    return list(dict.fromkeys(r["algorithm"] for r in rows if not r["predicted"]))


def write() -> None:
    """Write the page."""
    write_page(Path(__file__).with_name("uneven_clusters.md"), page())
