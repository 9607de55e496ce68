"""Memory of a host that cannot be made is one sentence with both numbers."""

import resource

import pytest

from collalgo.engine.transport import shm
from collalgo.errors import BootstrapError


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
