"""The distance of two cores is measured, and kept for a moment."""

import pytest

from collalgo.base.threads import ThreadRefused
from collalgo.cost import calibration, distance as module
from collalgo.cost.distance import distance, distance_now


@pytest.fixture
def trials(monkeypatch):
    """The results of measurements, and the time, which a test sets."""
    now = {"seconds": 1e-7, "time": 0.0, "asked": 0}

    def round_trips(*_, **__):
        now["asked"] += 1
        if now["seconds"] is None:
            raise ThreadRefused("no threads")
        return now["seconds"]

    monkeypatch.setattr(calibration, "round_trips", round_trips)
    monkeypatch.setattr(module, "monotonic", lambda: now["time"])
    monkeypatch.setattr(module, "cores", lambda: 2)
    monkeypatch.setattr(module, "_last", module._Last())
    return now


def test_a_distance_holds_for_a_moment(trials):
    assert [distance(), distance()] == [1e-7, 1e-7]
    assert trials["asked"] == 1
    trials["seconds"] = 4e-7
    assert distance() == 1e-7
    trials["time"] += 1.1 * module.HOLDS
    assert distance() == 4e-7
    trials["seconds"] = 2e-7
    assert [distance_now(), distance()] == [2e-7, 2e-7]


def test_one_core_or_a_process_without_threads_has_no_distance(trials, monkeypatch):
    trials["seconds"] = None
    assert distance() == 0.0
    monkeypatch.setattr(module, "cores", lambda: 1)
    assert distance_now() == 0.0
    assert trials["asked"] == 1


@pytest.mark.parametrize("pins", [True, False])
def test_a_distance_is_measured_also_where_threads_cannot_be_pinned(monkeypatch, pins):
    def refused(*_):
        raise PermissionError(1, "Operation not permitted")

    if not pins:
        monkeypatch.setattr(calibration.os, "sched_setaffinity", refused)
    found = distance_now()
    assert isinstance(found, float)
    assert found > 0.0 if module.cores() > 1 else found == 0.0
