"""The errors of calls that another rank has made fail."""

from typing import Any, TypeVar

from collalgo.errors import CollalgoError

E = TypeVar("E", bound=CollalgoError)


def error_of_rank(kind: type[E], runner: Any, call: str, rank: int, text: str) -> E:
    """The error of the present call, with its number, for what a rank has done."""
    number = runner.call_number
    return kind(
        f"{call} #{number}: {text}",
        rank=runner.rank,
        sequence=number,
        collective=call,
        missing=(rank,),
    )
