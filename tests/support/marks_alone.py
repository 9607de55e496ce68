"""What stands for pytest in processes that do not run tests, such as those of ranks.

Marks mean nothing there, and pytest takes as long to import as all else of a rank. It
is imported once more of it is used than is here.
"""

import re
import sys
from importlib import import_module
from types import ModuleType


class Mark:
    """Any mark, parameter or fixture: as a decorator it returns the function."""

    def __getattr__(self, name):
        return self

    def __call__(self, *given, **_):
        return given[0] if given and callable(given[0]) else self


class Raises:
    """What :func:`pytest.raises` returns, with the exception as ``value``."""

    def __init__(self, expected, *, match=""):
        self.expected, self.match = expected, match
        self.type = self.value = None

    def __enter__(self):
        return self

    def __exit__(self, kind, value, _):
        assert value is not None, f"{self.expected} is not raised"
        if not isinstance(value, self.expected):
            return False
        self.type, self.value = kind, value
        assert re.search(self.match, str(value)), f"{self.match!r} is not in {value!r}"
        return True


class Marks(ModuleType):
    """The marks of pytest; all else is that of pytest itself."""

    mark = param = fixture = Mark()
    raises = Raises

    def __getattr__(self, name):
        if name.startswith("__"):  # who looks through all modules needs none
            raise AttributeError(name)
        del sys.modules[self.__name__]
        value = getattr(import_module(self.__name__), name)
        setattr(self, name, value)
        return value


if "pytest" not in sys.modules:
    sys.modules["pytest"] = Marks("pytest")
