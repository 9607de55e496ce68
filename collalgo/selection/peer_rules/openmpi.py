"""Rules of the component ``tuned`` of Open MPI: the classic text, and JSON.

In the text a rule holds for its number of ranks and all above up to the next, so other
numbers of ranks get rules of algorithm 0, the decision of Open MPI itself.
"""

import json
from collections.abc import Iterator, Mapping
from itertools import pairwise

from collalgo.selection.peer_rules.algorithms import (
    DEFAULT,
    Table,
    base_and_parameters,
    find,
)

#: The numbers of collectives.
NUMBERS = {
    "allgather": 0, "allreduce": 2, "alltoall": 3, "barrier": 6, "bcast": 7,
    "exscan": 8, "gather": 9, "reduce": 11, "reduce_scatter_block": 13, "scan": 14,
    "scatter": 15,
}  # fmt: skip

#: Collectives with one algorithm for all sizes: Open MPI gives them no size, or one
#: that only the root, or only the others, know, so that ranks could differ.
SIZELESS = ("barrier", "exscan", "gather", "scan", "scatter")

#: The columns of a rule.
COLUMNS = "least bytes: algorithm, fanout, bytes of a segment"

#: What makes Open MPI read a file, and its algorithms of several hosts follow it.
USE = {"OMPI_MCA_coll_tuned_use_dynamic_rules": "1"}
FILE = "OMPI_MCA_coll_tuned_dynamic_rules_filename"
FLAT = {"OMPI_MCA_coll_han_priority": "0"}


def environment(file: str, hosts: int = 1) -> dict[str, str]:
    """The variables with which Open MPI follows a file."""
    return {**USE, FILE: file, **(FLAT if hosts > 1 else {})}


def text_of(table: Table, mark: str) -> str:
    """The rules in the classic format, which 4 to 6 read."""
    lines = [f"# {mark}", f"{len(table)} # collectives"]
    for collective, by_ranks in table.items():
        rules = _with_others(by_ranks)
        lines += [
            f"{NUMBERS[collective]} # {collective}",
            f"{len(rules)} # numbers of ranks",
        ]
        for ranks, sizes in rules.items():
            lines += [f"{ranks} # ranks", f"{len(sizes)} # {COLUMNS}"]
            lines += [_rule(collective, least, name) for least, name in sizes.items()]
    return "\n".join([*lines, ""])


def _with_others(
    by_ranks: Mapping[int, Mapping[int, str]],
) -> dict[int, dict[int, str]]:
    """Rules from each number of ranks on, in ascending order, the first from 0."""
    found: dict[int, dict[int, str]] = {0: {0: DEFAULT}}
    for ranks in by_ranks:
        found.setdefault(ranks + 1, {0: DEFAULT})
    found |= {ranks: dict(sizes) for ranks, sizes in by_ranks.items()}
    return dict(sorted(found.items()))


def _rule(collective: str, least: int, name: str) -> str:
    number, fanout, segment = _parameters(collective, name)
    return f"{least} {number} {fanout} {segment} # {name}"


def _parameters(collective: str, name: str) -> tuple[int, int, int]:
    """The number of an algorithm, its fanout and the bytes of its segments."""
    if name == DEFAULT:
        return 0, 0, 0
    _, parameters = base_and_parameters(name)
    found = find("openmpi", collective, name)
    fanout, segment = (int(parameters.get(key, 0)) for key in ("fanout", "segsize"))
    return found.number, fanout, segment


def json_of(table: Table, mark: str) -> str:
    """The rules as JSON, which Open MPI 6 reads."""
    collectives = {
        collective: [
            {
                "comm_size_min": ranks,
                "comm_size_max": ranks,
                "rules": list(_json_rules(collective, sizes)),
            }
            for ranks, sizes in by_ranks.items()
        ]
        for collective, by_ranks in table.items()
    }
    head = {"maker": mark, "rule_file_version": 3, "module": "tuned"}
    return json.dumps({**head, "collectives": collectives}, indent=1) + "\n"


def _json_rules(
    collective: str, sizes: Mapping[int, str]
) -> Iterator[dict[str, int | str]]:
    """The rules of a number of ranks; sizes without one have Open MPI's decision."""
    for (least, name), (limit, _) in pairwise([*sizes.items(), (0, "")]):
        if name != DEFAULT:
            number, fanout, segment = _parameters(collective, name)
            most = limit - 1 if limit else "inf"
            limits = {"msg_size_min": least, "msg_size_max": most}
            rest = {"alg": number, "faninout": fanout, "seg_size": segment}
            yield {**limits, **rest}


def settings(collective: str, name: str) -> dict[str, str]:
    """The variables that force an algorithm."""
    number, fanout, segment = _parameters(collective, name)
    stem = f"OMPI_MCA_coll_tuned_{collective}_algorithm"
    found = {**USE, stem: str(number)}
    if fanout:
        found[f"{stem}_chain_fanout"] = str(fanout)
    if segment:
        found[f"{stem}_segmentsize"] = str(segment)
    return found
