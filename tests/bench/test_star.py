"""The race between hosts on one switch, at several link rates."""

import math

import pytest
from click.testing import CliRunner
from collalgo.bench.cluster.cli import main
from collalgo.bench.cluster.layout import layout_of_file
from collalgo.bench.cluster.star import Times, description, table, times_in

from tests.support.clusters import needs_root


def test_the_description_is_a_cluster_of_these_hosts_and_this_rate(tmp_path):
    file = tmp_path / "star.yaml"
    file.write_text(description(3, 2, 40))
    layout = layout_of_file(file)
    assert layout.slots == {"h0": 2, "h1": 2, "h2": 2}
    assert [cable.bytes_per_second for cable in layout.cables] == [5e9] * 3


def row(algorithm, seconds, chosen=False):
    return {
        "collective": "allreduce", "nbytes": 8, "algorithm": algorithm,
        "seconds": seconds, "chosen": chosen,
    }  # fmt: skip


def test_peers_of_other_races_are_scaled_by_collalgo_in_theirs():
    rows = [
        row("ring", [1.0, 2.0, 9.0], chosen=True),
        row("MPICH 5.0.2", [3.0]),
        row("ring", [4.0], chosen=True),
        row("Open MPI 5.0.11", [12.0]),
        row("gloo of torch 2.13", [40.0]),
    ]
    peers = {"MPICH 5.0.2": 3.0, "Open MPI 5.0.11": 6.0, "gloo": 20.0}
    assert list(times_in(rows)) == [Times("allreduce", 8, 2.0, peers)]


def test_the_table_has_a_column_for_each_rate():
    one = Times("broadcast", 1 << 20, 2e-3, {"gloo": 5e-3})
    lines = list(table({10.0: [one], math.inf: [one._replace(peers={})]}))
    assert lines[0] == "| collective | size | 10 Gbit/s | unlimited |"
    assert lines[2] == "| broadcast | 1 MiB | 2 ms (gloo 2.50) | 2 ms () |"


@pytest.mark.parametrize("rates", ["fast", "1,0", "nan", "-1"])
def test_rates_are_numbers_above_0(rates):
    done = CliRunner().invoke(main, ["race", "--rates", rates])
    assert done.exit_code == 2
    assert "rate" in done.output


@pytest.mark.slow
@needs_root
def test_a_race_makes_its_hosts_and_compares_with_mpi():
    done = CliRunner().invoke(
        main, ["race", "--rates", "10,inf", "-c", "broadcast", "-s", "8"]
    )
    assert done.exit_code == 0, done.output
    assert "| broadcast | 8 B |" in done.output
    assert done.output.count("MPICH") == 2
