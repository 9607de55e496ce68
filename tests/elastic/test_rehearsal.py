"""The first calls of a newcomer are rehearsed, without any other process."""

import sys
from subprocess import run

import pytest

#: Rehearses, and prints the modules that the first calls would load then.
SCRIPT = """
import sys

import numpy as np

from collalgo.comm.library_programs import LibraryPrograms
from collalgo.elastic import rehearsal
from collalgo.engine.call import Call
from tests.support.pricers import PROFILE
from tests.support.ranks_on_hosts import ranks_on_hosts

rehearsal.host_profile = rehearsal.kept_profile = lambda: PROFILE
several_hosts = sys.argv[1] == "True"
placed = (lambda: ranks_on_hosts(2, 2)) if several_hosts else None
hosts = (0, 0, 1, 1) if several_hosts else ()
if sys.argv[2] == "True":
    rehearsal.rehearse(several_hosts=several_hosts)
before = set(sys.modules)
programs = LibraryPrograms(1, 4, PROFILE, hosts, placed)
programs.begin_by_formulas()
programs.exchange_for("sync", 48)
for collective, op in (("broadcast", None), ("allreduce", "max")):
    programs.named(Call(collective, np.dtype("f4"), 100, op), "sync", 0)
print(sorted(name for name in set(sys.modules) - before if "collalgo" in name))
"""


def loaded(*, several_hosts, is_rehearsed):
    words = [sys.executable, "-c", SCRIPT, str(several_hosts), str(is_rehearsed)]
    done = run(words, capture_output=True, check=True, text=True)
    return done.stdout.strip()


@pytest.mark.parametrize("several_hosts", [False, True])
def test_the_first_calls_load_nothing_after_a_rehearsal(several_hosts):
    assert loaded(several_hosts=several_hosts, is_rehearsed=True) == "[]"


def test_the_first_calls_on_several_hosts_load_modules_without_a_rehearsal():
    assert loaded(several_hosts=True, is_rehearsed=False) != "[]"
