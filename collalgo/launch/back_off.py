"""The pause before the restart of a rank."""

#: Seconds before the first restart of a rank, which double with each further one, and
#: at most.
BACK_OFF, LONGEST_BACK_OFF = 0.1, 60.0


def back_off(number: int) -> float:
    """Seconds before the restart of a rank that has died ``number`` times."""
    return min(BACK_OFF * 2.0 ** min(number - 1, 1000), LONGEST_BACK_OFF)
