"""How MPI and UCX say whether they send arrays on CUDA devices themselves."""

import ctypes
from types import SimpleNamespace

import pytest

from collalgo.engine.transport.engine import CUDA_AWARE, takes_devices
from collalgo.engine.transport.mpi import is_cuda_aware
from collalgo.engine.transport.ucx import (
    CUDA_MEMORY,
    ContextAttributes,
    Ucx,
    memory_types,
)


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


def ucx_that_answers(status, types):
    """The addresses of functions that answer as those of UCX."""

    def query(context, attributes):
        assert (context, attributes[0].field_mask) == (0x1234, 4)
        attributes[0].memory_types = types
        return status

    def version(major, minor, patch):
        major[0], minor[0], patch[0] = 1, 22, 0

    numbers = [ctypes.POINTER(ctypes.c_uint)] * 3
    about = ctypes.c_void_p, ctypes.POINTER(ContextAttributes)
    functions = {
        "ucp_get_version": ctypes.CFUNCTYPE(None, *numbers)(version),
        "ucp_context_query": ctypes.CFUNCTYPE(ctypes.c_int8, *about)(query),
    }
    addresses = {
        name: ctypes.cast(function, ctypes.c_void_p).value
        for name, function in functions.items()
    }
    return functions, addresses


@pytest.mark.parametrize(
    ("status", "types", "aware"),
    [(0, 0b1, False), (0, 0b11, True), (0, 0b1101, False), (-1, 0b11, False)],
)
def test_ucx_is_asked_for_its_types_of_memory(status, types, aware):
    _functions, addresses = ucx_that_answers(status, types)
    kinds = memory_types(addresses, 0x1234)
    assert bool(kinds & CUDA_MEMORY) == aware
    ucx = Ucx()
    ucx.__dict__["_functions"] = addresses
    assert ucx.title() == "UCX 1.22.0"
    ucx.is_cuda_aware = aware
    assert ucx.title() == "UCX 1.22.0" + CUDA_AWARE * aware


@pytest.mark.parametrize("given", ["", "0", "1"])
def test_an_engine_takes_arrays_on_devices_unless_told_not_to(monkeypatch, given):
    monkeypatch.setenv("COLLALGO_CUDA_AWARE", given)
    assert takes_devices() == (given != "0")
