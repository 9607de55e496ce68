"""Memory that the system refuses to the ranks of a host, and the limit that it has."""

import errno
import os
import resource

from collalgo.errors import BootstrapError


def not_made(size: int, nbytes: int, error: OSError) -> BootstrapError:
    """The error if the memory of some ranks cannot be made."""
    limit, advice = resource.getrlimit(resource.RLIMIT_FSIZE)[0], ""
    if error.errno == errno.EFBIG and limit != resource.RLIM_INFINITY:
        advice = (
            f"; the limit of the length of files is {limit} bytes: "
            f"ulimit -f {-(-nbytes // 1024)}, or unlimited"
        )
    return BootstrapError(
        f"rank 0 cannot make the memory that {size} ranks share, of {nbytes} bytes "
        f"({error.strerror}){advice}",
        rank=0,
    )


def not_mapped(nbytes: int, number: int) -> BootstrapError:
    """The error, by its number, if shared memory cannot be mapped into this process."""
    limit, advice = resource.getrlimit(resource.RLIMIT_AS)[0], ""
    if number == errno.ENOMEM and limit != resource.RLIM_INFINITY:
        advice = (
            f"; the limit of the address space is {limit // 1024} KiB: raise it "
            "(ulimit -v), or unlimited"
        )
    return BootstrapError(
        f"this process cannot map {nbytes} bytes of the memory that ranks share "
        f"({os.strerror(number)}){advice}"
    )
