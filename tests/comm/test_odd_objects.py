"""Every call takes or refuses odd objects alike, with an error that names the call."""

import numpy as np
import pytest

#: The calls that take one array, and those that take counts, on one rank.
PLAIN = "allreduce reduce broadcast allgather gather scatter reduce_scatter alltoall"
ALSO = "scan exscan allgatherv gatherv"
COUNTED = {"scatterv": ([1],), "alltoallv": ([1], [1])}
CALLS = [*PLAIN.split(), *ALSO.split(), *COUNTED]


class OnDevice:
    """An object that says, or raises, something about its device."""

    def __init__(self, found):
        self.found = found

    def __dlpack__(self, **_how):
        raise RuntimeError("it is not here")

    def __dlpack_device__(self):
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


class Raising:
    """An object whose protocols raise errors of their own."""

    def __getattr__(self, name):
        raise RuntimeError(f"no {name}")


class Frame:
    """As of pandas or xarray: it can make an array, which would not be its memory."""

    values = np.ones(1)

    def __array__(self, dtype=None, copy=None):
        return self.values.copy()


Frame.__module__ = "pandas.core"

DEVICES = (ValueError("odd"), AttributeError("odd"), None, "cpu", (1,), ("a", "b"),
           (99, 0), (-1, 0), (1, 0), (2.0, 0.5), (2**70, 0))  # fmt: skip

#: Objects, and what the errors say of them after the name of the call.
REFUSED = [
    *[(OnDevice(each), "NumPy cannot share the memory of") for each in DEVICES],
    (Raising(), "needs an array .* but got Raising; pass the data"),
    (Frame(), r"needs an array .* but got Frame; pass its copy x\.to_numpy"),
    (np.ma.array(np.ones(1), mask=[1]), r"got a masked array.*x\.filled"),
    (np.array([None]), "dtype object is not supported"),
    (np.zeros(1, "V0"), "dtype .V0 is not supported, since it has elements of 0"),
    (np.ndarray, "needs an array .* ndarray is a class"),
]  # fmt: skip


def forms(comm, name):
    """The call in the foreground, in the background and repeated."""
    more = COUNTED.get(name, ())
    yield lambda x: getattr(comm, name)(x, *more)
    yield lambda x: getattr(comm, f"{name}_async")(x, *more).wait()
    if hasattr(comm, f"persistent_{name}"):
        yield lambda x: getattr(comm, f"persistent_{name}")(x, *more)()


@pytest.mark.parametrize("name", CALLS)
def test_each_call_refuses_odd_objects_by_its_own_name(alone, name):
    for call in forms(alone, name):
        for buf, words in REFUSED:
            with pytest.raises(TypeError, match=rf"^{name}: {words}"):
                call(buf)


@pytest.mark.parametrize("name", CALLS)
def test_arrays_have_as_many_axes_as_numpy_allows(alone, name):
    most = 32 if np.lib.NumpyVersion(np.__version__) < "2.0.0" else 64
    for call in forms(alone, name):
        buf = np.ones((1,) * most)
        if name in ("allgather", "gather"):
            with pytest.raises(ValueError, match=f"^{name}: no array can hold .*axes"):
                call(buf)
        elif name == "exscan":
            call(buf)  # which leaves rank 0 as it is
        else:
            assert np.asarray(call(buf)).sum() == 1


def test_messages_and_buckets_refuse_odd_objects(alone):
    for buf, words in REFUSED:
        for call in ("isend", "irecv"):
            with pytest.raises(TypeError, match=words):
                getattr(alone, call)(buf, 0)
        with pytest.raises(TypeError, match=words), alone.bucket() as bucket:
            bucket.allreduce(buf)
