"""Load algorithms from files of users into the table."""

import importlib.util
from pathlib import Path
from types import ModuleType

from collalgo.algorithms.table import enter
from collalgo.base.input_files import special
from collalgo.errors import ScheduleError
from collalgo.integrations import msccl, mscclpp


def load(name: str) -> ModuleType:
    """Run a Python file and return its module.

    Raises
    ------
    ValueError
        If the file does not exist or cannot be run.
    """
    try:
        kind = special(name)
    except OSError as error:
        raise ValueError(f"there is no file {name!r}: {error.strerror}") from None
    if kind:
        raise ValueError(f"{name} is {kind}; name a file")
    spec = importlib.util.spec_from_file_location(Path(name).stem, name)
    if spec is None or spec.loader is None:
        raise ValueError(f"{name!r} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        what = f"{type(error).__name__}: {error}"
        raise ValueError(f"{name} cannot be run: {what}") from error
    return module


def load_algorithms(name: str) -> None:
    """Add the algorithms of a file to the table.

    Every rank must load the file. The algorithms are then available by name; each is
    proved before its first call.

    Parameters
    ----------
    name
        The file: Python with functions decorated by :func:`collalgo.algorithm`; MSCCL
        XML, if it ends in ``.xml``; an execution plan of MSCCL++, if in ``.json``.

    Raises
    ------
    ValueError
        If the file does not exist or is neither, or if an algorithm in it has the name
        of an algorithm of the library.
    """
    read = {".xml": msccl.algorithm_of, ".json": mscclpp.algorithm_of}
    ending = Path(name).suffix
    if ending not in read:
        load(name)
        return
    try:
        enter(read[ending](name))
    except ScheduleError as error:
        raise ValueError(str(error)) from None
