"""The functions of NumPy of the ops that have kernels."""

import numpy as np

#: By the name of the op; a mean is a sum that is divided at the end.
UFUNCS: dict[str, np.ufunc] = {
    "sum": np.add,
    "avg": np.add,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "band": np.bitwise_and,
    "bor": np.bitwise_or,
    "bxor": np.bitwise_xor,
    "land": np.logical_and,
    "lor": np.logical_or,
    "lxor": np.logical_xor,
}

#: The ops whose results are 0 and 1, of a single contribution, too.
LOGICAL = ("land", "lor", "lxor")
