"""The candidates of a selection as a table with bars, for notebooks."""

from collections.abc import Sequence
from html import escape

from collalgo.base.units import human_time
from collalgo.selection.candidate import Candidate

#: The styles of cells and of a bar; colours fit light and dark pages.
TEXT = 'style="text-align:left"'
NUMBER = 'style="text-align:right"'
BAR = "display:inline-block;height:0.8em;background:{};width:{:.1f}em"

#: The width of the longest bar, in em, and the colours of the choice and of others.
WIDEST, CHOICE, OTHER = 12.0, "#2f81c7", "#8a949e"


def html_table(
    captions: Sequence[str], candidates: Sequence[Candidate], bound: float | None
) -> str:
    """A row with a bar for each candidate, the choice first, and for the bound.

    Parameters
    ----------
    captions
        The headline, and further lines above the table.
    candidates
        The choice, and the others.
    bound
        The lower bound in seconds, if it is known.
    """
    choice, longest = candidates[0].seconds, max(c.seconds for c in candidates)
    rows = [(escape(c.words + c.mark), c.seconds, OTHER) for c in candidates]
    rows[0] = (f"<b>{rows[0][0]}</b>", choice, CHOICE)
    if bound:
        rows.append(("<i>lower bound</i>", bound, OTHER))
    heads = ("algorithm", "predicted time", "x the choice", "")
    head = "".join(f"<th>{name}</th>" for name in heads)
    body = "".join(_row(*row, choice, longest or 1.0) for row in rows)
    below = "".join(f"<br><small>{escape(line)}</small>" for line in captions[1:])
    return (
        f"<table><caption><b>{escape(captions[0])}</b>{below}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def _row(name: str, seconds: float, colour: str, choice: float, longest: float) -> str:
    ratio = seconds / choice if choice else 1.0
    bar = BAR.format(colour, WIDEST * min(seconds / longest, 1.0))
    return (
        f"<tr><td {TEXT}>{name}</td><td {NUMBER}>{human_time(seconds)}</td>"
        f'<td {NUMBER}>{ratio:.2f}</td><td {TEXT}><span style="{bar}"></span></td></tr>'
    )
