"""Ranks with devices, on a stand-in that the host cannot read or write."""

import threading
from types import SimpleNamespace

import pytest

import collalgo
from collalgo.comm.current import runner_of
from collalgo.engine.devices import arrays
from tests.engine.devices.test_interpreter import build
from tests.support.fake_cuda import StandIn
from tests.support.fake_network import Messages

KINDS = ["one process", "several processes", "several devices of one process",
         "several hosts", "several hosts, devices, network",
         "several hosts, devices, engine",
         "by way of the host"]  # fmt: skip


class OfThread(threading.local):
    runtime = None


@pytest.fixture(scope="session")
def interpreters(tmp_path_factory):
    kinds = ["float32", "float64", "float16", "bfloat16", "int8", "complex64", "bool"]
    used = [(kind, "sum") for kind in kinds] + [("float32", "max"), ("float32", "min")]
    return build(tmp_path_factory.mktemp("interpreters"), used)


def offer_engine(comm):
    """Let a rank have an engine that takes the memory of stand-ins."""
    runner = runner_of(comm)
    runner.recovery.transport = SimpleNamespace(
        device_messages=Messages(runner.label, comm.rank), failure=lambda: None,
        closed=False, forked=False, rank=comm.rank,
    )  # fmt: skip
    runner.context.engine = "an engine, CUDA-aware"


def prepare(comm, kind):
    """Let a rank take others for those of other hosts, and have an engine to them."""
    if "several hosts" in kind:
        runner_of(comm).hosts = (0, *[1] * (comm.size - 1))
    if "engine" in kind and not ("some" in kind and comm.rank):
        offer_engine(comm)


@pytest.fixture(params=["operations", "one kernel"])
def devices(monkeypatch, interpreters, request):
    """Let each thread that is a rank have a device, of a kind."""
    mine = OfThread()
    monkeypatch.setattr(arrays, "runtime_of", lambda device: mine.runtime)
    if request.param == "operations":
        monkeypatch.setenv("COLLALGO_ONE_KERNEL", "0")

    def run(function, size, kind="one process", shared=None):
        def rank(comm):
            process = comm.rank if "processes" in kind else 0
            device = comm.rank if "devices" in kind else 0
            prepare(comm, kind)
            mine.runtime = shared or StandIn(
                process, device, maps=kind != "by way of the host",
                reaches=kind != "devices that do not reach each other" or not comm.rank,
                interpreters=interpreters,
                network="a network" if "network" in kind else None,
                comes_up="no cable" not in kind or not comm.rank,
            )  # fmt: skip
            return function(comm, mine.runtime)

        return collalgo.threads(rank, size)

    return run
