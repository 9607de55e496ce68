"""Read the calls of Chakra execution traces (MLCommons), and price them.

:func:`read_calls` reads the collectives of a trace, and :func:`priced` selects an
algorithm for each on a topology. The modules:

- ``wire.py``: the fields of messages of Protocol Buffers;
- ``nodes.py``: the nodes of a trace in each of its forms; ``calls.py``: its calls;
- ``pricing.py``: the prices.
"""

from collalgo.integrations.chakra.calls import Call, Calls, read_calls
from collalgo.integrations.chakra.pricing import PricedCall, priced
from collalgo.integrations.chakra.wire import ChakraError

__all__ = ["Call", "Calls", "ChakraError", "PricedCall", "priced", "read_calls"]
