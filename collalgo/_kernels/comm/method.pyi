from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

def place_of_comm(function: Callable[..., Any]) -> int: ...
def method(function: Function) -> Function: ...
