"""Whether UCX, which carries messages between hosts, can be used here."""

import pytest

from collalgo.engine.transport.ucx import library


def skip_without_ucx():
    try:
        library()
    except OSError as error:
        pytest.skip(f"there is no UCX: {error}")
