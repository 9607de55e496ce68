"""What stands for pytest in processes that do not run tests, such as those of ranks.

Marks mean nothing there, and pytest takes as long to import as all else of a rank. It
is imported once something else of it is used.
"""

import sys
from importlib import import_module
from types import ModuleType


class Mark:
    """Any mark, parameter or fixture: as a decorator it returns the function."""

    def __getattr__(self, name):
        return self

    def __call__(self, *given, **_):
        return given[0] if given and callable(given[0]) else self


class Marks(ModuleType):
    """The marks of pytest; all else is that of pytest itself."""

    mark = param = fixture = Mark()

    def __getattr__(self, name):
        if name.startswith("__"):  # who looks through all modules needs none
            raise AttributeError(name)
        del sys.modules[self.__name__]
        value = getattr(import_module(self.__name__), name)
        setattr(self, name, value)
        return value


if "pytest" not in sys.modules:
    sys.modules["pytest"] = Marks("pytest")
