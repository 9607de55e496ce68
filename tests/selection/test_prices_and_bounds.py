"""No price is below the lower bound of its collective, on any machine."""

import pytest

from collalgo import Topology, TopologyError, select, simulate
from collalgo.cost.bounds import BOUNDED
from collalgo.cost.lower_bound import AS_LOW
from collalgo.cost.simulation import MODELS
from collalgo.selection.on_topology import TopologyPricer
from collalgo.topology.places import ranks_of
from collalgo.topology.presets import FABRICS, machines
from collalgo.topology.readers import parse
from tests.support.leisure import at_leisure
from tests.support.shared_files import FOLDER, files, needs_files
from tests.support.small_files import SMALL

SIZES = (8, 1 << 10, 1 << 20, 1 << 30)

#: A rack of 72 GPUs takes minutes in groups of four.
LARGE = "gb200_nvl72"

#: The most ranks of a file for which all algorithms are priced.
MOST = 128


def check(topology, every=1):
    """The choice is the cheapest, so that no other price is below its bound either.

    With ``every`` of 4 each collective has one of the sizes, by turns.
    """
    pricer = TopologyPricer(topology)
    for number, collective in enumerate(BOUNDED):
        for nbytes in SIZES[number % every :: every]:
            found = select(collective, nbytes, topology=pricer)
            if found.bound_seconds:
                least = found.bound_seconds * (1 - AS_LOW)
                assert found.seconds >= least, (collective, nbytes, found.algorithm)


def check_rings(topology):
    """The same of a ring alone, the schedule with the fewest messages."""
    for nbytes in SIZES[::3]:
        found = simulate("ring", topology, nbytes, collective="allreduce")
        assert found.ratio >= 1 - AS_LOW, nbytes


ALONE = [*(name for name in machines() if name != LARGE), *FABRICS]

#: Machines whose grids and groups take seconds, which make slow has.
COSTLY = {"tpu", "tiled_torus", "dragonfly", "mi250x"}


@pytest.mark.parametrize("name", [name for name in ALONE if name not in COSTLY])
def test_of_machines_alone(name):
    check(Topology.load(name), every=4)


@pytest.mark.parametrize("name", at_leisure(["dgx1v", "dgx_h100", "mi250x"], {"dgx1v"}))
def test_of_machines_joined(name):
    """NVLinks of other meshes are joined by make slow, with all machines."""
    check(Topology.load(name, hosts=2))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("hosts", [1, 2, 4])
@pytest.mark.parametrize("name", machines())
def test_of_all_machines(name, hosts):
    check(Topology.load(name, hosts=hosts))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", FABRICS)
def test_of_all_fabrics(name):
    check(Topology.load(name))


def check_what_was_read(topology):
    """The same of a file, whose ranks may be few, many or apart."""
    if len(ranks_of(topology)) < 2:
        pytest.skip("no two ranks")
    try:
        if len(ranks_of(topology)) <= MOST:
            check(topology)
        else:
            check_rings(topology)
    except TopologyError as error:
        assert "cannot reach" in str(error) or "no link leaves" in str(error)


@pytest.mark.parametrize("name", SMALL)
def test_of_all_formats(name):
    check_what_was_read(parse(SMALL[name][0], name))


@pytest.mark.slow
@needs_files
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", files())
def test_of_all_files(name):
    try:
        topology = Topology.read(FOLDER / name)
    except TopologyError:
        pytest.skip("refused, with a reason")
    check_what_was_read(topology)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("collective", ["broadcast", "scatter", "gather", "reduce"])
@pytest.mark.parametrize("name", ["dgx_h100", "mi250x", "server8"])
def test_of_every_root_in_both_models(name, collective, model):
    machine = Topology.load(name)
    for root in (0, 3, 7):
        words = {"collective": collective, "root": root, "model": model}
        for nbytes in SIZES[::3]:
            found = simulate("binomial", machine, nbytes, **words)
            assert found.ratio >= 1 - AS_LOW, (root, nbytes)
