"""The bandwidths of links, published ones and those of NCCL."""

import pytest

from collalgo.topology import constants
from collalgo.topology.readers import parse
from tests.support.small_files import NCCL

#: Of src/graph/topo.h and topo.cc of NCCL 2.30: GB/s in each direction.
NCCL_NVLINK = {50: 20.0, 60: 18.0, 70: 20.0, 75: 20.0, 80: 20.0, 86: 12.0, 89: 20.0,
               90: 20.6, 100: 40.1, 103: 40.1, 121: 40.1}  # fmt: skip
NCCL_PCIE_X16 = {2.5: 3.0, 5.0: 6.0, 8.0: 12.0, 16.0: 24.0, 32.0: 48.0, 64.0: 96.0}


@pytest.mark.parametrize(("sm", "expected"), NCCL_NVLINK.items())
def test_nvlinks_are_those_of_nccl(sm, expected):
    assert constants.nccl_nvlink(sm) == expected


def test_links_of_a_gpu_add_up_to_the_bandwidth_of_nccl():
    for sm, links, total in ((60, 4, 72), (70, 6, 120), (80, 12, 240), (90, 18, 370.8),
                             (100, 18, 721.8)):  # fmt: skip
        assert constants.nccl_nvlink(sm) * links == pytest.approx(total)
    for sm, links, total in ((60, 4, 80), (70, 6, 150), (80, 12, 300), (90, 18, 450),
                             (100, 18, 900)):  # fmt: skip
        assert constants.nvlink(sm) * links == total


@pytest.mark.parametrize(("rate", "expected"), NCCL_PCIE_X16.items())
def test_pcie_is_that_of_nccl(rate, expected):
    assert constants.nccl_pcie(rate, 16) == expected
    assert constants.nccl_pcie(rate, 8) == expected / 2
    assert constants.nccl_pcie(None, 0) == 12.0


@pytest.mark.parametrize(
    ("rate", "lanes", "expected"),
    [(32.0, 16, 63.015385), (16.0, 16, 31.507692), (8.0, 16, 15.753846),
     (8.0, 8, 7.876923), (2.5, 1, 0.25)],
)  # fmt: skip
def test_raw_pcie_is_what_hwloc_writes(rate, lanes, expected):
    assert constants.pcie(rate, lanes) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("arch", "vendor", "family", "model", "expected"),
    [
        ("x86_64", "GenuineIntel", 6, 0x4F, 6.0),
        ("x86_64", "GenuineIntel", 6, 0x55, 10.0),
        ("x86_64", "GenuineIntel", 6, 0x8F, 22.0),
        ("x86_64", "GenuineIntel", 6, 0xCF, 40.0),
        ("x86_64", "AuthenticAMD", 175, 1, 16.0),
        ("arm64", "", 0, 0, 6.0),
        ("ppc64", "", 0, 0, 32.0),
        ("x86_64", "SomebodyElse", 0, 0, None),
    ],
)
def test_links_between_cpus_are_those_of_nccl(arch, vendor, family, model, expected):
    assert constants.smp(arch, vendor, family, model) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("8.0 GT/s PCIe", 8.0), ("8 GT/s", 8.0), ("32 GT/s PCIe/s", 32.0), ("", None),
     ("16.0 GT/s", 16.0), ("7 GT/s", None), ("fast", None)],
)  # fmt: skip
def test_speeds_of_pcie_are_read_in_all_their_spellings(text, expected):
    assert constants.transfers(text) == expected


@pytest.mark.parametrize(
    ("bw", "count", "expected"),
    [(43125, 8, 345.0), (44712, 5, 223.56), (56376, 7, 394.632)],
)
def test_a_c2c_link_has_the_bandwidth_of_nccl(bw, count, expected):
    link = f'<c2c bw="{bw}" count="{count}"/></gpu>'
    machine = parse(NCCL.replace("</gpu>", link, 1), "x")
    found = [link for link in machine.links if link.kind == "c2c"]
    assert [link.bandwidth for link in found] == [pytest.approx(expected)]


@pytest.mark.parametrize(
    ("width", "speed", "gigabits"),
    [(4, "QDR", 32), (4, "FDR", 54.56), (4, "EDR", 100), (4, "HDR", 200),
     (4, "NDR", 400), (4, "XDR", 800), (1, "SDR", 2)],
)  # fmt: skip
def test_infiniband_has_its_nominal_bandwidth(width, speed, gigabits):
    assert constants.infiniband(width, speed) == pytest.approx(gigabits / 8)
