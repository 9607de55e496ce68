"""The formulas of the literature for each algorithm, to compare with the proofs.

Formulas are Python expressions over the number of ranks ``p`` with ``q = ceil(log2
p)``, ``h = floor(log2 p)``, ``P = 2**h`` and ``f = 1`` where p is not a power of two
and the ranks beyond P fold; over the radix ``k`` with ``S``, the sum of all factors
less one, ``g = 1`` where a fold is needed for them, and ``w = ceil(log_k p)``; over the
number ``n`` of segments or blocks; and over the dimensions ``d`` of a grid. Rounds are
of one-ported ranks that send and receive at once, bytes in buffers.
"""

from math import ceil, log, log2
from typing import NamedTuple

from collalgo.algorithms.catalogue import Algorithm
from collalgo.algorithms.radix import factors, primes, smooth, square


class Formula(NamedTuple):
    """The formulas of an algorithm, or None, and the reasons for differences.

    ``rounds`` and ``volume`` are of the longest path, ``sent`` and ``reduced`` of the
    busiest rank.
    """

    rounds: str | None = None
    volume: str | None = None
    sent: str | None = None
    reduced: str | None = None
    differs: str = ""


def values_at(row: Algorithm, size: int) -> dict[str, object]:
    """The values of the names in the formulas of a row."""
    given = dict(row.parameters)
    radix = given.get("radix", 2)
    acting = smooth(size, radix)
    half = size.bit_length() - 1
    # Long: one line for each name.
    return {
        "p": size,
        "q": (size - 1).bit_length(),
        "h": half,
        "P": 1 << half,
        "f": int(size != 1 << half),
        "k": radix,
        "S": sum(factor - 1 for factor in factors(acting, radix)),
        "g": int(acting != size),
        "w": ceil(round(log(size, radix), 9)),
        "n": given.get("segments", given.get("blocks", 8)),
        "d": square(size, given.get("axes", 2)),
        "primes": primes(size),
        "sum": sum,
        "log2up": lambda x: ceil(round(log2(x), 9)) if x > 1 else 0,
        "digits": lambda k: sum(_digits(i, k) for i in range(size)),
    }


def _digits(number: int, radix: int) -> int:
    """The number of digits that are not zero."""
    return (number % radix != 0) + _digits(number // radix, radix) if number else 0


ALL = "(p - 1) / p"
TWICE = "2 * (p - 1) / p"
LINES = "sum(x - 1 for x in d)"
AROUND = f"2 * {LINES}"

FIRST_SERVED = "messages of one step overlap: a child is counted as served first"
FOLDED = "the ranks beyond a power of two fold, which takes rounds and bytes of its own"
MIRRORED = (
    "the ranks beyond a power of two fold, and chunks move to their owners at the end"
)
NOT_FULL = "the last round is not full"
ONLY_CHILD = "on the longest path the deepest rank is an only child"
ROOT_ROUNDS = (
    "a rank sends or combines in each of the n - 1 + q rounds if it is the root"
)
ADDS = "a rank adds its value in a step of its own"
SHIFTED = "all data is first shifted by one rank"
SMOOTH = "factors below k need fewer rounds; other numbers of ranks fold"
STAGGERED = "a segment begins one step after the one before, not one turn"
SWING = "even numbers take ceil(log2 p) rounds each way; of odd ones a rank folds"
TWO_MESSAGES = "the messages of a step on several lanes leave one after the other"
TWO_TREES = "a rank alternates between both trees, and messages of one step overlap"
FORMULAS: dict[tuple[str, str], Formula] = {}


def _of(collective: str, **formulas: Formula) -> None:
    FORMULAS.update({(collective, name): each for name, each in formulas.items()})


_of(
    "allreduce",
    one_shot=Formula("p - 1", "p - 1", "p - 1", "p - 1"),
    two_shot=Formula("2 * (p - 1)", TWICE, TWICE, ALL),
    ring=Formula("2 * (p - 1)", TWICE, TWICE, ALL),
    segmented_ring=Formula("(n + 1) * (p - 1)", TWICE, TWICE, ALL, differs=STAGGERED),
    bidirectional_ring=Formula("2 * (p - 1)", TWICE, TWICE, ALL, differs=TWO_MESSAGES),
    multi_ring=Formula("2 * (p - 1)", TWICE, TWICE, ALL, differs=TWO_MESSAGES),
    halving_doubling=Formula(
        "2 * h + 2 * f",
        "2 * (P - 1) / P + 2 * f",
        "2 * (P - 1) / P + f",
        "(P - 1) / P + f",
    ),
    k_ary_halving_doubling=Formula(
        "2 * (k - 1) * w", TWICE, TWICE, ALL, differs=SMOOTH
    ),
    recursive_doubling=Formula("h + 2 * f", "h + 2 * f", "h + f", "h + f"),
    recursive_multiplying=Formula("S + 2 * g", "S + 2 * g", "S + g", "S + g"),
    linear=Formula("2 * (p - 1)", "2 * (p - 1)", "p - 1", "p - 1"),
    reduce_broadcast=Formula("2 * q", "2 * q", "q", "q"),
    binary_blocks=Formula(
        "2 * h",
        "2",
        "2",
        "1",
        differs="a block below the largest adds two rounds, and sends to several ranks",
    ),
    circulant=Formula("2 * q", TWICE, TWICE, ALL),
    circulant_pipeline=Formula(
        "2 * (n - 1 + q)", "2 * (n - 1 + q) / n", "2", "1", differs=ROOT_ROUNDS
    ),
    swing=Formula("2 * h", TWICE, TWICE, ALL, differs=SWING),
    bine=Formula("2 * h", TWICE, TWICE, ALL, differs=FOLDED),
    trivance=Formula(None, TWICE, TWICE, ALL),
    late_rank=Formula(),
    late_broadcast=Formula(),
    pipeline=Formula("2 * (n + p - 2)", "2 * (n + p - 2) / n", "2", "1"),
    double_tree=Formula("2 * q + n", None, "2", "1", differs=TWO_TREES),
    butterfly=Formula("2 * h", TWICE, TWICE, ALL, differs=FOLDED),
    ring_2d=Formula(
        "4 * (d[0] - 1) + 2 * (d[1] - 1)",
        "4 * (d[0] - 1) / d[0] + 2 * (d[1] - 1) / d[1]",
        "3 * (d[0] - 1) / d[0] + 2 * (d[1] - 1) / d[1]",
        "(d[0] - 1) / d[0] + (d[1] - 1) / d[1]",
    ),
    ring_3d=Formula("4 * (d[0] - 1) + 4 * (d[1] - 1) + 2 * (d[2] - 1)"),
    two_level=Formula(),
    torus_2d=Formula(AROUND, TWICE, TWICE, ALL),
    torus_3d=Formula(AROUND, TWICE, TWICE, ALL),
    torus_2d_all_ways=Formula(AROUND, TWICE, TWICE, ALL, differs=TWO_MESSAGES),
    torus_3d_all_ways=Formula(AROUND, TWICE, TWICE, ALL, differs=TWO_MESSAGES),
    mesh_2d=Formula(
        AROUND,
        "sum(2 * (x - 1) / x for x in d)",
        "sum(2 * (x - 1) / x for x in d)",
        "sum((x - 1) / x for x in d)",
    ),
    mesh_3d=Formula(
        AROUND,
        "sum(2 * (x - 1) / x for x in d)",
        "sum(2 * (x - 1) / x for x in d)",
        "sum((x - 1) / x for x in d)",
    ),
    mesh_2d_both_axes=Formula(AROUND, TWICE, TWICE, ALL, differs=TWO_MESSAGES),
    blueconnect=Formula("2 * sum(x - 1 for x in primes)", TWICE, TWICE, ALL),
    bcube=Formula("2 * sum(x - 1 for x in primes)", TWICE, TWICE, ALL),
    hierarchical=Formula(),
    forest=Formula(),
)
_of(
    "reduce",
    linear=Formula("p - 1", "p - 1", "1", "p - 1"),
    chain=Formula(),
    pipeline=Formula("n + p - 2", "(n + p - 2) / n", "1", "1"),
    binary=Formula("2 * h", "2 * h", "1", "2", differs=ONLY_CHILD),
    in_order_binary=Formula("2 * h", "2 * h", "1", "2", differs=ONLY_CHILD),
    binomial=Formula("q", "q", "1", "q"),
    k_nomial=Formula(
        "(k - 1) * w", "(k - 1) * w", "1", "(k - 1) * w", differs=NOT_FULL
    ),
    rabenseifner=Formula("2 * h + f", "2 * (P - 1) / P + f", None, "(P - 1) / P + f"),
    circulant=Formula("n - 1 + q", "(n - 1 + q) / n", "1", "1", differs=ROOT_ROUNDS),
    double_tree=Formula("q + n", None, "1", "1", differs=TWO_TREES),
    bine=Formula("h", "h", "1", "h", differs=FOLDED),
    striped_chains=Formula(),
    torus_2d_trees=Formula(),
)
_of(
    "broadcast",
    linear=Formula("p - 1", "p - 1", "p - 1"),
    chain=Formula(),
    pipeline=Formula("n + p - 2", "(n + p - 2) / n", "1"),
    binary=Formula("2 * h", "2 * h", "2", differs=FIRST_SERVED),
    split_binary=Formula("2 * h + 1", None, None, differs=FIRST_SERVED),
    binomial=Formula("q", "q", "q"),
    k_nomial=Formula("(k - 1) * w", "(k - 1) * w", "(k - 1) * w", differs=NOT_FULL),
    van_de_geijn=Formula("q + p - 1", TWICE, TWICE),
    van_de_geijn_doubling=Formula("2 * q", TWICE, TWICE, differs=FOLDED),
    circulant=Formula("n - 1 + q", "(n - 1 + q) / n", "1", differs=ROOT_ROUNDS),
    double_tree=Formula("2 * q + 2 * n", None, "1", differs=TWO_TREES),
    bine=Formula("h", "h", "h", differs=FOLDED),
    two_level=Formula(),
    striped_chains=Formula(),
    torus_2d_trees=Formula(),
)
_of(
    "allgather",
    direct=Formula("p - 1", ALL, ALL),
    ring=Formula("p - 1", ALL, ALL),
    neighbor_exchange=Formula("p / 2", ALL, ALL),
    recursive_doubling=Formula("h", ALL, ALL, differs=FOLDED),
    recursive_multiplying=Formula("S", ALL, ALL, differs=SMOOTH),
    bruck=Formula("q", ALL, ALL),
    k_bruck=Formula("(k - 1) * w", ALL, ALL, differs=NOT_FULL),
    sparbit=Formula("q", ALL, ALL),
    pat=Formula(None, ALL, ALL),
    circulant=Formula("q", ALL, ALL),
    swing=Formula("h", ALL, ALL, differs=SWING),
    bine=Formula("h", ALL, ALL, differs=FOLDED),
    trivance=Formula(None, ALL, ALL),
    torus_2d=Formula(LINES, ALL, ALL),
    torus_3d=Formula(LINES, ALL, ALL),
    torus_2d_all_ways=Formula(LINES, ALL, ALL, differs=TWO_MESSAGES),
    torus_3d_all_ways=Formula(LINES, ALL, ALL, differs=TWO_MESSAGES),
    bcube=Formula("sum(x - 1 for x in primes)", ALL, ALL),
    hierarchical=Formula(),
    multi_leader=Formula(),
)
_of(
    "reduce_scatter",
    direct=Formula("p - 1", ALL, ALL, ALL),
    pairwise=Formula("p - 1", ALL, ALL, ALL),
    ring=Formula("p - 1", ALL, ALL, ALL),
    recursive_halving=Formula(
        "h + 2 * f",
        "(P - 1) / P + f + f / p",
        None,
        None,
        differs="a rank that acts for two has both their blocks, which travel together",
    ),
    k_nomial=Formula("(k - 1) * w", ALL, ALL, ALL, differs=SMOOTH),
    reduce_then_scatter=Formula("2 * q", None, None, "q"),
    circulant=Formula("q", ALL, ALL, ALL),
    butterfly=Formula("h", ALL, ALL, ALL, differs=MIRRORED),
    pat=Formula(None, ALL, ALL, ALL),
    swing=Formula("h", ALL, ALL, ALL, differs=SWING),
    bine=Formula("h", ALL, ALL, ALL, differs=FOLDED),
    trivance=Formula(None, ALL, ALL, ALL),
    torus_2d=Formula(LINES, ALL, ALL, ALL),
    torus_3d=Formula(LINES, ALL, ALL, ALL),
    torus_2d_all_ways=Formula(LINES, ALL, ALL, ALL, differs=TWO_MESSAGES),
    torus_3d_all_ways=Formula(LINES, ALL, ALL, ALL, differs=TWO_MESSAGES),
    bcube=Formula("sum(x - 1 for x in primes)", ALL, ALL, ALL),
    hierarchical=Formula(),
)
_of(
    "alltoall",
    linear=Formula("p - 1", ALL, ALL),
    pairwise=Formula("p - 1", ALL, ALL),
    spread_out=Formula("p - 1", ALL, ALL),
    bruck=Formula("q", "digits(2) / p", "digits(2) / p"),
    k_bruck=Formula("(k - 1) * w", "digits(k) / p", "digits(k) / p", differs=NOT_FULL),
    circulant=Formula("q", None, None),
    hybrid=Formula("q", "digits(2) / p", "digits(2) / p"),
    two_step=Formula(),
    three_step=Formula(),
)
_of(
    "gather",
    linear=Formula("p - 1", ALL),
    binomial=Formula("q", ALL),
    k_nomial=Formula("(k - 1) * w", ALL, differs=NOT_FULL),
    hierarchical=Formula(),
)
_of(
    "scatter",
    linear=Formula("p - 1", ALL, ALL),
    binomial=Formula("q", ALL, ALL),
    k_nomial=Formula("(k - 1) * w", ALL, ALL, differs=NOT_FULL),
    hierarchical=Formula(),
)
_of(
    "scan",
    linear=Formula("p - 1", "p - 1", "1", "1"),
    recursive_doubling=Formula("q", "q", "q", "q"),
    pipelined=Formula("n + p - 2", "(n + p - 2) / n", "1", "1"),
)
_of(
    "exscan",
    linear=Formula("p - 1", "p - 1", "1", "1", differs=SHIFTED),
    recursive_doubling=Formula("log2up(p - 1) + 1", "log2up(p - 1) + 1", None, None),
    pipelined=Formula("n + p - 2", "(n + p - 2) / n", "1", "1", differs=SHIFTED),
    **{"123_doubling": Formula("log2up((p - 1) * 4 / 3)", "log2up((p - 1) * 4 / 3)")},
    chain=Formula("n + p - 2", "(n + p - 2) / n", "1", "1", differs=ADDS),
)
_of(
    "barrier",
    linear=Formula("2 * (p - 1)"),
    double_ring=Formula("2 * p"),
    recursive_doubling=Formula("h + 2 * f"),
    dissemination=Formula("q"),
    k_dissemination=Formula("(k - 1) * w", differs=NOT_FULL),
    tree=Formula("2 * q"),
)
