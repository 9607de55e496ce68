"""Error handlers of communicators; they are stored, but errors are always raised."""

from collections.abc import Callable
from typing import Any

from collalgo.integrations.as_mpi4py.handles import Handle, State, constant
from collalgo.integrations.as_mpi4py.process import PROCESS


class ErrhandlerState(State):
    """A function of an object and the code of an error."""

    def __init__(self, function: Callable[[Any, int], Any], predefined: str = ""):
        super().__init__(predefined)
        self.function = function


class Errhandler(Handle):
    """What is called by ``Call_errhandler``; ``MPI.Errhandler``."""

    null_name, error_name = "ERRHANDLER_NULL", "ERR_ERRHANDLER"

    def Free(self) -> None:
        """Free the handle."""
        _ = self.state
        self._state = None


def _end(_owner: Any, code: int) -> None:
    PROCESS.abort(code)


ERRHANDLER_NULL = constant("ERRHANDLER_NULL", Errhandler())
ERRORS_RETURN = constant(
    "ERRORS_RETURN", Errhandler.of_state(ErrhandlerState(lambda _owner, _code: None))
)
ERRORS_ARE_FATAL = constant(
    "ERRORS_ARE_FATAL", Errhandler.of_state(ErrhandlerState(_end))
)
ERRORS_ABORT = constant("ERRORS_ABORT", Errhandler.of_state(ErrhandlerState(_end)))


class HasErrhandler:
    """Something with an error handler; a mixin of handles."""

    state: Any

    @classmethod
    def Create_errhandler(cls, errhandler_fn: Callable[[Any, int], Any]) -> Any:
        """Make an error handler of a function of the object and a code."""
        return Errhandler.of_state(ErrhandlerState(errhandler_fn))

    def Get_errhandler(self) -> Any:
        """The error handler."""
        return Errhandler(self.state.errhandler)

    def Set_errhandler(self, errhandler: Any) -> None:
        """Set the error handler, which only :meth:`Call_errhandler` calls."""
        _ = errhandler.state
        self.state.errhandler = Errhandler(errhandler)

    def Call_errhandler(self, errorcode: int) -> None:
        """Call the error handler."""
        self.state.errhandler.state.function(self, errorcode)
