from collections.abc import Callable

from collalgo.bootstrap.exchange import ExchangeGroup
from collalgo.comm.communicator import Communicator

TAKEN: tuple[str, ...]

def provide(
    address: int, connecting: Callable[[ExchangeGroup], Communicator | None]
) -> None: ...
