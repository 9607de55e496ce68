"""Memory of a host that cannot be made is one sentence with both numbers."""

import errno
import os
import resource

import pytest

from collalgo._kernels.engine.transport.segment import Segment
from collalgo.engine.transport import shm
from collalgo.engine.transport.limits import not_mapped
from collalgo.errors import BootstrapError

pytestmark = pytest.mark.deadline


@pytest.mark.parametrize("size", [1, 2, 8])
@pytest.mark.parametrize("limit", [0, 102_400, 1 << 20])
def test_a_limit_of_the_length_of_files_is_named(size, limit):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        with pytest.raises(BootstrapError) as caught:
            shm.create(size)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    said = str(caught.value)
    assert f"the memory that {size} ranks share, of " in said
    assert f"the limit of the length of files is {limit} bytes: ulimit -f " in said


def test_memory_that_cannot_be_mapped_names_the_limit_of_addresses():
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (1 << 45, hard))
    try:
        said = str(not_mapped(4096, errno.ENOMEM))
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    assert "cannot map 4096 bytes of the memory that ranks share (Cannot alloc" in said
    assert f"the limit of the address space is {1 << 35} KiB" in said
    descriptor = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)  # which segments close
    with pytest.raises(BootstrapError, match=r"ranks share \(No such device\)$"):
        Segment(descriptor, 2)
