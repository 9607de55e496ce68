"""A call that the library makes again and again for one of the user."""

from typing import Any

from numpy.typing import NDArray

from collalgo._kernels.comm.call_kind import CallKind
from collalgo._kernels.engine.transport.transport import WHOLE_CALL
from collalgo.comm.call_text import EXCHANGE
from collalgo.comm.runner import Runner
from collalgo.engine.call import Call


class RepeatedCall:
    """A call with the same arguments each time, of one rank of a communicator.

    Unlike :meth:`Runner.run_for` it looks its kind up once.

    Parameters
    ----------
    name
        The name of the call of the user.
    call
        The call.
    counted
        See :class:`Program`.
    """

    def __init__(self, name: str, call: Call, counted: int = WHOLE_CALL):
        self._name, self._call, self._counted = name, call, counted
        self._full_name = EXCHANGE + name
        self._kind: CallKind | None = None

    def run(self, runner: Runner, source: NDArray[Any], target: NDArray[Any]) -> None:
        """Make the call, with contiguous arrays."""
        runner.check_open(self._name)  # first, since a choice takes time
        if self._kind is None:
            self._kind = runner.programs.kind(self._call)
        call, name, counted = self._call, self._full_name, self._counted
        program = self._kind.program_named(call.count, call.counts, name, counted)
        runner.run_now(program, source, target, runner.seconds, self._name)
