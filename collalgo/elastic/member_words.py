"""The members of a job in words: those that are gone, and the names of ranks."""

from collections.abc import Mapping, Sequence

#: The most members whose names are shown.
MOST_NAMES = 16


def gone_in_words(names: Sequence[str], exclusions: Mapping[str, str]) -> str:
    """The loss of members, and the exclusions of others with their reasons."""
    lost = [name for name in names if name not in exclusions]
    excluded = [name for name in names if name in exclusions]
    parts = [lost_in_words(lost)] if lost or not excluded else []
    parts += [f"{n} was excluded ({exclusions[n]})" for n in excluded[:MOST_NAMES]]
    if more := _more(excluded):
        parts.append(f"{more} more were excluded")
    return ", ".join(parts)


def lost_in_words(names: Sequence[str]) -> str:
    """The loss of members; one that is back already has no name here."""
    if not names:
        return "a member was lost"
    return f"{_listed(names)} {'were' if names[1:] else 'was'} lost"


def joined_in_words(names: Sequence[str]) -> str:
    """The members that have joined."""
    return f"{_listed(names)} {'have' if names[1:] else 'has'} joined"


def _more(names: Sequence[str]) -> int:
    """The number of names that are not shown."""
    return max(len(names) - MOST_NAMES, 0)


def _listed(names: Sequence[str]) -> str:
    """Some names, the last after ``and``."""
    *others, last = names[:MOST_NAMES]
    if more := _more(names):
        others, last = [*others, last], f"{more} more"
    first = f"{', '.join(others)} and " if others else ""
    return f"{first}{last}"


def names_of_ranks(names: Sequence[str]) -> str:
    """The member of each rank of an epoch; empty if their names show it."""
    if all(name == f"rank {rank}" for rank, name in enumerate(names)):
        return ""
    shown = [f"{rank}: {name}" for rank, name in enumerate(names[:MOST_NAMES])]
    more = f" and {_more(names)} more" if _more(names) else ""
    return f" (the members by rank are {', '.join(shown)}{more})"
