from collections.abc import Callable

from collalgo.bootstrap.exchange import ExchangeGroup
from collalgo.comm.communicator import Communicator

def provide(
    address: int, connecting: Callable[[ExchangeGroup], Communicator | None]
) -> None: ...
