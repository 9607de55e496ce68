"""Objects that belong to the process that has made them."""

from typing import NoReturn


class OfProcess:
    """Neither copied nor pickled: it has memory and connections of its process."""

    #: What to do instead, for errors.
    _instead = "make one in each process"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"objects of type {type(self).__name__} belong to their process, so they "
            f"cannot be copied or pickled; {self._instead}"
        )
