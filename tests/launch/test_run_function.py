"""Functions that ``run`` and ``spawn`` call on new processes, and what these return.

Those that run on several hosts are on names of this machine.
"""

import signal
import subprocess
import sys
import types
from functools import partial

import numpy as np
import pytest

from collalgo import CollalgoError, run, spawn
from collalgo.bootstrap.store.protocol import VALUE_BYTES
from collalgo.bootstrap.store.server import Server
from collalgo.launch import environment, function_store
from collalgo.launch.function_call import (
    UNPICKLABLE,
    Call,
    decode_outcome,
    encode_failure,
    encode_result,
)
from collalgo.launch.function_store import opened, report_failures
from collalgo.launch.rank_function import Failure
from collalgo.launch.supervision import RankFailure
from tests.support.rank_functions import rank_times


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
    exec("def typed(comm): return comm.size", main.__dict__)
    return main


@pytest.fixture
def no_cloudpickle(monkeypatch):
    monkeypatch.setitem(sys.modules, "cloudpickle", None)


@pytest.mark.usefixtures("no_cloudpickle")
@pytest.mark.parametrize("fn", [lambda comm: comm.rank, closure(), partial(closure())])
def test_what_a_new_process_cannot_import_is_refused_at_once(fn):
    for caller, start in (("spawn", spawn), ("run", partial(run, hosts="a:1,b:1"))):
        with pytest.raises(CollalgoError, match=r"a new process cannot import") as e:
            start(fn, 2) if start is spawn else start(fn)
        assert str(e.value).startswith(f"{caller}: ")
        assert "pip install 'collalgo[cloudpickle]'" in str(e.value)
        assert "collalgo.threads(fn, size)" in str(e.value)
        assert "\n" not in str(e.value)


@pytest.mark.parametrize("name", ["fn", "Instance()"])
def test_what_only_the_main_process_defines_is_named(tmp_path, name):
    """Pickles by name succeed there, and a rank finds no such name."""
    script = tmp_path / "guarded.py"
    script.write_text(
        "import collalgo\n"
        "if __name__ == '__main__':\n"
        "    def fn(comm): return 1\n"
        "    class Instance:\n"
        "        def __call__(self, comm): return 1\n"
        f"    try: collalgo.spawn({name}, 2)\n"
        "    except collalgo.CollalgoError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=True
    )
    assert "a new process cannot import the function" in done.stdout
    assert "collalgo.threads(fn, size)" in done.stdout


@pytest.mark.usefixtures("no_cloudpickle")
def test_a_function_typed_at_a_prompt_is_refused_at_once(monkeypatch):
    main = of_a_prompt()
    monkeypatch.setitem(sys.modules, "__main__", main)
    with pytest.raises(CollalgoError, match=r"import typed .*its module is not a file"):
        spawn(main.typed, 2)


def test_what_cannot_be_imported_goes_by_value(monkeypatch):
    pytest.importorskip("cloudpickle")
    main = of_a_prompt()
    monkeypatch.setitem(sys.modules, "__main__", main)
    message = Call(main.typed, (closure(),), 3.0).encode("run")
    monkeypatch.undo()
    call = Call.decode(message)
    comm = types.SimpleNamespace(rank=5, size=7)
    assert (call.function(comm), call.args[0](comm), call.timeout) == (7, 5, 3.0)


def test_the_main_module_is_imported_again_only_if_the_call_names_it(monkeypatch):
    def needs(function):
        return b"init_main_from" in Call(function, (), None).encode("run")

    main = of_a_prompt()
    main.__file__ = __file__
    monkeypatch.setitem(sys.modules, "__main__", main)
    assert needs(main.typed)
    assert not needs(rank_times)
    pytest.importorskip("cloudpickle")
    exec("nameless = lambda comm: comm.rank", main.__dict__)
    assert not needs(main.nameless)
    main.__file__ = "<stdin>"
    assert not needs(main.typed)


def test_a_rank_names_the_main_module_that_it_has_imported_again(monkeypatch):
    main = of_a_prompt()
    main.typed.__module__, main.__file__ = "__mp_main__", __file__
    monkeypatch.setitem(sys.modules, "__main__", main)
    monkeypatch.setitem(sys.modules, "__mp_main__", main)
    assert b"init_main_from" in Call(main.typed, (), None).encode("spawn")


def test_ranks_of_a_new_job_are_no_children_of_the_rank_that_starts_them(monkeypatch):
    monkeypatch.setenv("COLLALGO_RANK_PROCESS", "0/2/1/1")
    for given in (environment.inherited(), environment.forwarded()):
        assert "COLLALGO_RANK_PROCESS" not in given


NESTED = """
import collalgo
def inner(comm): return comm.size
def outer(comm): return collalgo.spawn(inner, 2)
if __name__ == "__main__":
    comm = collalgo.init()
    print(collalgo.spawn(outer, 2) if comm.rank == 0 else "")
"""


@pytest.mark.slow
def test_a_rank_and_a_rank_of_a_rank_spawn_ranks(tmp_path):
    script = tmp_path / "nested.py"
    script.write_text(NESTED)
    command = [sys.executable, "-m", "collalgo", "run", "-n", "2", script]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False
    )
    assert "[[2, 2], [2, 2]]" in done.stdout, done.stderr


def test_a_call_is_refused_while_a_rank_imports_the_main_module():
    from collalgo.launch.function_call import _Importing

    with (
        _Importing.of_main(),
        pytest.raises(CollalgoError, match="if __name__ == '__main__'"),
    ):
        spawn(rank_times, 2)


def test_what_does_not_survive_pickling_arrives_as_text():
    class Local(Exception):
        pass

    _, failure = decode_outcome(
        encode_failure(Failure(3, Local("a reason"), "place")), 3
    )
    assert type(failure.error) is CollalgoError
    assert (str(failure.error), failure.error.rank, failure.text) == (
        "a reason",
        3,
        "place",
    )
    result, failure = decode_outcome(b"no pickle", 4)
    assert result is None
    assert "the result of rank 4 cannot be unpickled" in str(failure.error)


def test_results_are_pickled_by_value_only_if_they_need_it(monkeypatch):
    pytest.importorskip("cloudpickle")
    found, failure = decode_outcome(encode_result(closure()), 0)
    assert (found(types.SimpleNamespace(rank=2)), failure) == (2, None)
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    assert decode_outcome(encode_result([1, "two"]), 0) == ([1, "two"], None)
    with pytest.raises(UNPICKLABLE, match=r"inner"):
        encode_result(closure())


@pytest.fixture
def variables():
    server = Server(b"secret" * 5, "127.0.0.1")
    yield {
        "COLLALGO_STORE": f"127.0.0.1:{server.port}",
        "COLLALGO_SECRET": (b"secret" * 5).hex(),
    }
    server.close()


def test_messages_of_every_length_arrive_whole(variables):
    lengths = [0, 1, VALUE_BYTES - 1, VALUE_BYTES, VALUE_BYTES + 1, 3 * VALUE_BYTES]
    dice = np.random.default_rng(1)
    with opened(variables) as store, opened(variables) as other:
        for rank, length in enumerate(lengths):
            store.put_outcome(rank, dice.bytes(length))
        dice = np.random.default_rng(1)
        for (_, rank), found in sorted(other.outcomes().items()):
            assert found == dice.bytes(lengths[rank])
        store.put_call(b"call")
        assert other.call() == b"call"


def test_what_is_too_long_is_refused_by_sender_and_receiver(variables, monkeypatch):
    with opened(variables) as store:
        store.put_outcome(1, bytes(100))
        monkeypatch.setattr(function_store, "MOST_BYTES", 99)
        with pytest.raises(CollalgoError, match=r"result of rank 2 takes 100 .* 99;"):
            store.put_outcome(2, bytes(100))
        with pytest.raises(CollalgoError, match="has 100 bytes, more than"):
            store.outcomes()


def test_failures_are_found_in_the_order_in_which_they_were_told(variables):
    told = [RankFailure(rank, f"rank {rank} ended", ["a", "b"]) for rank in (12, 3, 7)]
    report_failures(variables, told, True)
    with opened(variables) as store:
        found = [RankFailure(*each) for _, each in sorted(store.failures().items())]
    assert found == [RankFailure(t.rank, t.reason, ["a", "b"]) for t in told]


def test_functions_of_a_file_run_with_arguments_bound_or_as_objects():
    assert spawn(partial(rank_times, factor=3), 2) == [0, 3]
    assert run(Doubler(), size=1) == [0]


STOPPED = """
import collalgo, os, signal, time
def sleep(comm):
    comm.barrier()
    if comm.rank == 0:
        os.kill(int(os.environ["CALLER"]), signal.SIGINT)
    time.sleep(60)
if __name__ == "__main__":
    os.environ["CALLER"] = str(os.getpid())
    try:
        collalgo.spawn(sleep, 1)
    except KeyboardInterrupt:
        print("interrupted")
"""


def test_an_interrupt_ends_the_ranks_and_is_raised(tmp_path):
    script = tmp_path / "stopped.py"
    script.write_text(STOPPED)
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=30,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.default_int_handler),
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "interrupted\n"), done.stderr
    left = subprocess.run(["pgrep", "-f", str(script)], check=False)
    assert left.returncode == 1


@pytest.mark.parametrize("args", [3, "ab"])
def test_arguments_of_a_function_are_a_sequence(args):
    with pytest.raises(TypeError, match=r"args is .* pass a tuple .*size=4"):
        run(closure(), args, size=1)
