"""The selection files of MPICH name an algorithm for every call."""

import json

from collalgo.selection.peer_rules import mpich
from collalgo.selection.peer_rules.algorithms import DEFAULT

MPICH = {
    "allreduce": {4: {0: DEFAULT, 4096: "ring", 65536: "reduce_scatter_allgather"}},
    "alltoall": {2: {0: "k_brucks(k=4)", 65536: DEFAULT}},
    "barrier": {2: {0: "k_dissemination(k=4)"}},
}


class Call:
    """A call as the conditions of MPICH see it."""

    def __init__(self, ranks, nbytes, count=1 << 20, blocks=False, **facts):
        self.ranks, self.count = ranks, count
        self.sizes = {"total_msg_size": nbytes, "avg_msg_size": nbytes}
        if blocks:
            self.sizes["avg_msg_size"] = nbytes // ranks
        self.facts = {
            "comm_type": "intra", "is_commutative": "yes", "is_op_built_in": "yes",
            "is_sendbuf_inplace": "no", "comm_hierarchy": "parent",
            "is_node_consecutive": "yes", "is_multi_threaded": "no", **facts,
        }  # fmt: skip

    def holds(self, condition):
        """Whether a condition holds."""
        if condition.endswith("any"):
            return True
        if condition == "comm_size=pow2":
            return self.ranks & (self.ranks - 1) == 0
        if condition == "count<pow2":
            return self.count < 1 << (self.ranks.bit_length() - 1)
        if "<" in condition:
            name, _, limit = condition.partition("<")
            value = {"comm_size": self.ranks, **self.sizes}[name]
            return value < int(limit.strip("=")) + limit.startswith("=")
        name, _, value = condition.partition("=")
        return self.facts[name] == value

    def algorithm(self, tree):
        """The algorithm with its parameters; None where no condition holds."""
        for condition, below in tree.items():
            if condition.startswith("algorithm="):
                return condition.removeprefix("algorithm="), sorted(below)
            if self.holds(condition):
                return self.algorithm(below)
        return None


def leaves(tree):
    for key, below in tree.items():
        yield from [key] if key.startswith("algorithm=") else leaves(below)


def test_mpich_finds_the_algorithm_and_its_own_elsewhere():
    tree = json.loads(mpich.text_of(MPICH, "a mark"))
    allreduce, alltoall = tree["collective=allreduce"], tree["collective=alltoall"]
    doubling = ("MPIR_Allreduce_intra_recursive_doubling", [])
    scattering = ("MPIR_Allreduce_intra_reduce_scatter_allgather", [])
    ring = ("MPIR_Allreduce_intra_ring", [])
    assert Call(4, 8).algorithm(allreduce) == doubling
    assert Call(4, 4095).algorithm(allreduce) == scattering  # of MPICH itself
    assert Call(4, 4096).algorithm(allreduce) == ring
    assert Call(4, 65536).algorithm(allreduce) == scattering
    assert Call(4, 65536, count=3).algorithm(allreduce) == doubling
    assert Call(4, 4096, is_commutative="no").algorithm(allreduce) == doubling
    assert Call(2, 4096).algorithm(allreduce) == scattering
    bruck = ("MPIR_Alltoall_intra_k_brucks", ["k=4"])
    assert Call(2, 65535, blocks=True).algorithm(alltoall) == bruck
    pairwise = ("MPIR_Alltoall_intra_pairwise", [])
    assert Call(2, 1 << 20, blocks=True).algorithm(alltoall) == pairwise
    assert Call(8, 2048, blocks=True).algorithm(alltoall)[0].endswith("brucks")
    between = Call(4, 4096, comm_type="inter").algorithm(allreduce)
    assert between == ("MPIR_Allreduce_inter_reduce_exchange_bcast", [])


def test_mpich_has_an_algorithm_for_every_call():
    tree = json.loads(mpich.text_of(MPICH, "a mark"))
    assert len(tree) == 44  # blocking and not, of one group and of neighbours
    for collective, below in tree.items():
        kinds = ["intra"]
        if not collective.endswith("scan"):
            kinds.append("inter")
        for ranks in (1, 2, 3, 4, 7, 8, 1000):
            for kind, yes in ((k, y) for k in kinds for y in ("yes", "no")):
                facts = ("is_commutative", "is_op_built_in", "is_sendbuf_inplace")
                call = Call(ranks, 1 << 20, comm_type=kind, **dict.fromkeys(facts, yes))
                assert call.algorithm(below), (collective, ranks, kind)
        stem = f"MPIR_{collective.removeprefix('collective=').capitalize()}_"
        assert all(one.startswith(f"algorithm={stem}") for one in leaves(below))


def test_mpich_uses_flags_in_shared_memory_where_nothing_is_tuned():
    tree = json.loads(mpich.shared_text_of(MPICH, "a mark"))
    flags = "MPIDI_POSIX_mpi_allreduce_release_gather"
    below = tree["collective=allreduce"]
    assert Call(4, 4095).algorithm(below)[0] == flags
    assert Call(4, 4096).algorithm(below) is None
    assert Call(4, 8, is_multi_threaded="yes").algorithm(below) is None
    assert Call(4, 4096, is_multi_threaded="yes").algorithm(below) is None
    assert Call(2, 4096).algorithm(below)[0] == flags
    assert Call(2, 0).algorithm(tree["collective=barrier"]) is None
    assert Call(2, 8).algorithm(tree["collective=bcast"])[0].endswith("release_gather")


def test_mpich_reads_a_byte_0_behind_the_file():
    size = len(mpich.text_of(MPICH, "x"))
    missing = -size % mpich.PAGE
    full = mpich.text_of(MPICH, "x" * (1 + missing))
    assert len(full) == size + missing + 1
    assert json.loads(full)
