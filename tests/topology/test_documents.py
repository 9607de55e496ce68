"""Documents of the native format: ranges, parameters, and the lines of errors."""

import pytest

from collalgo import Topology, TopologyError
from collalgo.base.cpu_list import cores_of
from collalgo.topology.document import text
from collalgo.topology.model import Kind, LinkKind
from collalgo.topology.presets import machines
from collalgo.topology.readers import parse
from tests.support.paths import ROOT
from tests.support.small_files import SMALL

HEAD = "collalgo: topology/1\nparameters: {fast: 12.5, two: 2}\ndevices:\n"

SIZES = (1, 2, 3, 5, 7, 8, 12, 16, 17, 33)


def machine(*devices, links=()):
    lines = [f"  - {{{device}}}" for device in devices]
    lines += ["links:", *(f"  - {{{link}}}" for link in links)] if links else []
    return parse(HEAD + "\n".join(lines), "x")


@pytest.mark.parametrize("name", machines())
def test_a_file_that_ships_is_valid_and_has_the_values_of_its_preset(name):
    read = Topology.read(ROOT / "topologies" / f"{name}.yaml")
    built = Topology.load(name)
    assert not read.warnings
    assert read.links == built.links
    speeds = [nic.attributes.get("speed") for nic in built.devices("nic")]
    assert [nic.attributes.get("speed") for nic in read.devices("nic")] == speeds


@pytest.mark.parametrize("hosts", SIZES)
@pytest.mark.parametrize("ids", ["host[0-{last}]/gpu[0-3]", "gpu[0-{gpus}]"])
def test_a_range_of_hosts_is_spread_over_the_devices(hosts, ids):
    ids = ids.format(last=hosts - 1, gpus=4 * hosts - 1)
    found = machine(f"id: '{ids}', kind: gpu, host: 'host[0-{hosts - 1}]'")
    assert found.hosts == [f"host{i}" for i in range(hosts)]
    assert {len(found.devices("gpu", host=host)) for host in found.hosts} == {4}
    for gpu in found.devices("gpu"):
        assert "/" not in gpu.id or gpu.id.startswith(f"{gpu.host}/")


@pytest.mark.parametrize("size", SIZES)
def test_ranges_and_parameters_stand_for_names_and_numbers(size):
    found = machine(
        f"id: 'nic[0-{size - 1}]', kind: nic, host: h, speed: fast, "
        f"name: 'mlx5_[0-{size - 1}]', numa: two",
        "id: cpu, kind: cpu, host: h",
        links=[
            f"ends: [cpu, 'nic[0-{size - 1}]'], "
            "kind: pcie, bandwidth: 2*fast, count: two"
        ],
    )
    nics = found.devices("nic")
    names = [nic.name for nic in nics]
    assert names == [f"mlx5_{i}" for i in range(size)] or size == 1
    assert {nic.attributes["speed"] for nic in nics} == {12.5}
    assert {nic.attributes["numa"] for nic in nics} == {2}
    assert {(link.bandwidth, link.count) for link in found.links} == {(25.0, 2)}
    assert len(found.links) == size


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("id: n, kind: nic, host: h, speed: quick", "speed: 'quick' is neither"),
        ("id: 'g[0-3]', kind: gpu, host: 'h[0-2]'", "3 values cannot be spread over 4"),
        ("id: g, kind: gpu, host: 'h[0-2]'", "3 values cannot be spread over 1"),
        ("id: g, kind: gpu, host: 1.5", "write the name 1.5 in quotes"),
        ("id: true, kind: gpu", "write the name True in quotes"),
        ("id: g, kind: gpu, host: [a]", "'a'.* is not a name"),
        ("id: g, kind: gpu, host: h, numa: x", "numa: 'x' is neither"),
        ("id: g, kind: gpu, host: h, sm: 1.5", "sm: '1.5' is not an integer"),
        ("id: g, kind: gpu, host: h, ranks: 3", "3 is not a list of ranks"),
        ("id: g, kind: gpu, id: k", "the key 'id' occurs twice"),
        ("id: g, kind: thing", "no kind 'thing'"),
        ("kind: gpu", "'id' is missing"),
    ],
)
def test_what_cannot_be_resolved_is_refused_with_its_line(device, message):
    with pytest.raises(TopologyError, match=message) as caught:
        machine("id: first, kind: gpu, host: h", device)
    assert "line 5" in str(caught.value)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("prefix", ["", "box/"])
def test_devices_without_a_host_are_on_one_together(size, prefix):
    devices = [
        f"id: '{prefix}gpu[0-{size - 1}]', kind: gpu",
        f"id: {prefix}cpu, kind: cpu",
    ]
    links = [f"ends: ['{prefix}gpu[0-{size - 1}]', {prefix}cpu], kind: pcie"]
    found = machine(*devices, links=links)
    host = prefix.rstrip("/") or "host0"
    assert found.hosts == [host]
    assert len(found.devices("gpu", host=host)) == size
    assert any(f"no host; {host} is assumed" in text for text in found.warnings)
    again = parse(text(found), "x")
    assert again.devices() == found.devices()


def test_words_of_yaml_stay_words():
    names = ["no", "1:30", "0123", "1e3", "yes", "1_000", "2020-01-01"]
    found = machine(*(f"id: {name}, kind: host" for name in names))
    assert [device.id for device in found.devices()] == names
    again = parse(text(found), "x")
    assert again.devices() == found.devices()


def test_a_machine_without_gpus_has_its_cores_as_places_for_ranks():
    here = Topology.detect()
    cores = here.devices(Kind.CORE)
    if here.devices(Kind.GPU):
        assert not cores
        return
    usable = [
        cores_of(cpu.attributes.get("allowed", "")) for cpu in here.devices("cpu")
    ]
    assert len(cores) == sum(map(len, usable)) > 0
    assert all(
        link.kind is LinkKind.SMP for core in cores for link in here.links_of(core.id)
    )


@pytest.mark.parametrize("name", machines())
def test_a_parameter_of_a_file_is_replaced_as_that_of_its_preset(name):
    path = ROOT / "topologies" / f"{name}.yaml"
    declared = Topology.load(name).links
    read = Topology.read(path, pcie=7.0)
    built = Topology.load(name, pcie=7.0)
    assert read.links == built.links != declared


def test_parameters_of_every_machine_suit_a_file_of_any_format(tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text(text(Topology.load("dgx1v")), encoding="utf-8")
    read = Topology.read(path, hosts=3, nics=2)
    built = Topology.load("dgx1v", hosts=3, nics=2)
    assert read.hosts == built.hosts
    assert len(read.devices("nic")) == len(built.devices("nic")) == 6
    with pytest.raises(TopologyError, match="nics=9 must be from 0 to 4"):
        Topology.read(path, nics=9)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (HEAD + "  - {id: a, kind: gpu, host: h}", "its file declares fast, two"),
        (SMALL["link_list"][0], "files declare their own, others have hosts"),
        ("<system version='1'><cpu numaid='0'/></system>", "only native files"),
    ],
)
def test_a_parameter_that_a_file_does_not_declare_is_refused(tmp_path, content, reason):
    path = tmp_path / "machine"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(TopologyError, match=f"no parameter 'uplink'.*{reason}"):
        Topology.read(path, uplink=1)


@pytest.mark.parametrize("value", ["fast", (4, 4), -1, 1e300, float("nan"), True])
def test_a_parameter_that_is_no_speed_is_refused(value):
    with pytest.raises(TopologyError, match="parameter fast"):
        parse(HEAD + "  - {id: a, kind: gpu, host: h}", "x", {"fast": value})
