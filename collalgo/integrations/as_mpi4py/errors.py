"""Errors as ``MPI.Exception``, with the class and the text of each."""

from collections.abc import Callable, Sequence
from functools import total_ordering, wraps
from typing import Any, NoReturn, TypeVar

from collalgo import errors
from collalgo.integrations.as_mpi4py.constants import (
    ERR_LASTCODE,
    ERROR_CLASSES,
    ERRORS,
)

Function = TypeVar("Function", bound=Callable[..., Any])

#: The class of each error of the library; the first that fits.
CLASS_OF = (
    (errors.CommunicatorRevoked, "ERR_REVOKED"),
    (errors.PeerFailed, "ERR_PROC_FAILED"),
    (errors.CollectiveTimeout, "ERR_PENDING"),
    (errors.MismatchError, "ERR_NOT_SAME"),
    (errors.CommunicatorClosed, "ERR_COMM"),
    (errors.CollalgoError, "ERR_OTHER"),
)

#: The text of each code, and the class of each code that a program has added.
_texts = {
    number: f"MPI_{name}: {text}"
    for number, (name, text) in enumerate(ERROR_CLASSES.items())
}
_classes: dict[int, int] = {}
_names = dict(enumerate(ERROR_CLASSES))


@total_ordering
class MpiException(RuntimeError):
    """An error of a call; ``MPI.Exception``.

    Parameters
    ----------
    code
        The number of the error, or the name of its class.
    text
        What happened; by default the text of the code.
    """

    #: Whether the text begins with the name of a call.
    is_named = False

    def __init__(self, code: int | str = 0, text: str = ""):
        number = ERRORS[code] if isinstance(code, str) else int(code)
        self._code = number if number >= 0 else ERRORS["ERR_UNKNOWN"]
        self._text = text
        super().__init__(self._code, text) if text else super().__init__(self._code)

    def __str__(self) -> str:
        return self.Get_error_string()

    def __repr__(self) -> str:
        return f"MPI.Exception({', '.join(map(repr, self.args))})"

    def __int__(self) -> int:
        return self._code

    def __bool__(self) -> bool:
        return self._code != 0

    def __hash__(self) -> int:
        return hash(self._code)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int | MpiException) and self._code == int(other)

    def __lt__(self, other: Any) -> bool:
        return self._code < int(other)

    def Get_error_code(self) -> int:
        """The number of the error."""
        return self._code

    def Get_error_class(self) -> int:
        """The number of its class."""
        return error_class(self._code)

    def Get_error_string(self) -> str:
        """What happened."""
        if not self._text:
            return error_string(self._code)
        return f"MPI_{_names.get(self.error_class, 'error')}: {self._text}"

    error_code = property(Get_error_code)
    error_class = property(Get_error_class)
    error_string = property(Get_error_string)


def fail(name: str, text: str) -> NoReturn:
    """Raise an error of a class by its name."""
    raise MpiException(name, text)


def raises_mpi_exceptions(function: Function) -> Function:
    """Raise errors of the library as ``MPI.Exception``; name the call in others."""

    @wraps(function)
    def wrapped(*arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except errors.CollalgoError as error:
            raise as_mpi_exception(error) from error
        except OF_ARGUMENTS as error:
            if is_raised_here(error):
                add_name(error, _name_of(wrapped, arguments))
            raise

    return wrapped  # type: ignore[return-value]


def as_mpi_exception(error: BaseException) -> BaseException:
    """The ``MPI.Exception`` of an error of the library; other errors as they are."""
    for kind, name in CLASS_OF:
        if isinstance(error, kind):
            found = MpiException(name, str(error))
            found.is_named = True
            return found
    return error


# ---- the names of calls

#: The types of the errors of arguments.
OF_ARGUMENTS = MpiException, TypeError, ValueError, KeyError, BufferError


def is_raised_here(error: BaseException) -> bool:
    """Whether this package has raised an error, and not what the program passes."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    package = __name__.rpartition(".")[0]
    module = "" if trace is None else trace.tb_frame.f_globals.get("__name__", "")
    return str(module).startswith(package)


def add_name(error: Any, call: str) -> None:
    """Put the name of a call in front of the text of an error, if it has none."""
    *code, text = error.args or ("",)
    if isinstance(error, MpiException):
        if error.is_named or not code:
            return
        error._text = f"{call}: {text}"
    elif getattr(error, "is_named", False) or not isinstance(text, str):
        return
    error.is_named = True
    error.args = (*code, f"{call}: {text}")


def _name_of(method: Any, arguments: Sequence[Any]) -> str:
    """The name of a method that several calls may share the code of."""
    for kind in type(arguments[0]).__mro__[::-1] if arguments else ():
        for name, value in vars(kind).items():
            if value is method:
                return name
    return str(method.__name__)


# ---- the codes


def error_class(code: int) -> int:
    """The class of a code."""
    if code not in _texts:
        fail("ERR_ARG", f"there is no error code {code}")
    return _classes.get(code, code)


def error_string(code: int) -> str:
    """The text of a code."""
    if code not in _texts:
        fail("ERR_ARG", f"there is no error code {code}")
    return _texts[code]


def _new_code() -> int:
    used = max(_texts)
    return used + 1 if used > ERR_LASTCODE else ERR_LASTCODE + 1


def last_used_code() -> int:
    """The largest code; the value of the attribute ``LASTUSEDCODE``."""
    return max(ERR_LASTCODE, *_texts)


def add_error_class() -> int:
    """Add a class of errors: its number."""
    code = _new_code()
    _texts[code] = ""
    return code


def add_error_code(errorclass: int) -> int:
    """Add a code to a class: its number."""
    found = error_class(errorclass)
    code = add_error_class()
    _classes[code] = found
    return code


def add_error_string(errorcode: int, string: str) -> None:
    """Set the text of a code that a program has added."""
    _check_added(errorcode)
    _texts[errorcode] = string


def remove_error_string(errorcode: int) -> None:
    """Remove the text of a code that a program has added."""
    add_error_string(errorcode, "")


def remove_error_code(errorcode: int) -> None:
    """Remove a code or a class that a program has added."""
    _check_added(errorcode)
    if _texts[errorcode]:
        fail("ERR_OTHER", f"code {errorcode} has a string; remove that first")
    if errorcode in _classes.values():
        fail("ERR_OTHER", f"class {errorcode} has codes; remove them first")
    del _texts[errorcode]
    _classes.pop(errorcode, None)


def _check_added(code: int) -> None:
    if code <= ERR_LASTCODE or code not in _texts:
        fail("ERR_ARG", f"error code {code} was not added by this program")
