"""Functions of ``spawn``, which new processes import."""

import sys
import types
from functools import partial

import pytest

from collalgo import CollalgoError, spawn

pytestmark = pytest.mark.parallel


def rank_times(comm, factor=1):
    return comm.rank * factor


class Doubler:
    def __call__(self, comm):
        return comm.rank * 2


def closure():
    def inner(comm):
        return comm.rank

    return inner


def of_a_prompt():
    """A function as one that is typed at a prompt, where there is no file to import."""
    main = types.ModuleType("__main__")
    exec("def typed(comm): return 1", main.__dict__)
    return main


@pytest.mark.parametrize("fn", [lambda comm: comm.rank, closure(), partial(closure())])
def test_what_a_new_process_cannot_import_is_refused_at_once(fn):
    with pytest.raises(CollalgoError, match=r"spawn: a new process cannot import") as e:
        spawn(fn, 2)
    assert "collalgo.threads(fn, size)" in str(e.value)
    assert "\n" not in str(e.value)


def test_a_function_typed_at_a_prompt_is_refused_at_once(monkeypatch):
    main = of_a_prompt()
    monkeypatch.setitem(sys.modules, "__main__", main)
    with pytest.raises(CollalgoError, match=r"import typed .its module is no file"):
        spawn(main.typed, 2)


def test_functions_of_a_file_run_with_arguments_bound_or_as_objects():
    assert spawn(partial(rank_times, factor=3), 2) == [0, 3]
    assert spawn(Doubler(), 1) == [0]
