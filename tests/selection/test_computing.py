"""What is computed once for all threads."""

from threading import Event, Thread

import pytest

from collalgo import select
from collalgo.algorithms import ring
from collalgo.algorithms.first_use import prove_once
from collalgo.cost.host_profile import HostProfile
from collalgo.selection.on_host import HostPricer, price
from collalgo.selection.pricer import TableCache

PROFILE = HostProfile(3e-7, 3e-6, 1e-7, 1e-10, 1e-10, cores=2)
HOST = HostPricer(2, PROFILE)


def compute(schedule, what):
    if what == "proof":
        prove_once(schedule, 3, "allreduce")
    else:
        price(schedule, 3, PROFILE)


@pytest.mark.parametrize("within", ["proof", "price"])
def test_a_schedule_may_ask_for_a_choice_while_another_thread_computes(within):
    started, is_inside, cache = Event(), Event(), TableCache()

    def asking(group):
        """A schedule that asks for a choice, as users' may."""
        started.set()
        is_inside.wait(0.2)  # long enough for the other thread to hold what it can
        cache.get("choice", [], lambda: select("allreduce", 8, topology=HOST))
        yield from ring.allreduce(group)

    def inside():
        is_inside.set()
        compute(lambda group: ring.allreduce(group), within)

    workers = [
        Thread(target=compute, args=(asking, within), daemon=True),
        Thread(target=lambda: cache.get("other", [], inside), daemon=True),
    ]
    workers[0].start()
    assert started.wait(30)
    workers[1].start()
    for worker in workers:
        worker.join(30)
        assert not worker.is_alive()
