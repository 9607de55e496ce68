"""The page of clusters with unequal links, measured beside peers, and of a cut link."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median
from textwrap import wrap
from typing import Any

from collalgo.bench.cluster.replanning import TRIALS
from collalgo.bench.cluster.report import Outcome, outcomes_in

from collalgo.base.json_files import read_json
from collalgo.base.units import counted, human
from collalgo.synthesis.synthesized import NAME as SYNTHESIZED
from collalgo.topology.model import LinkKind, Topology
from docs.pages import GENERATED, write_page

#: The folders of the clusters and of the results, and the names of their files.
CLUSTERS = Path(__file__).parents[1] / "bench" / "cluster" / "files"
RESULTS = Path(__file__).parents[1] / "bench" / "results" / "cluster"
FILES, CUT = "uneven_*.json", "replanned.json"

#: The peers, and their names in results without the version.
PEERS = ("MPICH", "Open MPI", "gloo")

HEAD = f"""# Clusters with unequal links

{GENERATED} from `bench/results/cluster/uneven_*.json` and
`replanned.json`, which these commands write, as root:

```sh
%s
```

The hosts are network namespaces of one machine with two cores; their links have the
rates of a file in `bench/cluster/files`. The time of a call is that of the slowest
rank. A token bucket limits each link: after a pause it passes a tenth more than its
rate until it has made up for 8 ms at most, so that a call may take some milliseconds
less than the bound. Results of different commits are of different versions.
"""

TABLE = """## 16 MiB beside peers

The links have {rates}. Times are medians of `calls` calls. The lower bound is
the time to move all bytes across the narrowest cut of the cluster. The columns
from `catalogue` to `gloo` are times relative to that of the choice (above 1, the choice
is faster): of the fastest algorithm of the catalogue that was measured,
as those with the least prices were; of MPICH and gloo, alternating with ours in the
same processes; of Open MPI relative to the choice over Open MPI, both alternating in a
run of their own. `synthesized` is a schedule computed for the cluster. A link that is
cut is one of hosts cabled to each other, with routes around it. The load is the average
of the minute before, of the first run or of both; it is empty where results were kept
without it. Other work on the two cores delays calls, up to several times, which a
median of a few calls does not hide.
"""

COLUMNS = (
    *("cluster", "collective", "choice", "time", "over bound", "price", "catalogue"),
    *(*PEERS, "calls", "load", "commit"),
)

REPLAN = """## A link that is cut in a call

Allreduces of {size} on `{cluster}`, whose links have {rates}: the link of
`{cut}` is cut in the middle of a call, and {convergence:.0f} ms later the hosts lead
its traffic around it, as a routing protocol does. The interrupted call ends right. All
ranks then pass `topology.without(...)` to `comm.replan`; the next call runs
`{after}` instead of `{before}`. {wrong} of the jobs had wrong
elements in a call.

`replan` itself only exchanges what the ranks see of their hosts. The first call after
it decides: of the ranks that share a disk, here all, one prices the candidates,
computes the plan and keeps it, for which the others wait; it is proved; and each rank
lowers its part, on the two cores that all ranks share. Plans that were kept before, as
by `collalgo plan --each-failure`, are read and lowered only. No link is measured. The
second call has its plan, and only moves bytes.

{counts}

The load was {load:.0f} as they began, at commit {commit}; other work delays all parts,
and the first row, a call before the cut, shows how far. Milliseconds, lower is better:
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
    table = TABLE.format(rates=_rates(each["cluster"] for each in documents))
    lines = [HEAD % commands, table, *_head(COLUMNS)]
    for each in documents:
        about = str(_rounds(each)), _load(each), _commit(each)
        lines += [_row(one, *about) for one in outcomes_in(each)]
    lines += ["", *_replanned(cut), "", _conditions(documents[0]), ""]
    return "\n".join(lines)


def _head(columns: Sequence[str]) -> list[str]:
    """The first lines of a table."""
    return [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]


def _rounds(document: dict[str, Any]) -> int:
    """The number of timed calls of each contestant."""
    return min(len(row["seconds"]) for race in document["races"] for row in race)


def _rates(clusters: Iterable[str]) -> str:
    """The rates of the links of some clusters."""
    topologies = (Topology.read(CLUSTERS / f"{each}.yaml") for each in clusters)
    links = (link for each in topologies for link in each.links)
    found = {link.bandwidth * 8e3 for link in links if link.kind is LinkKind.NETWORK}
    low, high = (f"{rate:.0f}" for rate in (min(found), max(found)))
    return f"{low} Mbit/s" if low == high else f"{low} to {high} Mbit/s"


def _load(document: dict[str, Any]) -> str:
    """The load before the runs with each MPI, or before the first, if it was kept."""
    first = [document["load"]] if "load" in document else []
    loads = [f"{load:.0f}" for load in document.get("loads", first)]
    return ", ".join(loads)


def _commit(document: dict[str, Any]) -> str:
    """The commit that was measured, shortened."""
    return str(document["environment"]["commit"])[:8]


def _row(one: Outcome, *about: str) -> str:
    """The row of a collective on a cluster, with what is known of its measurement."""
    catalogue = [t for name, t in one.ours.items() if name != SYNTHESIZED]
    others = [min(catalogue, default=0.0), *(_peer(one, name) for name in PEERS)]
    ratios = [f"{each / one.seconds:.2f}" if each else "" for each in others]
    cells = [
        *(one.cluster, one.collective, one.chosen, f"{one.seconds * 1e3:.0f} ms"),
        f"{one.seconds / one.bound:.3f}",
        f"{one.predicted[one.chosen] * 1e3:.0f} ms",
    ]
    return f"| {' | '.join([*cells, *ratios, *about])} |"


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
    yield REPLAN.format(**_words(document))
    yield from _head(REPLAN_COLUMNS)
    kinds = _interrupted(document)
    for ends, seconds in PARTS.items():
        cells = [
            f"{found(map(seconds, trials)) * 1e3:.0f}"
            for trials in kinds.values()
            for found in (median, max)
        ]
        yield f"| {ends} | {' | '.join(cells)} |"


def _words(document: dict[str, Any]) -> dict[str, Any]:
    """The words about the trials with a link that is cut."""
    jobs = [one for trials in document["trials"].values() for one in trials]
    return {
        **{name: document[name] for name in ("cluster", "cut", "load")},
        "counts": _counts(document),
        "rates": _rates([document["cluster"]]),
        "commit": _commit(document),
        "size": human(document["nbytes"]),
        "convergence": document["convergence"] * 1e3,
        "before": _base(jobs[0]["before"]),
        "after": _base(jobs[0]["after"]),
        "wrong": sum(one["wrong"] > 0 for one in jobs) or "None",
    }


def _counts(document: dict[str, Any]) -> str:
    """How many trials there are of each kind, were asked for, and are left out."""
    kinds, kept = document["trials"], _interrupted(document)
    made, known = (counted(len(trials), "job") for trials in kept.values())
    given = re.search(r"--trials (\d+)", document["command"])
    asked = int(given[1]) if given else TRIALS
    all_made = all(len(trials) == asked for trials in kinds.values())
    found = f"The table has {made} whose plans were made then and {known} whose plans "
    found += f"were kept; {asked} of each were asked for"
    found += "." if all_made else ", and the command was stopped before."
    late = sum(map(len, kinds.values())) - sum(map(len, kept.values()))
    if late:
        found += f" {counted(late, 'job')} in which the call had ended before the cut "
        found += f"{'is' if late == 1 else 'are'} left out."
    return "\n".join(wrap(found, 88))


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
