"""The call of a function in other processes, and its outcome, as pickles.

Objects that can be imported are pickled by name. All others, as functions typed at a
prompt, are pickled by value, for which cloudpickle is needed.
"""

import os
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from collalgo.errors import CollalgoError
from collalgo.launch.rank_function import Failure

#: The keys of multiprocessing's preparation of a process that are used here.
MODULES = ("sys_path", "sys_argv")
MAIN = ("init_main_from_name", "init_main_from_path")

#: The names of the main module in a pickle: in its process, and in a rank that imports
#: it again.
MAIN_NAMES = (b"__main__", b"__mp_main__")

#: The errors of objects that cannot be pickled by name.
UNPICKLABLE = (AttributeError, TypeError, pickle.PicklingError)


class Call(NamedTuple):
    """A call: the function, its arguments after the communicator, and its timeout."""

    function: Callable[..., object]
    args: Sequence[Any]
    timeout: float | None

    def encode(self, caller: str) -> bytes:
        """The call for a new process, on whichever host.

        ``caller`` is the function that errors name.

        Raises
        ------
        CollalgoError
            If it needs cloudpickle, which is not installed, or cannot be pickled.
        """
        if _Importing.main:
            raise CollalgoError(
                f"{caller} was called while a rank imports the main module; call it "
                "below: if __name__ == '__main__'"
            )
        body, by_value = self._pickled(caller)
        names_main = not by_value and any(name in body for name in MAIN_NAMES)
        return pickle.dumps((_modules(names_main), body, self.timeout))

    def _pickled(self, caller: str) -> tuple[bytes, bool]:
        """The function, its arguments, and whether the main module is pickled."""
        body, reason = b"", ""
        try:
            body = pickle.dumps((self.function, self.args))
        except UNPICKLABLE as error:
            reason = str(error)
        module = getattr(self.function, "__module__", None)
        if not reason and module == "__main__" and not _has_file():
            reason = "its module is not a file"
        if not reason and _has_file():
            return body, False
        try:
            import cloudpickle
        except ImportError:
            if not reason:
                return body, True
            raise CollalgoError(self._refusal(caller, reason)) from None
        return bytes(cloudpickle.dumps((self.function, self.args))), True

    def _refusal(self, caller: str, reason: str) -> str:
        name = getattr(self.function, "__qualname__", repr(self.function))
        return (
            f"{caller}: a new process cannot import {name} or its arguments ({reason});"
            " define it at the top of a file, or pip install 'collalgo[cloudpickle]', "
            "or run the ranks in this process: collalgo.threads(fn, size)"
        )

    @classmethod
    def decode(cls, message: bytes) -> "Call":
        """The call of a message, once its modules can be imported here.

        Raises
        ------
        CollalgoError
            If the function or its arguments are not in the modules that they name.
        """
        from multiprocessing import spawn

        modules, body, timeout = pickle.loads(message)
        with _Importing.of_main():
            spawn.prepare(modules)
        try:
            function, args = pickle.loads(body)
        except (AttributeError, ImportError) as error:
            raise CollalgoError(
                f"a new process cannot import the function or its arguments ({error}); "
                "define them at the top of a file, outside of if __name__ == "
                "'__main__', or run the ranks in this process: collalgo.threads(fn, "
                "size)"
            ) from None
        return cls(function, args, timeout)


class _Importing:
    """Whether this process imports the main module of another, to be a rank of it."""

    main = False

    @classmethod
    @contextmanager
    def of_main(cls) -> Iterator[None]:
        cls.main = True
        try:
            yield
        finally:
            cls.main = False


def _modules(names_main: bool) -> dict[str, Any]:
    """The paths of modules for a new process, and its main module if needed."""
    from multiprocessing import spawn

    found = spawn.get_preparation_data("rank")
    names = (*MODULES, *MAIN) if names_main else MODULES
    return {name: found[name] for name in names if name in found}


def _has_file() -> bool:
    """Whether a new process can import the main module again."""
    module: ModuleType | None = sys.modules.get("__main__")
    spec, file = getattr(module, "__spec__", None), getattr(module, "__file__", None)
    return spec is not None or (file is not None and Path(file).is_file())


def encode_result(result: object) -> bytes:
    """The outcome of a call that has returned."""
    try:
        return pickle.dumps((result, None))
    except UNPICKLABLE:
        try:
            import cloudpickle
        except ImportError:
            cloudpickle = None
        if cloudpickle is None:
            raise
        return bytes(cloudpickle.dumps((result, None)))


def encode_failure(failure: Failure) -> bytes:
    """The outcome of a call that has raised; an error without a pickle becomes text."""
    try:
        message = pickle.dumps((None, failure))
        pickle.loads(message)
    except Exception:
        error = CollalgoError(str(failure.error), rank=failure.rank)
        message = pickle.dumps((None, failure._replace(error=error)))
    return message


def decode_outcome(message: bytes, rank: int) -> tuple[object, Failure | None]:
    """The result of a rank, or its failure, also if it cannot be unpickled here."""
    try:
        result, failure = pickle.loads(message)
    except Exception as error:
        text = (
            f"the result of rank {rank} cannot be unpickled in process "
            f"{os.getpid()}: {type(error).__name__}: {error}"
        )
        return None, Failure(rank, CollalgoError(text, rank=rank), text)
    return result, failure
