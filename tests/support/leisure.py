"""Parameters that most runs of the tests leave out.

It imports little, as do the processes of ranks whose functions are in a test.
"""

import pytest


def at_leisure(values, quick):
    """Parameters of a test of which all but some are left to ``make slow``.

    Each is one value, or a tuple of those of several parameters.
    """
    several = [value if isinstance(value, tuple) else (value,) for value in values]
    quick = [value if isinstance(value, tuple) else (value,) for value in quick]
    return [
        pytest.param(*each, marks=[] if each in quick else pytest.mark.slow)
        for each in several
    ]
