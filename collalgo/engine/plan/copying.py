"""How the messages and results of a call are copied."""

from typing import NamedTuple


class Copying(NamedTuple):
    """The fastest ways of copying for a call, chosen by the cost model.

    Attributes
    ----------
    fetched : bool
        Whether a copy out of the sender's process is faster than staging.
    streamed : bool
        Whether results that are not read again are written past the caches.
    shares : bool
        Whether zero copy pays for memory that the ranks have mapped: if the message
        leaves the caches of a core before it is used again.
    stays_cached : bool
        Whether the message is still in some cache by then, perhaps a far one.
    interleaved : bool
        Whether staged messages are read from several pages in parallel.
    """

    fetched: bool = False
    streamed: bool = False
    shares: bool = False
    stays_cached: bool = True
    interleaved: bool = True
