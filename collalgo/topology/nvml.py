"""Detect NVLinks of local GPUs by NVML, if that is installed."""

from contextlib import suppress
from typing import Any

from collalgo.topology.model import Kind, LinkKind, Topology

#: GB/s in each direction of an NVLink, by its version.
SPEEDS = {1: 20.0, 2: 25.0, 3: 25.0, 4: 25.0, 5: 50.0}


def add_nvlinks(topology: Topology) -> None:
    """Add the active NVLinks between the GPUs of a detected machine."""
    try:
        import pynvml
    except ImportError:
        if any(g.attributes.get("pci", "").startswith("0x10de") for g in
               topology.devices(Kind.GPU)):  # fmt: skip
            topology.warn("NVLinks are unknown; install nvidia-ml-py to detect them")
        return
    try:
        pynvml.nvmlInit()
        try:
            _links(topology, pynvml)
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        topology.warn(f"NVLinks are unknown: {error}")


def _links(topology: Topology, nvml: Any) -> None:
    by_busid = {
        short_busid(device.attributes["busid"]): device.id
        for device in topology.devices(Kind.GPU, Kind.NVSWITCH)
        if "busid" in device.attributes
    }
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            _links_of(topology, nvml, index, by_busid)
        except nvml.NVMLError as error:
            topology.warn(f"NVLinks of GPU {index} are unknown: {error}")


def _links_of(
    topology: Topology, nvml: Any, index: int, by_busid: dict[str, str]
) -> None:
    """Add the properties of a GPU and its NVLinks."""
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    gpu = by_busid.get(short_busid(_text(nvml.nvmlDeviceGetPciInfo(handle).busId)))
    if gpu is None:
        return
    attributes = topology.device(gpu).attributes
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    attributes |= {"dev": index, "sm": 10 * major + minor}
    for link in range(nvml.NVML_NVLINK_MAX_LINKS):
        with suppress(nvml.NVMLError):
            _link(topology, nvml, handle, link, gpu, by_busid)


def _link(
    topology: Topology,
    nvml: Any,
    handle: Any,
    link: int,
    gpu: str,
    by_busid: dict[str, str],
) -> None:
    if not nvml.nvmlDeviceGetNvLinkState(handle, link):
        return
    speed = SPEEDS.get(nvml.nvmlDeviceGetNvLinkVersion(handle, link))
    remote = nvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link)
    other = by_busid.get(short_busid(_text(remote.busId)))
    if other is None:  # an NVSwitch that is hidden from this machine
        host = topology.device(gpu).host
        other = f"{host}/nvswitch0"
        if other not in topology:
            topology.add(other, Kind.NVSWITCH, host=host)
    is_gpu = topology.device(other).kind is Kind.GPU
    if not is_gpu or gpu < other:  # a cable between GPUs is reported by both ends
        topology.link(gpu, other, LinkKind.NVLINK, speed)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def short_busid(busid: str) -> str:
    """A bus id without the leading digits of its domain, which sysfs omits."""
    return busid.lower()[-12:]
