"""Requests to stop a launcher: which of them count, and for which launch."""

import signal
import time

import pytest

from collalgo.launch.signals import StopRequested, signals_raise, stop_delayed


def test_a_second_request_counts_although_others_came_at_once(monkeypatch):
    now, taken = 100.0, []
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with signals_raise():
        for now in (100.0, 100.8, 101.6, 102.4):
            try:
                signal.raise_signal(signal.SIGINT)
            except StopRequested:
                taken.append(now)
    assert taken == [100.0, 101.6]


def test_a_request_is_not_lost_to_an_error_nor_kept_for_another_launch():
    with signals_raise(), pytest.raises(StopRequested), stop_delayed():
        signal.raise_signal(signal.SIGTERM)
        raise BrokenPipeError
    with signals_raise(), stop_delayed():
        pass
