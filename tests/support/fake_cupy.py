"""A fake CuPy and driver for the tests of ``engine.devices.cuda``.

It has the names and signatures that are used of CuPy 14, memory of the host, and
streams that do at once what is put on them.
"""

import ctypes
from types import SimpleNamespace

import numpy as np


class Array(np.ndarray):
    """An array of the device."""

    @property
    def data(self):
        return SimpleNamespace(ptr=self.ctypes.data)

    @property
    def device(self):
        return SimpleNamespace(id=0)

    def set(self, values):
        self[...] = values

    def get(self):
        return np.array(self)

    __cuda_array_interface__ = property(lambda self: self.__array_interface__)

    def __dlpack_device__(self):
        return 2, 0


class RuntimeFault(RuntimeError):
    pass


#: An address that CUDA does not know.
NOWHERE = 5


class Fake:
    """A module like CuPy, with what has been called on it."""

    def __init__(self):
        """Note the calls on all objects of this stand-in in one list."""
        # Long: the classes of CuPy, whose instances share that list.
        self.calls = []
        self.current, self.devices = [0], [0]
        fake = self

        class Stream:
            def __init__(self, non_blocking=False, ptr=None, priority=0):
                self.ptr = 1000 + len(fake.calls) if ptr is None else ptr
                self.priority = priority
                fake.calls.append(("Stream", non_blocking))

            @classmethod
            def from_external(cls, other):
                version, number = other.__cuda_stream__()
                assert version == 0
                return cls(ptr=number)

            def __enter__(self):
                fake.current.append(self.ptr)

            def __exit__(self, *_):
                fake.current.pop()

            def synchronize(self):
                fake.calls.append(("synchronize", self.ptr))

            def wait_event(self, event):
                fake.calls.append(("wait_event", self.ptr, event))

        class Event:
            done = True

            def __init__(self, block=False, disable_timing=False):
                assert disable_timing

            def record(self, stream):
                fake.calls.append(("record", stream.ptr))

            def synchronize(self):
                pass

        class Device:
            pci_bus_id = "0000:0A:00.0"
            attributes = {  # noqa: RUF012
                "MultiProcessorCount": 12,
                "MemoryClockRate": 2_619_000,
                "GlobalMemoryBusWidth": 5120,
            }

            def __init__(self, number=0):
                self.id = number

            def __enter__(self):
                fake.devices.append(self.id)
                return self

            def __exit__(self, *_):
                fake.devices.pop()

            def synchronize(self):
                fake.calls.append(("device", self.id))

        class RawModule:
            def __init__(self, code, options, enable_cooperative_groups=False):
                self.cooperative = enable_cooperative_groups

            def get_function(self, name):
                def launch(grid, block, arguments):
                    call = name, grid, block, fake.current[-1], self.cooperative
                    fake.calls.append(("launch", *call, arguments))

                return launch

        def peer_access(device):
            if device == 2:
                raise RuntimeFault("cudaErrorPeerAccessAlreadyEnabled")

        def memcpy(target, source, nbytes, kind, stream):
            assert kind == 4
            ctypes.memmove(target, source, nbytes)

        def memset(pointer, value, nbytes, stream):
            ctypes.memset(pointer, value, nbytes)

        def opened(handle, flags):
            if handle == bytes(64):
                raise RuntimeFault("cudaErrorMapBufferObjectFailed")
            assert flags == 1
            return 4096

        self.ndarray = Array
        self.RawModule = RawModule
        self.empty = lambda shape, dtype: np.empty(shape, dtype).view(Array)
        self.asarray = lambda buf: np.asarray(
            SimpleNamespace(__array_interface__=buf.__cuda_array_interface__)
        ).view(Array)
        self.cuda = SimpleNamespace(
            Stream=Stream,
            Event=Event,
            Device=Device,
            get_current_stream=lambda device: Stream(
                ptr=fake.current[-1] if device == 0 else 500 + device
            ),
            UnownedMemory=lambda pointer, nbytes, owner: (pointer, nbytes),
            MemoryPointer=lambda memory, offset: memory,
            nccl=SimpleNamespace(available=False),
            runtime=SimpleNamespace(
                getDevice=lambda: fake.devices[-1],
                driverGetVersion=lambda: 13000,
                runtimeGetVersion=lambda: 13000,
                streamIsCapturing=lambda stream: False,
                memcpyAsync=memcpy,
                memcpyDefault=4,
                memsetAsync=memset,
                ipcGetMemHandle=lambda pointer: pointer.to_bytes(64, "little"),
                ipcOpenMemHandle=opened,
                ipcCloseMemHandle=lambda pointer: fake.calls.append(("close", pointer)),
                cudaIpcMemLazyEnablePeerAccess=1,
                deviceCanAccessPeer=lambda a, b: b < 3,
                deviceEnablePeerAccess=peer_access,
                CUDARuntimeError=RuntimeFault,
            ),
        )


class Driver:
    """What is used of ``libcuda.so.1``."""

    def __init__(self, fake):
        self.fake, self.mode = fake, 0

    def cuMemGetAddressRange_v2(self, base, nbytes, pointer):
        base._obj.value = pointer.value - 64
        return 0

    def cuPointerGetAttribute(self, value, attribute, pointer):
        assert attribute == 7
        value._obj.value = pointer.value % 1000
        return pointer.value == NOWHERE

    def cuDeviceGetAttribute(self, value, attribute, device):
        assert (attribute, device) == (133, 0)
        value._obj.value = self.fake.shared
        return 0

    def cuThreadExchangeStreamCaptureMode(self, mode):
        self.mode, mode._obj.value = mode._obj.value, self.mode
        return 0

    def cuStreamWriteValue32_v2(self, stream, flag, number, how):
        self.fake.calls.append(("write", stream.value or 0, flag.value, number.value))
        return 0

    def cuStreamWaitValue32_v2(self, stream, flag, number, how):
        assert how.value == 0
        self.fake.calls.append(("wait", stream.value or 0, flag.value, number.value))
        return 801 if number.value == 99 else 0
