"""Where choices are kept, and calls that are made up."""

import pytest

from collalgo.comm import program_cache
from collalgo.selection import on_host
from collalgo.selection.pricer import TableCache


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Choices are kept in a folder; calling it forgets those in memory."""
    monkeypatch.setenv("COLLALGO_CACHE", str(tmp_path / "kept"))

    def forget():
        monkeypatch.setattr(on_host, "_COMPUTED", TableCache())

    forget()
    return forget


@pytest.fixture
def run(monkeypatch):
    """Makes the program of a call: the name in its record for the flight recorder."""
    made = {}
    real = program_cache.Program

    def program(plan, kernel, divisor, record, *policies):
        found = real(plan, kernel, divisor, record, *policies)
        made[id(found)] = found, record[-1]
        return found

    monkeypatch.setattr(program_cache, "Program", program)
    return lambda programs, fields: made[id(programs.get(*fields))][1]
