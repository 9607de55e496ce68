"""How MPI libraries say whether they send arrays on CUDA devices themselves."""

from types import SimpleNamespace

import pytest

from collalgo.engine.transport.mpi import is_cuda_aware

pytestmark = pytest.mark.parallel


def mpich(error, value):
    """A library that answers as MPICH does, for CUDA only."""

    def query(kind, flag):
        flag._obj.value = value if kind == 0 else 1 - value
        return error

    return SimpleNamespace(MPIX_GPU_query_support=query)


@pytest.mark.parametrize("value", [0, 1])
def test_an_mpi_is_asked_in_its_own_way(value):
    open_mpi = SimpleNamespace(MPIX_Query_cuda_support=lambda: value)
    assert is_cuda_aware(open_mpi) == bool(value)
    assert is_cuda_aware(mpich(0, value)) == bool(value)


def test_an_mpi_that_cannot_be_asked_or_fails_is_not_aware():
    assert not is_cuda_aware(SimpleNamespace())
    assert not is_cuda_aware(mpich(1, 1))
