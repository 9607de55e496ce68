"""Arguments of calls as no one should pass them, beside good ones."""

import inspect
from fractions import Fraction

import numpy as np

from collalgo import CollalgoError
from collalgo.comm.communicator import Communicator

#: What a call with bad arguments may raise.
ALLOWED = (CollalgoError, TypeError, ValueError, BufferError, NotImplementedError)
ALLOWED += (MemoryError,)  # of NumPy, for arrays of terabytes

#: Methods that take arrays or integers, by name; the others end or change a world.
CALLS = "allreduce reduce scan exscan broadcast all gather scatter barrier persistent"
METHODS = sorted(
    name
    for name in dir(Communicator)
    if name.startswith((*CALLS.split(), "empty", "bucket"))
)

INTEGERS = [0, 1, 2, True, np.int8(1), np.uint64(1), np.array(1), -1, 3, 7]
INTEGERS += [2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**63, -(2**63), 2**64, -(10**600)]
NO_INTEGERS = [1.5, np.float32(1), float("nan"), None, "1", b"1", [1], {}, object()]
NO_INTEGERS += [Fraction(1), 1j, np.datetime64(1, "s"), np.array([1, 2])]
SECONDS = [
    1,
    2.5,
    0,
    -1,
    float("nan"),
    float("inf"),
    1e300,
    None,
    "1",
    [],
    np.float16(2),
]
NAMES = [
    "sum",
    "max",
    "avg",
    "prod",
    "min",
    "band",
    "",
    "x" * 500,
    "\0",
    None,
    1,
    np.add,
]
ALGORITHMS = [None, "ring", "tree", "nothing", "", "ring(segments=2)", "ring(", 3]
ALGORITHMS += ["ring(segments=-1)", "binomial(radix=10**9)", "\0", [], "bruck"]


DTYPES = ["f4", "f8", "f2", "i1", "i4", "u2", "u8", "c8", "?", "g", ">f4"]
DTYPES += ["f4", "U3", "S2", "O", "M8[s]", "V5", "i4,f4"]


def array(draw):
    """Something that is an array, or is not."""
    # Long: one branch for each way.
    shape = draw.choice([(), (0,), (1,), (2,), (6,), (300,), (6, 2), (3, 0), (2, 3, 4)])
    dtype = draw.choice(DTYPES)
    made = np.zeros(shape, dtype)
    way = draw.randrange(16)
    if way == 0 and made.ndim:
        made = made[::2]
    elif way == 1 and made.ndim:
        made = made[::-1]
    elif way == 2:
        made.flags.writeable = False
    elif way == 3:
        made = np.broadcast_to(made, (3, *made.shape))
    elif way == 4:
        made = np.ma.masked_array(made)
    elif way == 5:
        made = made.T
    elif way == 6 and made.nbytes > 4:
        made = np.frombuffer(bytearray(made.nbytes + 1), "u1")[1:]
    elif way == 7:
        return draw.choice([bytes(8), bytearray(8), memoryview(b"abcd"), [1, 2], {}])
    elif way == 8:
        return draw.choice(NO_INTEGERS + INTEGERS)
    return made


def integer(draw):
    return draw.choice(INTEGERS if draw.random() < 0.7 else NO_INTEGERS)


def counts(draw):
    """Counts, a table of them, or something else."""
    if draw.random() < 0.2:
        return draw.choice(
            [*NO_INTEGERS, np.arange(3), range(3), (i for i in range(3))]
        )
    row = [integer(draw) for _ in range(draw.choice([1, 3, 3, 3, 4]))]
    return [row] * 3 if draw.random() < 0.2 else row


#: How to draw a value for a parameter of each name; others are integers.
DRAWS = {
    "buf": array,
    "out": lambda draw: None if draw.random() < 0.6 else array(draw),
    "op": lambda draw: draw.choice(NAMES),
    "algorithm": lambda draw: draw.choice(ALGORITHMS),
    "timeout": lambda draw: draw.choice(SECONDS),
    "reproducible": lambda draw: draw.choice([True, False, None, 2, "no"]),
    "dtype": lambda draw: draw.choice(["f4", float, None, "nothing", "O", 3]),
    "shape": counts,
    "order": lambda draw: draw.choice("CFAK1"),
}


def arguments(method, draw):
    """Arguments of a method, of which each may be missing or bad."""
    drawn = {}
    for name, parameter in inspect.signature(method).parameters.items():
        needed = parameter.default is inspect.Parameter.empty
        if needed or draw.random() < 0.4:
            one = counts if name.endswith("counts") else DRAWS.get(name, integer)
            drawn[name] = one(draw)
    return drawn
