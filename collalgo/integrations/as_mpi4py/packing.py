"""Packing of elements into buffers of bytes, as calls of datatypes."""

from typing import Any

from collalgo.integrations.as_mpi4py.datatypes import Datatype
from collalgo.integrations.as_mpi4py.errors import fail
from collalgo.integrations.as_mpi4py.layouts import Layout
from collalgo.integrations.as_mpi4py.memory import Bytes, memory_of
from collalgo.integrations.as_mpi4py.parts import Part
from collalgo.integrations.as_mpi4py.specs import simple


def _elements(datatype: Any, buf: Any, *, writable: bool) -> Part:
    """The elements of a buffer, whose own datatype does not matter."""
    given = simple(buf, writable=writable)
    if not datatype.extent:
        return Part(given.memory, datatype, 0, given.start)
    available = len(given.memory) - given.start
    return Part(given.memory, datatype, available // datatype.extent, given.start)


def _room(buf: Any, position: int, nbytes: int, *, writable: bool) -> Bytes:
    """Some bytes of a buffer, from a position on."""
    memory, _ = memory_of(buf[0] if isinstance(buf, list) else buf, writable=writable)
    if position < 0 or position + nbytes > len(memory):
        fail(
            "ERR_ARG",
            f"{nbytes} bytes from position {position} on exceed the buffer "
            f"of {len(memory)} bytes",
        )
    return memory[position : position + nbytes]


def Pack(self: Any, inbuf: Any, outbuf: Any, position: int, comm: Any) -> int:
    """Pack elements into a buffer; return the position after them."""
    _ = comm.state
    data = _elements(self, inbuf, writable=False).pack()
    _room(outbuf, position, len(data), writable=True)[...] = data
    return position + len(data)


def Unpack(self: Any, inbuf: Any, position: int, outbuf: Any, comm: Any) -> int:
    """Unpack elements of a buffer; return the position after them."""
    _ = comm.state
    part = _elements(self, outbuf, writable=True)
    part.unpack(_room(inbuf, position, part.nbytes, writable=False))
    return position + part.nbytes


def Pack_size(self: Any, count: int, comm: Any) -> int:
    """The bytes that some elements need when they are packed."""
    _ = comm.state
    return int(self.Get_size()) * count


def _swapped(datatype: Any, data: Bytes) -> Bytes:
    """The bytes of basic elements in the other order."""
    layout: Layout = datatype.state.layout
    found: Bytes = data.copy()
    place = 0
    while place < len(found) and layout.size:
        for count, nbytes in layout.runs:
            end = place + count * nbytes
            found[place:end] = found[place:end].reshape(-1, nbytes)[:, ::-1].reshape(-1)
            place = end
    return found


def _check_external(datarep: str) -> None:
    if datarep != "external32":
        fail("ERR_ARG", f"data representation {datarep!r} is not external32")


def Pack_external(
    self: Any, datarep: str, inbuf: Any, outbuf: Any, position: int
) -> int:
    """Pack elements in network byte order; return the position after them."""
    _check_external(datarep)
    data = _swapped(self, _elements(self, inbuf, writable=False).pack())
    _room(outbuf, position, len(data), writable=True)[...] = data
    return position + len(data)


def Unpack_external(
    self: Any, datarep: str, inbuf: Any, position: int, outbuf: Any
) -> int:
    """Unpack elements in network byte order; return the position after them."""
    _check_external(datarep)
    part = _elements(self, outbuf, writable=True)
    data = _room(inbuf, position, part.nbytes, writable=False)
    part.unpack(_swapped(self, data))
    return position + part.nbytes


def Pack_external_size(self: Any, datarep: str, count: int) -> int:
    """The bytes that some elements need in the order of bytes of networks."""
    _check_external(datarep)
    return int(self.Get_size()) * count


def add_to(kind: Any) -> None:
    """Add the calls to the class of datatypes."""
    for call in (Pack, Unpack, Pack_size, Pack_external, Unpack_external,
                 Pack_external_size):  # fmt: skip
        setattr(kind, call.__name__, call)


add_to(Datatype)
