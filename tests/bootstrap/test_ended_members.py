"""The end of a member is reported to the store, however slow that is."""

import socket
import threading

from collalgo.bootstrap.store.at_url import store_place
from collalgo.bootstrap.store.ended_members import report_end


def reports():
    """The threads that report an end."""
    return [t for t in threading.enumerate() if t.name.startswith("collalgo end of")]


def test_a_store_that_does_not_answer_delays_nobody():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        place = store_place(f"etcd://127.0.0.1:{port}", "job")
        report_end(place, "a")
        assert reports()  # while it waits for an answer
    for thread in reports():
        thread.join(30)
    assert not reports()


def test_stores_that_see_the_end_of_a_process_are_told_nothing():
    report_end(store_place("collalgo://127.0.0.1:1", "job"), "a")
    assert not reports()
