"""The buffers of programs of mpi4py by the interfaces of other packages."""

import numpy as np
import pytest

from collalgo.integrations.as_mpi4py import buffers, datatypes, dlpack, ops, specs
from collalgo.integrations.as_mpi4py.errors import MpiException


class Interface:
    """An object with an interface of arrays of devices, in the memory of the host."""

    def __init__(self, array, **changes):
        self.array = array
        self.__cuda_array_interface__ = {
            "data": (array.ctypes.data, False),
            "typestr": array.dtype.str,
            "shape": array.shape,
            "strides": array.strides,
            **changes,
        }


class Packed:
    """An object with DLPack only, before version 1 or since."""

    def __init__(self, array, version):
        self.array, self.version = array, version

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **named):
        if self.version == 0 and "max_version" in named:
            raise TypeError
        return self.array.__dlpack__(**named)


@pytest.mark.parametrize("given", [Interface, lambda a: Packed(a, 0)])
def test_the_elements_of_other_interfaces_are_shared(given):
    for code in "bhilBHILfd?FD":
        for array in (np.zeros((2, 3), code), np.zeros((3, 2), code).T, np.zeros(0)):
            part = specs.simple(given(array))
            assert part.nbytes == array.nbytes
            assert part.datatype == datatypes.TYPECODES[array.dtype.char]
            specs.simple(given(array), writable=True).memory[:] = 1
            assert array.tobytes() == b"\1" * array.nbytes


def test_elements_of_parts_of_bytes_are_refused(monkeypatch):
    whole = dlpack._tensor

    def halved(capsule):
        tensor, is_readonly = whole(capsule)
        tensor.bits = 4
        return tensor, is_readonly

    monkeypatch.setattr(dlpack, "_tensor", halved)
    with pytest.raises(BufferError, match="elements of 4 bits"):
        dlpack.memory_of_dlpack(np.zeros(3, np.int8))


def test_memory_that_must_not_change_is_no_buffer_for_a_result():
    array = np.arange(3)
    array.flags.writeable = False
    version_1 = int(np.__version__.split(".")[0]) > 1  # of DLPack, which has the flag
    given = [Interface(array, data=(array.ctypes.data, True))]
    for obj in (*given, *[Packed(array, 1)] * version_1):
        assert specs.simple(obj).source().view(int).tolist() == [0, 1, 2]
        with pytest.raises(BufferError, match="read-only"):
            specs.simple(obj, writable=True)


def test_elements_that_have_no_datatype_move_and_are_not_reduced():
    array = np.arange(6, dtype="f4").reshape(2, 3)
    part = specs.simple(Interface(array[:, 0].copy(), typestr="|V4"))
    assert (part.count, part.nbytes) == (2, 8)
    with pytest.raises(MpiException, match="ERR_OP: SUM is not defined"):
        ops.SUM.on(part)


def test_elements_of_the_other_byte_order_need_a_datatype():
    for obj in (np.zeros(3, ">i4"), Interface(np.zeros(3, ">i4"))):
        with pytest.raises(BufferError, match="other byte order"):
            specs.simple(obj)
        assert specs.simple([obj, "i"]).count == 3


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"shape": (3, -1)}, BufferError),
        ({"strides": (8, 8)}, BufferError),
        ({"mask": True}, BufferError),
        ({"typestr": "#i8"}, BufferError),
        ({"typestr": "<iX"}, ValueError),
        ({"typestr": None}, TypeError),
        ({"data": None}, TypeError),
        ({"data": (1,)}, ValueError),
    ],
)
def test_interfaces_without_sense_are_refused(changes, error):
    with pytest.raises(error):
        specs.simple(Interface(np.zeros((2, 2), np.int64), **changes))


def test_bytes_of_a_device_are_not_read():
    buffer = buffers.Buffer.frombuffer(Interface(np.zeros(3)))
    for read in (lambda: buffer[0], buffer.tobytes, lambda: buffer.cast("B")):
        with pytest.raises(BufferError, match="is that of a device"):
            read()


def test_a_buffer_knows_its_object_until_it_is_released():
    obj = bytearray(b"abc")
    buffer = buffers.Buffer(obj)
    assert (buffer.obj, buffer.nbytes, buffer.readonly) == (obj, 3, False)
    assert buffer.toreadonly().obj is obj
    buffer[1:] = b"yz"
    assert obj == b"ayz"
    with pytest.raises(TypeError, match="read-only"):
        buffer.toreadonly()[:] = 0
    buffer.release()
    assert (buffer.obj, buffer.nbytes, buffer.address) == (None, 0, 0)
    with pytest.raises(TypeError, match="None is not a buffer"):
        buffers.Buffer(None)
