"""The bandwidth of links by generation: raw values, and those of NCCL.

Raw bandwidths are those of the cables after line coding. NCCL's are those that its
authors measured for copies (src/graph/topo.h and topo.cc of NCCL 2.30).
"""

import re
from collections.abc import Mapping
from typing import Any

from collalgo.topology.elements import LinkKind

#: The payload fraction of a PCIe lane, by gigatransfers per second.
PCIE_GENERATIONS = {
    2.5: 8 / 10,
    5.0: 8 / 10,
    8.0: 128 / 130,
    16.0: 128 / 130,
    32.0: 128 / 130,
    64.0: 242 / 256,
    128.0: 242 / 256,
}

#: NCCL's bandwidth of a lane, in 100 Mb/s, by gigatransfers per second.
_NCCL_LANE = {2.5: 15, 5.0: 30, 8.0: 60, 16.0: 120, 32.0: 240, 64.0: 480}


def transfers(text: str) -> float | None:
    """Gigatransfers per second from "16 GT/s" or "16.0 GT/s PCIe"; None if unknown."""
    found = re.match(r"\s*(\d{1,4}(?:\.\d{1,6})?)\s*GT/s", text)
    rate = float(found[1]) if found else None
    return rate if rate in PCIE_GENERATIONS else None


def pcie(rate: float, lanes: int) -> float:
    """GB/s in each direction of a PCIe link.

    >>> round(pcie(8.0, 16), 2), round(pcie(32.0, 16), 2)
    (15.75, 63.02)
    """
    return rate * PCIE_GENERATIONS[rate] * lanes / 8


def nccl_pcie(rate: float | None, lanes: int) -> float:
    """NCCL's GB/s of a PCIe link; an unknown rate counts as generation 3.

    >>> [nccl_pcie(rate, 16) for rate in (2.5, 5.0, 8.0, 16.0, 32.0, 64.0)]
    [3.0, 6.0, 12.0, 24.0, 48.0, 96.0]
    """
    return (lanes or 16) * _NCCL_LANE.get(rate or 8.0, 60) / 80


def nvlink(sm: int) -> float:
    """GB/s in each direction of one NVLink, by the compute capability x 10 of the GPU.

    >>> [nvlink(sm) for sm in (60, 70, 80, 90, 100)]
    [20.0, 25.0, 25.0, 25.0, 50.0]
    """
    if sm < 70:
        return 20.0
    if sm >= 100:
        return 50.0
    return 14.0625 if sm == 86 else 25.0


def nccl_nvlink(sm: int) -> float:
    """NCCL's GB/s of one NVLink.

    >>> [nccl_nvlink(sm) for sm in (53, 60, 70, 80, 86, 89, 90, 100)]
    [20.0, 18.0, 20.0, 20.0, 12.0, 20.0, 20.6, 40.1]
    """
    if sm >= 100:
        return 40.1
    if sm >= 90:
        return 20.6
    if sm == 86:
        return 12.0
    return 18.0 if 60 <= sm < 70 else 20.0


def xgmi(gcn: str) -> float:
    """RCCL's GB/s of one xGMI link, by the name of the GPU.

    >>> [xgmi(gcn) for gcn in ("906", "908", "910", "gfx90a", "gfx942")]
    [24.0, 24.0, 36.0, 36.0, 48.0]
    """
    if re.search(r"94\d", gcn):
        return 48.0
    return 36.0 if re.search(r"910|90a", gcn) else 24.0


def of_cable(kind: LinkKind, gpu: Mapping[str, Any]) -> tuple[float, str]:
    """GB/s of one cable of a GPU by its attributes, and the rule.

    >>> of_cable(LinkKind.NVLINK, {"sm": 60})
    (20.0, '20 GB/s for each NVLink, by sm')
    """
    if kind is LinkKind.XGMI:
        each = xgmi(str(gpu.get("gcn", "")))
        return each, f"{each:g} GB/s for each xGMI, by gcn"
    each = nvlink(gpu.get("sm", 70))
    return each, f"{each:g} GB/s for each NVLink, by sm"


def smp(arch: str, vendor: str, family: int, model: int) -> float | None:
    """NCCL's GB/s in each direction between two CPUs; None if unknown.

    >>> smp("x86_64", "GenuineIntel", 6, 0x55), smp("x86_64", "AuthenticAMD", 175, 1)
    (10.0, 16.0)
    """
    if arch == "arm64":
        return 6.0
    if arch == "ppc64":
        return 32.0
    vendor = vendor.strip()
    if vendor == "AuthenticAMD":
        return 16.0
    if vendor in ("CentaurHauls", "Shanghai"):
        return 9.0 if model >= 0x5B else 6.0
    if vendor != "GenuineIntel":
        return None
    newer = ((0xCF, 40.0), (0x8F, 22.0), (0x55, 10.0))
    return next(
        (speed for least, speed in newer if family == 6 and model >= least), 6.0
    )


def network(megabits: float) -> float:
    """GB/s of a network port.

    >>> network(100_000), network(400_000)
    (12.5, 50.0)
    """
    return megabits / 8000


#: The payload Gb/s of an InfiniBand lane, by the name of its speed.
INFINIBAND_DATA = {
    "SDR": 2.0, "DDR": 4.0, "QDR": 8.0, "FDR10": 10.0, "FDR": 13.64,
    "EDR": 25.0, "HDR": 50.0, "NDR": 100.0, "XDR": 200.0,
}  # fmt: skip


def infiniband(width: int, speed: str) -> float:
    """GB/s in each direction of an InfiniBand link.

    >>> infiniband(4, "EDR"), infiniband(4, "HDR"), infiniband(4, "NDR")
    (12.5, 25.0, 50.0)
    """
    return width * INFINIBAND_DATA[speed] / 8
