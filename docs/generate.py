"""Write the pages that are made from the code: ``make docs``."""

from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from collalgo import ALGORITHMS, Proof, verify
from collalgo.algorithms import Algorithm
from collalgo.algorithms.literature import CATALOGUE, values_at
from collalgo.base import output_files
from collalgo.schedule.collective import COLLECTIVES, Collective
from docs import folklore, layers, ratios
from docs.pages import PAGE

HEAD = """# The catalogue of algorithms

Made by `make docs` from the code; a test compares it. What is proved is computed from
the schedules themselves, for 8, 12, 16 and 33 ranks, with the parameters that are
given; beside it stand the formulas of the literature. Rounds are messages one after
the other of one-ported ranks that send and receive at once; bytes are in buffers of a
rank. Rounds and volume are those of the longest path, sent and reduced those of the
busiest rank.

In the formulas p is the number of ranks, q = ceil(log2 p), h = floor(log2 p), P = 2^h,
f = 1 where p is not P; k is the radix, w = ceil(log_k p), S the sum of all factors of
p less one each, g = 1 where ranks fold to get such factors; n is the number of
segments or blocks, d the dimensions of a grid; `log2up` rounds the logarithm up, and
`digits(k)` counts the digits other than 0 of all numbers below p to the base k.

An order of `serial` means that every result is the sum in the order of the ranks, one
of `ranks` that only neighbours in that order are ever combined, so that the op need
not commute. What is called reproducible can be had by `reproducible=True`. Swing for
whole vectors is missing on purpose: its ranks would not get the same bits.
"""

#: The numbers of ranks for which the page compares formulas with proofs.
SIZES = (8, 12, 16, 33)

MEASURES = ("rounds", "volume", "sent", "reduced")


class Comparison(NamedTuple):
    """A formula and what is proved, for each of :data:`SIZES` that can run."""

    formula: str | None
    predicted: list[Fraction] | None
    proved: list[Fraction]

    @property
    def agrees(self) -> bool:
        return self.predicted in (None, self.proved)


def compare(row: Algorithm, measure: str, proofs: dict[int, Proof]) -> Comparison:
    """Hold a formula of the catalogue against the proofs of a row."""
    formula = getattr(CATALOGUE[row.collective, row.name], measure)
    proved = [Fraction(getattr(proof, measure)) for proof in proofs.values()]
    predicted = None
    if formula is not None:
        names = {size: values_at(row, size) for size in proofs}
        predicted = [
            Fraction(eval(formula, names[size])).limit_denominator(10_000)
            for size in proofs
        ]
    return Comparison(formula, predicted, proved)


def proofs_of(row: Algorithm) -> dict[int, Proof]:
    """The proofs of a row for :data:`SIZES`."""
    return {
        size: verify(row.schedule, size=size, collective=row.collective)
        for size in SIZES
        if row.obstacle(size) is None
    }


def page() -> str:
    """The page ``docs/algorithms.md``."""
    sections = [HEAD]
    for name, collective in COLLECTIVES.items():
        rows = [row for row in ALGORITHMS if row.collective == name]
        rows = [row for row in rows if not row.unproved]
        proofs = {row.name: proofs_of(row) for row in rows}
        sections += [f"## {name}\n", *_stories(rows)]
        sections += _costs(rows, proofs)
        sections += _properties(rows, proofs, collective)
    return "\n".join(sections)


def _stories(rows: list[Algorithm]) -> list[str]:
    lines = ["| algorithm | parameters | how |", "|---|---|---|"]
    for row in rows:
        given = ", ".join(f"{key}={value}" for key, value in row.parameters)
        needs = row.obstacle(9)
        needs = f" It {needs.partition(' but ')[0]}." if needs else ""
        lines.append(f"| {row.name} | {given} | {row.summary}{needs} |")
    return [*lines, ""]


def _costs(rows: list[Algorithm], proofs: dict[str, dict[int, Proof]]) -> list[str]:
    """Formulas beside computed values, and why they differ."""
    head = " | ".join(f"{measure}, formula | proved" for measure in MEASURES)
    lines = [f"| algorithm | {head} |", "|---" * (1 + 2 * len(MEASURES)) + "|"]
    notes = []
    for row in rows:
        cells = [row.name]
        for measure in MEASURES:
            found = compare(row, measure, proofs[row.name])
            cells.append(f"`{found.formula}`" if found.formula else "")
            star = "" if found.agrees else " \\*"
            cells.append(", ".join(map(str, found.proved)) + star)
        lines.append("| " + " | ".join(cells) + " |")
        if reason := CATALOGUE[row.collective, row.name].differs:
            notes.append(f"- {row.name}: {reason}.")
    return [
        *lines,
        "",
        *(["\\* differs from the formula:", ""] if notes else []),
        *notes,
        "",
    ]


def _properties(
    rows: list[Algorithm], proofs: dict[str, dict[int, Proof]], collective: Collective
) -> list[str]:
    lines = [
        "| algorithm | steps | links | roundings | order | spare buffers |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        found = proofs[row.name].values()
        steps, links, roundings = (
            ", ".join(str(getattr(proof, name)) for proof in found)
            for name in ("steps", "links", "roundings")
        )
        orders = {proof.order for proof in found} if collective.reduces else set()
        order = next((o for o in ("any", "ranks", "serial") if o in orders), "")
        spare = max(proof.spare for proof in found)
        order += ", reproducible" if row.serial else ""
        lines.append(
            f"| {row.name} | {steps} | {links} | {roundings} | {order} "
            f"| {spare or ''} |"
        )
    return [*lines, ""]


if __name__ == "__main__":
    output_files.write(Path(__file__).with_name("algorithms.md"), page(), PAGE)
    folklore.write()
    ratios.write()
    layers.write()
