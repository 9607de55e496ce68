"""Selections of MPICH: trees of conditions as JSON.

A file replaces all selections of MPICH, so what is not tuned has MPICH's own algorithm:
by its policy (``selection/policies/mpich.yaml``) for collectives that can be tuned, by
``mpich.yaml`` for all others. A second file is for algorithms by flags in shared memory
(``release_gather``), which MPICH prefers on one host.
"""

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from itertools import pairwise
from typing import Any, TypeAlias

import yaml

from collalgo.selection.peer_rules.algorithms import (
    DEFAULT,
    Table,
    algorithms_of,
    base_and_parameters,
    ours,
)
from collalgo.selection.rules import Rules, of_peer

#: Conditions, each with its algorithm or further conditions.
Tree: TypeAlias = "str | dict[str, Tree]"

#: What makes MPICH read the two files.
FILE = "MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE"
SHARED_FILE = "MPIR_CVAR_CH4_POSIX_COLL_SELECTION_TUNING_JSON_FILE"

#: Collectives with flags in shared memory, with the number of the composition in which
#: the hosts do not matter.
FLAGS = {"allreduce": 2, "barrier": 2, "bcast": 3, "reduce": 3}

#: The conditions before all sizes: the algorithm for ops and buffers others refuse.
EXCLUDED = {
    "allreduce": {
        "is_commutative=no": "recursive_doubling",
        "is_op_built_in=no": "recursive_doubling",
    },
    "alltoall": {"is_sendbuf_inplace=yes": "pairwise_sendrecv_replace"},
    "reduce": {"is_op_built_in=no": "binomial"},
    "reduce_scatter_block": {"is_commutative=no": "recursive_doubling"},
}

#: The algorithms that need an element for each rank, and what takes their place.
MANY = {
    "reduce_scatter_allgather": "recursive_doubling",
    "reduce_scatter_gather": "binomial",
}

#: Collectives whose sizes are those of one rank; others count the blocks of all.
PER_RANK = ("allreduce", "bcast", "reduce")

#: The largest size that MPICH can compare, in bytes.
LARGEST = (1 << 31) - 1

#: The bytes of a page: MPICH reads a file up to the first byte 0 behind it.
PAGE = 4096

#: The variables of the parameters of an algorithm, after the name of its collective.
VARIABLES = {
    "k_brucks": {"k": "BRUCKS_KVAL"},
    "k_dissemination": {"k": "DISSEM_KVAL"},
    "recursive_multiplying": {"k": "RECURSIVE_MULTIPLYING_KVAL"},
    "pipelined_tree": {
        "tree_type": "TREE_TYPE",
        "k": "TREE_KVAL",
        "is_non_blocking": "IS_NON_BLOCKING",
        "chunk_size": "TREE_PIPELINE_CHUNK_SIZE",
        "recv_pre_posted": "RECV_PRE_POST",
    },
}


def environment(file: str, hosts: int = 1) -> dict[str, str]:
    """The variables with which MPICH follows a file."""
    if hosts == 1:
        return {FILE: file, SHARED_FILE: shared_file(file)}
    flat = {
        f"MPIR_CVAR_{name.upper()}_COMPOSITION": str(n) for name, n in FLAGS.items()
    }
    return {FILE: file, **flat}


def shared_file(file: str) -> str:
    """The name of the second file."""
    return f"{file}.shared"


def settings(collective: str, name: str) -> dict[str, str]:
    """The variables that force an algorithm."""
    base, parameters = base_and_parameters(name)
    stem = f"MPIR_CVAR_{collective.upper()}"
    found = {f"{stem}_INTRA_ALGORITHM": base}
    if collective in FLAGS:
        found[f"{stem}_POSIX_INTRA_ALGORITHM"] = "mpir"
    for key, value in parameters.items():
        found[f"{stem}_{VARIABLES[base][key]}"] = value
    return found


def text_of(table: Table, mark: str) -> str:
    """The selections of all collectives."""
    tree: dict[str, Tree] = {
        f"collective={name}": _kinds(name, table.get(name, {}), kinds)
        for name, kinds in _untuned().items()
    }
    # MPICH refuses keys that it does not know, but in the parameters of an algorithm.
    tree["collective=exscan"] = _leaf("exscan", "intra", "recursive_doubling", mark)
    return _padded(tree)


def shared_text_of(table: Table, mark: str) -> str:
    """The numbers of ranks and sizes that use flags in shared memory.

    MPICH uses them if a single thread makes calls; sizes with an algorithm do not.
    """
    tree: dict[str, Tree] = {}
    for name in FLAGS:
        key = f"algorithm=MPIDI_POSIX_mpi_{name}_release_gather"
        flags: Tree = {key: {mark: {}} if name == "barrier" else {}}
        if name in ("allreduce", "reduce"):
            flags = {"is_commutative=yes": flags}
        used: Tree = {"is_multi_threaded=no": flags}
        not_used: Tree = {"is_multi_threaded=yes": used}  # a condition that never holds
        by_ranks = {
            ranks: _by_size(
                _size(name),
                {n: used if one == DEFAULT else not_used for n, one in sizes.items()},
            )
            for ranks, sizes in table.get(name, {}).items()
        }
        tree[f"collective={name}"] = {"comm_type=intra": _by_ranks(by_ranks, used)}
    return _padded(tree)


@cache
def _untuned() -> dict[str, dict[str, Tree]]:
    """What MPICH does without a file, for each collective and kind of communicator."""
    file = resources.files(__package__) / "mpich.yaml"
    found: dict[str, dict[str, Tree]] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return found


def _kinds(
    collective: str, by_ranks: Mapping[int, Mapping[int, str]], kinds: dict[str, Tree]
) -> Tree:
    """The tree of a collective, for communicators of one group and of two."""
    if "allcomm" in kinds:
        found: Tree = _expanded(collective, "allcomm", kinds["allcomm"])
        return found
    own = kinds.get("intra") or _of_policy(collective)
    rest = _expanded(collective, "intra", own)
    tuned = {
        ranks: _tuned(collective, sizes, rest) for ranks, sizes in by_ranks.items()
    }
    excluded = _expanded(collective, "intra", dict(EXCLUDED.get(collective, {})))
    intra = {**excluded, **_by_ranks(tuned, rest)}
    if "inter" not in kinds:
        return intra
    inter = _expanded(collective, "inter", kinds["inter"])
    return {"comm_type=intra": intra, "comm_type=inter": inter}


def _tuned(collective: str, sizes: Mapping[int, str], rest: Tree) -> Tree:
    """The tree of a number of ranks; the default of MPICH has the tree ``rest``."""
    size = "total_msg_size" if collective == "alltoall" else _size(collective)
    trees = {
        least: rest if name == DEFAULT else _leaf(collective, "intra", name)
        for least, name in sizes.items()
    }
    return _by_size(size, trees)


def _of_policy(collective: str) -> Tree:
    """The default of MPICH, as its policy has it."""
    rules = _policy()
    size = "avg_msg_size" if collective == "alltoall" else _size(collective)
    found: dict[str, Tree] = {}
    for rule in rules.table[ours(collective)]:
        ranks = "comm_size=pow2" if rule.power_of_two else "comm_size=any"
        if rule.most < LARGEST:
            ranks = f"comm_size<={rule.most}"
        sizes = {least: _theirs(collective, name) for least, name in rule.sizes}
        found[ranks] = _by_size(size, sizes)
    return found


@cache
def _policy() -> Rules:
    return of_peer("mpich")


def _theirs(collective: str, name: str) -> str:
    """The name of MPICH for an algorithm of collalgo."""
    known = algorithms_of("mpich")[collective]
    return next(one.name for one in known if name in one.ours)


def _size(collective: str) -> str:
    """The size that MPICH compares: of one rank's buffer, or of all blocks."""
    return "avg_msg_size" if collective in PER_RANK else "total_msg_size"


def _by_size(size: str, trees: Mapping[int, Tree]) -> Tree:
    """Conditions on the size, from least sizes in bytes on; the first is 0."""
    found: dict[str, Tree] = {}
    for (_, tree), (limit, _) in pairwise([*trees.items(), (LARGEST + 1, "")]):
        if limit > LARGEST:
            found[f"{size}=any"] = tree
            break
        found[f"{size}<{limit}"] = tree
    return found if len(found) > 1 else next(iter(found.values()))


def _by_ranks(trees: Mapping[int, Tree], rest: Tree) -> dict[str, Tree]:
    """Conditions on the number of ranks, exact ones with the rest between."""
    found: dict[str, Tree] = {}
    for ranks, tree in sorted(trees.items()):
        found.setdefault(f"comm_size<={ranks - 1}", rest)
        found[f"comm_size<={ranks}"] = tree
    return {**found, "comm_size=any": rest}


def _expanded(collective: str, kind: str, tree: Tree) -> Any:
    """A tree with the names of its algorithms in full."""
    if isinstance(tree, str):
        return _leaf(collective, kind, tree)
    return {key: _expanded(collective, kind, value) for key, value in tree.items()}


def _leaf(collective: str, kind: str, name: str, mark: str = "") -> Tree:
    """An algorithm with its parameters, and the one for fewer elements than ranks."""
    base, parameters = base_and_parameters(name)
    full = f"algorithm=MPIR_{collective.capitalize()}_{kind}_{base}"
    words = [mark] if mark else [f"{key}={value}" for key, value in parameters.items()]
    found: Tree = {full: {word: {} for word in words}}
    if base in MANY:
        few = _leaf(collective, kind, MANY[base])
        return {"count<pow2": few, "count=any": found}
    return found


def _padded(tree: Tree) -> str:
    """A tree as JSON, with a byte 0 behind it as the system maps it."""
    text = json.dumps(tree, indent=1) + "\n"
    return text if len(text) % PAGE else text + "\n"
