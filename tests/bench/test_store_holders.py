"""Jobs whose nodes hold their store together, of which one is killed."""

from contextlib import closing
from itertools import islice

import pytest
from collalgo.bench.disturbances.holders import _pairs, holder

from collalgo.launch.etcd_member import etcd_program
from tests.support.clusters import skip_without_etcd


@pytest.mark.parametrize("count", [1, 2, 3, 5, 7])
def test_members_of_a_store_get_two_ports_each(count):
    found = _pairs(count)
    assert len({port + n for port in found for n in (0, 1)}) == 2 * count


@pytest.mark.slow
@pytest.mark.deadline
def test_the_node_of_the_leader_is_killed_and_comes_back():
    skip_without_etcd()
    pytest.importorskip("cryptography", reason="certificates need cryptography")
    with closing(holder(etcd_program())) as trials:
        for longest, others, everyone in islice(trials, 2):
            assert longest > 0
            assert 0 < others < everyone
