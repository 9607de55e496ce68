"""The forms of a call that do not wait for it: in the background, and persistent."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial, update_wrapper
from inspect import signature
from typing import Any, ParamSpec, TypeVar

from cython.cimports.collalgo._kernels.comm.reducing import runner_of

from collalgo._kernels.comm.method import place_of_comm
from collalgo._kernels.comm.persistent import Persistent
from collalgo._kernels.comm.work import Work
from collalgo.base.foreign import is_immutable
from collalgo.comm.tree import leaves_of

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])


def in_background(
    function: Callable[P, Any], prepare: Callable[P, Callable[[], Any]] | None = None
) -> Callable[P, Work]:
    """The form of a collective that makes the call in the background.

    With ``prepare`` the call is made by what that returns for the arguments, before the
    call has its place among the others.
    """
    name, place = function.__name__, place_of_comm(function)

    def submit(*args: P.args, **named: P.kwargs) -> Work:
        comm = args[place] if len(args) > place else named.get("comm")
        if prepare is None:
            call: Callable[[], Any] = partial(function, *args, **named)
        else:
            call = prepare(*args, **named)
        work: Work = runner_of(comm).submit(name, call)
        return work

    doc = (
        f"Make the call :func:`{name}` in the background.\n\n"
        "Returns\n-------\nWork\n"
        "    Its ``wait()`` returns the result of the call. Do not access the arrays\n"
        "    before."
    )
    return declared(submit, function, f"{name}_async", Work, doc)


def persistent(function: Callable[P, Any]) -> Callable[P, Persistent]:
    """The form of a collective that prepares the call, to be made many times."""
    name, place = function.__name__, place_of_comm(function)

    def prepare(*args: P.args, **named: P.kwargs) -> Persistent:
        comm = args[place] if len(args) > place else named.get("comm")
        check_mutable(name, args, named)
        call = partial(function, *args, **named)
        work: Persistent = runner_of(comm).submit(name, call, True)
        return work

    doc = f"Prepare the call :func:`{name}` to be made many times."
    return declared(prepare, function, f"persistent_{name}", Persistent, doc)


def check_mutable(name: str, args: Iterable[Any], named: Mapping[str, Any]) -> None:
    """Check that the arrays of a persistent call can change.

    Raises
    ------
    TypeError
        If one is immutable.
    """
    if any(map(is_immutable, leaves_of([*args, *named.values()]))):
        raise TypeError(
            f"persistent_{name}: got an array of JAX, which is immutable; pass NumPy "
            "arrays, whose elements may change between the calls"
        )


def declared(
    form: F, function: Callable[..., Any], name: str, kind: type, doc: str
) -> F:
    """A form with the declaration of its function, but another result."""
    update_wrapper(form, function)
    form.__name__ = form.__qualname__ = name
    form.__doc__ = doc
    found = signature(function).replace(return_annotation=kind.__name__)
    form.__signature__ = found  # type: ignore[attr-defined]
    return form
