"""Operations of mpi4py on arrays."""

import numpy as np
import pytest

from collalgo.integrations.as_mpi4py.constants import NUMBERS
from collalgo.integrations.as_mpi4py.errors import MpiException
from collalgo.integrations.as_mpi4py.ops import OPS
from collalgo.integrations.as_mpi4py.reductions import allreduce


@pytest.mark.parametrize(
    ("name", "dtype"), [("BAND", "f8"), ("MAXLOC", "f8"), ("MAX", "c16")]
)
def test_an_op_that_a_dtype_does_not_have_is_an_error_of_mpi(name, dtype):
    x = np.ones(4, dtype)
    calls = (
        lambda: OPS[name].Reduce_local(x, x.copy()),
        lambda: allreduce(None, x, x.copy(), OPS[name]),
    )
    for call in calls:
        with pytest.raises(MpiException, match="op") as error:
            call()
        assert error.value.Get_error_class() == NUMBERS["ERR_OP"]
