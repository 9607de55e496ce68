"""The first calls of a newcomer are rehearsed, without any other process."""

import sys
from subprocess import run

from collalgo.elastic import rehearsal
from tests.support.pricers import PROFILE

#: Rehearses, and prints the modules that the first calls would load then.
SCRIPT = """
import sys

import numpy as np

from collalgo.comm.library_programs import LibraryPrograms
from collalgo.engine.call import Call
from tests.support.pricers import PROFILE
from tests.support.ranks_on_hosts import ranks_on_hosts

if sys.argv[1] == "True":
    from collalgo.elastic import rehearsal

    rehearsal.host_profile = rehearsal.kept_profile = lambda: PROFILE
    rehearsal.rehearse(several_hosts=True)
before = set(sys.modules)
programs = LibraryPrograms(1, 4, PROFILE, (0, 0, 1, 1), lambda: ranks_on_hosts(2, 2))
programs.begin_by_formulas()
programs.exchange_for("sync", 48)
for collective, op in (("broadcast", None), ("allreduce", "max")):
    programs.named(Call(collective, np.dtype("f4"), 100, op), "sync", 0)
print(sorted(name for name in set(sys.modules) - before if "collalgo" in name))
"""


def loaded(*, is_rehearsed):
    words = [sys.executable, "-c", SCRIPT, str(is_rehearsed)]
    done = run(words, capture_output=True, check=True, text=True)
    return done.stdout.strip()


def test_the_first_calls_on_several_hosts_load_nothing_after_a_rehearsal():
    assert loaded(is_rehearsed=True) == "[]"
    assert loaded(is_rehearsed=False) != "[]"


def test_a_rehearsal_that_fails_is_left_to_the_calls(monkeypatch):
    monkeypatch.setattr(rehearsal, "kept_profile", lambda: PROFILE)
    monkeypatch.setattr(rehearsal, "CALLS", [None])
    rehearsal.rehearse(several_hosts=False)
