"""Files of users, whose algorithms are to be in the table."""

import importlib.util
from pathlib import Path
from types import ModuleType

from collalgo.algorithms.table import enter
from collalgo.errors import ScheduleError
from collalgo.integrations.msccl import algorithm_of


def load(name: str) -> ModuleType:
    """Run a file of Python, and give its module.

    Raises
    ------
    ValueError
        If there is no such file, or it cannot be run.
    """
    if not Path(name).is_file():
        raise ValueError(f"there is no file {name!r}")
    spec = importlib.util.spec_from_file_location(Path(name).stem, name)
    if spec is None or spec.loader is None:
        raise ValueError(f"{name!r} is no Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        raise ValueError(f"{name} cannot be run: {what}") from error
    return module


def load_algorithms(name: str) -> None:
    """Put the algorithms of a file into the table.

    They can be used at once by their names, on every rank that has loaded the file, and
    are proved before they move a byte.

    Parameters
    ----------
    name
        The file: Python in which :func:`collalgo.algorithm` decorates some, or, if it
        ends in ``.xml``, what MSCCL runs on GPUs.

    Raises
    ------
    ValueError
        If there is no such file, or it is neither, or an algorithm of the library has
        the name of one of its own.
    """
    if Path(name).suffix != ".xml":
        load(name)
        return
    try:
        enter(algorithm_of(name))
    except ScheduleError as error:
        raise ValueError(str(error)) from None
