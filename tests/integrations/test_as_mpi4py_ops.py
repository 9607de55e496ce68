"""Operations of mpi4py on arrays."""

from types import SimpleNamespace

import numpy as np
import pytest

import collalgo
from collalgo.integrations.as_mpi4py import calls, reductions
from collalgo.integrations.as_mpi4py.constants import NUMBERS
from collalgo.integrations.as_mpi4py.datatypes import TYPECODES
from collalgo.integrations.as_mpi4py.errors import MpiException
from collalgo.integrations.as_mpi4py.memory import IN_PLACE
from collalgo.integrations.as_mpi4py.ops import OPS


@pytest.mark.parametrize(
    ("name", "dtype"), [("BAND", "f8"), ("MAXLOC", "f8"), ("MAX", "c16")]
)
def test_an_op_that_a_dtype_does_not_have_is_an_error_of_mpi(name, dtype):
    x = np.ones(4, dtype)
    reductions_of_x = (
        lambda: OPS[name].Reduce_local(x, x.copy()),
        lambda: reductions.allreduce(None, x, x.copy(), OPS[name]),
    )
    for call in reductions_of_x:
        with pytest.raises(MpiException, match="op") as error:
            call()
        assert error.value.Get_error_class() == NUMBERS["ERR_OP"]


#: A pair without the padding after its index.
PAIR = np.dtype([("value", "f8"), ("index", "i4")])
DOUBLE_INT = TYPECODES["di"]


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("in_place", [False, True])
def test_a_buffer_may_end_before_the_padding_of_its_last_pair(size, count, in_place):
    def on_each_rank(engine):
        x, y = (np.zeros(16 * count - 4, np.uint8) for _ in range(2))
        x[-12:] = np.array([(engine.rank, engine.rank)], PAIR).view(np.uint8)
        comm = SimpleNamespace(state=SimpleNamespace(engine=engine))
        result = x if in_place else y
        sent = IN_PLACE if in_place else [x, count, DOUBLE_INT]
        received = [result, count, DOUBLE_INT]
        calls.run(comm, reductions.allreduce(comm, sent, received, OPS["MAXLOC"]))
        return result[-12:].view(PAIR)[0].item()

    assert collalgo.threads(on_each_rank, size) == [(size - 1, size - 1)] * size


def test_a_local_reduction_writes_a_pair_without_padding():
    x, y = np.array([(3, 1)], PAIR), np.array([(2, 0)], PAIR)
    OPS["MAXLOC"].Reduce_local([x, 1, DOUBLE_INT], [y, 1, DOUBLE_INT])
    assert y.item() == (3, 1)
