"""Results, pictures, traces and dumps are known again by those that write them."""

import json

import click
import pytest
from collalgo.bench.records import keep

import collalgo
from collalgo import OutputError, Topology
from collalgo.base import plotting as pictures
from collalgo.cost.timeline import timeline
from tests.support.foreign_files import THESIS, names


def test_results_of_benchmarks_are_known_again(tmp_path):
    for found in ({"ranks": 2}, [{"ranks": 2}, {"ranks": 3}]):
        path = tmp_path / f"{len(found)}.json"
        for _ in range(2):
            keep(path, found)
        rows = json.loads(path.read_text())
        assert [*rows][-1:] == [*found][-1:]
        path.write_text(path.read_text().replace("2", "4"))
        with pytest.raises(click.ClickException, match="was changed since"):
            keep(path, found)


@pytest.mark.parametrize("ending", ["png", "svg", "pdf", "eps", "PNG", ""])
def test_pictures_are_known_again(ending, tmp_path):
    figure = pictures.new_figure(2, 2)
    path = tmp_path / (f"a.{ending}" if ending else "a")
    for _ in range(2):
        pictures.save(figure, path)
    assert names(tmp_path) == [path.name]
    with pytest.raises(ValueError, match="unknown picture format 'foo'"):
        pictures.check(tmp_path / "a.foo")
    other = tmp_path / f"b.{ending or 'png'}"
    figure.savefig(other)
    with pytest.raises(OutputError, match="is not a picture"):
        pictures.save(figure, other)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_a_trace_of_another_tool_is_refused_on_every_rank_before_the_block(
    size, tmp_path
):
    path = tmp_path / "profile.json"
    path.write_text('{"traceEvents": []}')

    def on_each_rank(comm):
        with (
            pytest.raises(OutputError, match=r"profile\.json exists"),
            collalgo.trace(path, comm),
        ):
            raise AssertionError("the block has begun")
        comm.barrier()
        with collalgo.trace(path, comm, force=True):
            comm.barrier()
        with collalgo.trace(path, comm):
            comm.barrier()

    collalgo.threads(on_each_rank, size, timeout=60)
    assert len(json.loads(path.read_text())["traceEvents"]) > size


def test_a_predicted_trace_is_not_written_over_a_file_of_others(tmp_path):
    with pytest.raises(OutputError, match="is not a trace"):
        found = timeline("ring", Topology.load("dgx1v"), 64, collective="allgather")
        (tmp_path / "other.json").write_text("[1]")
        found.write(tmp_path / "other.json")


def test_a_dump_and_the_figures_of_the_machine_spare_files_of_others(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("RANK", "3")
    path = collalgo.dump(tmp_path)
    assert collalgo.dump(tmp_path) == path
    path.write_bytes(THESIS)
    with pytest.raises(OutputError, match="is not a dump"):
        collalgo.dump(tmp_path)
    assert path.read_bytes() == THESIS
    assert names(tmp_path) == [path.name]
