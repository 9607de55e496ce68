from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

B = TypeVar("B")
C = TypeVar("C")
P = ParamSpec("P")
R = TypeVar("R")

def place_of_comm(function: Callable[..., Any]) -> int: ...
@overload
def method(
    function: Callable[Concatenate[B, C, P], R],
) -> Callable[Concatenate[Any, B, P], R]: ...
@overload
def method(
    function: Callable[Concatenate[C, P], R],
) -> Callable[Concatenate[Any, P], R]: ...
