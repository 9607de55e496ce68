"""A collective of MPI as a call of the library: now, in the background, or repeated."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, NamedTuple

from collalgo.integrations.as_mpi4py.errors import raises_mpi_exceptions
from collalgo.integrations.as_mpi4py.operations import Background, Operation
from collalgo.integrations.as_mpi4py.parts import Finish
from collalgo.integrations.as_mpi4py.prequests import Prequest
from collalgo.integrations.as_mpi4py.requests import Request


class Call(NamedTuple):
    """A call of the library.

    Attributes
    ----------
    name : str
        Of the method of the communicator.
    arguments : dict
        Its arguments.
    finish : callable or None
        Writes what was received to where it belongs.
    sizes : sequence of int
        The bytes of each block, where this rank knows them.
    """

    name: str
    arguments: dict[str, Any]
    finish: Finish = None
    sizes: Sequence[int] = ()


def run(comm: Any, call: Call) -> None:
    """Make a call and wait for its end."""
    getattr(comm.state.engine, call.name)(**call.arguments)
    if call.finish is not None:
        call.finish()


def start(comm: Any, call: Call) -> Operation:
    """Make a call in the background."""
    work = getattr(comm.state.engine, f"{call.name}_async")(**call.arguments)
    finish = call.finish
    operation = Background(work, None if finish is None else lambda _: finish())
    comm.state.under_way.add(operation)
    return operation


def forms(
    prepare: Callable[..., Any], run: Any = run, start: Any = start
) -> tuple[Any, Any, Any]:
    """The three forms of a collective: blocking, non-blocking and persistent.

    Parameters
    ----------
    prepare
        Makes the call of the arguments of the program, after the communicator.
    run, start
        Make such a call, now or in the background.
    """

    @raises_mpi_exceptions
    @wraps(prepare)
    def blocking(comm: Any, *arguments: Any, **named: Any) -> None:
        run(comm, prepare(comm, *arguments, **named))

    @raises_mpi_exceptions
    @wraps(prepare)
    def non_blocking(comm: Any, *arguments: Any, **named: Any) -> Any:
        return Request.of(start(comm, prepare(comm, *arguments, **named)))

    @raises_mpi_exceptions
    @wraps(prepare)
    def persistent(comm: Any, *arguments: Any, info: Any = None, **named: Any) -> Any:
        del info
        prepare(comm, *arguments, **named)
        return Prequest.of_start(
            lambda: start(comm, prepare(comm, *arguments, **named))
        )

    return blocking, non_blocking, persistent
