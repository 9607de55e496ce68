"""Each call is declared once; its other forms have the same declaration."""

import inspect
import pydoc

import numpy as np
import pytest

import collalgo
from collalgo import Communicator, Persistent, Work, threads
from collalgo.schedule.collective import COLLECTIVES

#: Collectives with blocks of unequal or of equal length have names of their own, too.
CALLS = (
    *COLLECTIVES, "allgatherv", "alltoallv", "gatherv", "scatterv", "reduce_scatterv",
    "reduce_scatter_block",
)  # fmt: skip

PERSISTENT = (
    "allreduce", "reduce", "reduce_scatter", "broadcast", "allgather", "alltoall",
    "gather", "barrier", "alltoallv",
)  # fmt: skip

#: The collectives on objects of Python, which have the form of the foreground only.
OBJECT_CALLS = (
    "allgather_objects", "alltoall_objects", "broadcast_object", "gather_objects",
    "reduce_objects", "scatter_objects",
)  # fmt: skip

#: All attributes of a communicator, as the documentation lists them.
DOCUMENTED = {
    "abort", "bucket", "close", "closed", "cross", "dup", "empty", "engine", "forked",
    "group", "grow", "heap", "hosts", "iprobe", "irecv", "isend", "label", "local",
    "neighbors",
    "probe", "rank", "recv", "replan", "revoke", "select", "send", "sendrecv", "shrink",
    "size", "split", "timeout",
    *CALLS, *OBJECT_CALLS, "send_object", "recv_object", "send_object_async",
    "recv_object_async",
    *(f"{name}_async" for name in (*CALLS, *OBJECT_CALLS)),
    *(f"persistent_{name}" for name in PERSISTENT),
}  # fmt: skip


def parameters(function, left_out):
    """Name, kind, default and annotation of each parameter but one."""
    found = inspect.signature(function).parameters.values()
    return [
        (p.name, p.kind, p.default, p.annotation) for p in found if p.name != left_out
    ]


@pytest.mark.parametrize("name", [*CALLS, *OBJECT_CALLS])
def test_a_method_is_declared_as_its_function(name):
    function, method = getattr(collalgo, name), getattr(Communicator, name)
    assert "comm" in inspect.signature(function).parameters
    assert next(iter(inspect.signature(method).parameters)) == "self"
    assert parameters(function, "comm") == parameters(method, "self")
    assert method.__doc__ == function.__doc__
    assert method.__name__ == name
    returns = [inspect.signature(f).return_annotation for f in (function, method)]
    assert returns[0] == returns[1] != inspect.Signature.empty


@pytest.mark.parametrize("name", CALLS)
def test_a_call_in_the_background_is_declared_as_in_the_foreground(name):
    function = getattr(collalgo, name)
    for form, left_out in (
        (getattr(collalgo, f"{name}_async"), "comm"),
        (getattr(Communicator, f"{name}_async"), "self"),
    ):
        assert parameters(form, left_out) == parameters(function, "comm")
        assert inspect.signature(form).return_annotation == "Work"
        assert form.__name__ == f"{name}_async"
        assert name in form.__doc__


@pytest.mark.parametrize("name", PERSISTENT)
def test_a_persistent_call_is_declared_as_the_call(name):
    form = getattr(Communicator, f"persistent_{name}")
    assert parameters(form, "self") == parameters(getattr(collalgo, name), "comm")
    assert inspect.signature(form).return_annotation == "Persistent"
    assert form.__name__ == f"persistent_{name}"


@pytest.mark.parametrize("name", CALLS)
def test_every_parameter_has_a_type(name):
    for parameter in inspect.signature(getattr(collalgo, name)).parameters.values():
        assert parameter.annotation not in (inspect.Parameter.empty, "Any"), parameter
        if parameter.name == "comm":
            assert parameter.annotation == "Communicator | mpi4py.MPI.Comm | None"


def test_help_shows_the_declaration():
    for thing in (collalgo.allreduce, Communicator.allreduce):
        text = pydoc.plain(pydoc.render_doc(thing)).replace("'", "")
        assert "buf: Tree" in text
        assert "op: OpLike = sum" in text
        assert "The communicator." in text


def test_a_communicator_shows_what_is_documented_and_nothing_else():
    def on_each_rank(comm):
        found = {name for name in dir(comm) if not name.startswith("_")}
        public = {name for name in vars(comm) if not name.startswith("_")}
        return found, public

    for found, public in threads(on_each_rank, 2):
        assert found == DOCUMENTED
        assert public <= DOCUMENTED


def test_methods_take_arguments_as_functions_do():
    def on_each_rank(comm):
        x = np.array([comm.rank + 1])
        by_name = comm.allreduce(buf=x.copy(), op="max", out=None)
        unbound = Communicator.allreduce(comm, x.copy(), "max")
        spread = comm.allreduce(*[x.copy(), "max"], algorithm="ring")
        function = collalgo.allreduce(comm=comm, buf=x.copy(), op="max")
        assert by_name == unbound == spread == function == [comm.size]
        assert isinstance(comm.allreduce_async(buf=x.copy()), Work)
        assert isinstance(collalgo.allreduce_async(x.copy(), comm=comm), Work)
        assert isinstance(comm.persistent_allreduce(buf=x), Persistent)
        Communicator.barrier(comm, timeout=10)
        collalgo.barrier_async(comm=comm, timeout=10).wait()

    threads(on_each_rank, 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda comm, x: comm.allreduce(), "buf|positional"),
        (lambda comm, x: Communicator.allreduce(), "communicator"),
        (lambda comm, x: Communicator.barrier(), "communicator"),
        (lambda comm, x: comm.allreduce(x, "sum", x), "positional"),
        (lambda comm, x: comm.allreduce(*[x] * 40), "positional"),
        (lambda comm, x: comm.allreduce(x, comm=comm), "comm"),
        (lambda comm, x: comm.allreduce(x, root=0), "root"),
        (lambda comm, x: comm.allreduce(x, buf=x), "buf"),
        (lambda comm, x: collalgo.allreduce(x, 3), "of type int"),
        (lambda comm, x: Communicator.allreduce(3, x), "of type int"),
    ],
)
def test_wrong_arguments_are_refused(call, message):
    def on_each_rank(comm):
        with pytest.raises(TypeError, match=message):
            call(comm, np.ones(1))
        assert comm.allreduce(np.ones(1)) == comm.size

    threads(on_each_rank, 2)


MISFITS = {
    "allreduce": [(), {}],
    "barrier": [(1, 2), {}],
    "broadcast": [(np.ones(1),), {"toor": 1}],
    "allreduce_async": [(), {}],
    "persistent_allreduce": [(), {}],
    "send": [(np.ones(1),), {}],
    "recv": [(), {}],
    "isend": [(1, 2, 3, 4, 5), {}],
    "irecv": [(np.ones(1),), {"sauce": 0}],
    "sendrecv": [(), {}],
    "probe": [(0, 1, 2), {}],
}


@pytest.mark.parametrize("name", MISFITS)
def test_arguments_that_do_not_fit_are_told_by_the_signature_of_the_method(name):
    """The communicator is none of them."""
    args, named = MISFITS[name]

    def on_each_rank(comm):
        bound = getattr(comm, name)
        with pytest.raises(TypeError) as caught:
            bound(*args, **named)
        with pytest.raises(TypeError) as right:
            inspect.signature(bound).bind(*args, **named)
        return str(caught.value), str(right.value)

    ((text, reason),) = threads(on_each_rank, 1)
    assert text.startswith(f"{name}: {reason}; call it as {name}(")
    assert "self" not in text
    assert "comm" not in text


def test_errors_of_arguments_that_fit_are_those_of_the_call():
    def on_each_rank(comm):
        with pytest.raises(TypeError, match=r"^allreduce: needs an array"):
            comm.allreduce("text")
        with pytest.raises(TypeError, match=r"^recv: "):
            comm.recv("text", 0)

    threads(on_each_rank, 1)
