"""What ranks tell each other while a call on devices is under way."""

from collections.abc import Callable, Sequence

#: Gives what all ranks tell, each of which tells as little as it likes.
Tell = Callable[[bytes], Sequence[bytes]]


def all_can(able: bool, tell: Tell) -> bool:
    """Whether all ranks are able to do something, on each of them the same."""
    return all(told[0] for told in tell(bytes([able])))
