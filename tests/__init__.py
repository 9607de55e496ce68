"""The tests; ranks import those whose functions they run, without pytest."""

from tests.support import marks_alone  # noqa: F401
