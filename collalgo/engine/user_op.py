"""Ops of the user: functions of two arrays, in Python or compiled."""

import ctypes
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from collalgo._kernels.engine.reduction.reduce import Reduction
from collalgo._kernels.engine.reduction.user_op import (
    CompiledReduction,
    PythonReduction,
)
from collalgo.base.arguments import shown, wrong_type
from collalgo.base.cache import recalled
from collalgo.base.digest import blake2b
from collalgo.base.foreign import package_of

Arrays = list[NDArray[Any]]
Function = Callable[[Any, Any], Any]

#: The functions of NumPy of which the order of the arguments does not matter, beside
#: those that have names among the ops.
COMMUTATIVE = (
    *("hypot", "logaddexp", "logaddexp2", "fmin", "fmax", "gcd", "lcm"),
    *("equal", "not_equal"),
)

#: The form of a compiled function; called from Python, it releases the GIL.
_COMPILED = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)

#: The type of every function pointer of ctypes.
_POINTER: type[Any] = _COMPILED.__mro__[1]

#: The ops of functions that reduce one array, by their names in Python and NumPy.
OF_ONE_ARRAY = {
    "sum": "sum",
    "prod": "prod",
    "mean": "avg",
    "average": "avg",
    "min": "min",
    "amin": "min",
    "max": "max",
    "amax": "max",
    "all": "land",
    "any": "lor",
    "argmin": "argmin",
    "argmax": "argmax",
}

_names: dict[int, str] = {}


class Op:
    """An op of the user, for every call that reduces.

    Parameters
    ----------
    function
        A function of two arrays that returns the array of ``left op right``, as a ufunc
        of NumPy. It is called with parts of the arrays of any number of elements, of
        one axis, and may keep or overwrite them. Or a compiled function, as a ``cfunc``
        of numba or a function pointer of cffi or ctypes, of the form
        ``void f(T *left, const T *right, int64_t count)``, which writes its result to
        ``left``; it is called without the GIL. Or an op of mpi4py.
    commute
        Whether ``left op right`` is ``right op left``. If not, all contributions are
        combined in the order of the ranks, by an algorithm that keeps it. By default
        the property of a known ufunc or op of mpi4py, otherwise False.
    identity
        The neutral element, or an array of them, which an exscan gives rank 0.
    name
        What ranks compare, and what errors show; by default that of the function.
    dtype
        The dtype of a compiled function, which needs it.

    Raises
    ------
    TypeError
        If it is not such a function, or a compiled one without a dtype.

    Notes
    -----
    It must be associative, and the same on all ranks: these compare its name,
    ``commute`` and dtype. Ops of mpi4py have no names of their own, so pass ``name``.
    An error that it raises is raised by the call on that rank; the other ranks raise an
    :class:`~collalgo.OpFailed`.

    Examples
    --------
    >>> import collalgo
    >>> import numpy as np
    >>> op = collalgo.Op(lambda a, b: 10 * a + b, name="digits")
    >>> collalgo.threads(lambda comm: comm.allreduce(np.array([comm.rank]), op), 4)[0]
    array([123])
    """

    def __init__(
        self,
        function: Any,
        *,
        commute: bool | None = None,
        identity: Any = None,
        name: str | None = None,
        dtype: DTypeLike | None = None,
    ):
        self.function, self.identity = function, identity
        self.dtype = None if dtype is None else np.dtype(dtype)
        self._address = _address(function)
        if self._address and self.dtype is None:
            raise TypeError(
                f"Op: {shown(function)} is compiled, so it needs the dtype of its "
                "elements; pass dtype='float64' or similar"
            )
        _check_function(function, bool(self._address))
        known = _commutes(function)
        self.commute = known if commute is None else bool(commute)
        self.name = name or _name(function)

    def __repr__(self) -> str:
        return f"<Op {self.name}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Op) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[object, ...]:
        function: object = self.function
        if self._address or not isinstance(function, Hashable):
            function = id(function)
        return function, self.commute, id(self.identity), self.name, self.dtype

    @property
    def code(self) -> int:
        """The number by which ranks compare it, without that of the builtin ops."""
        text = f"{self.name} {self.commute} {self.dtype}"
        digest = blake2b(text.encode(), digest_size=7).digest()
        code = int.from_bytes(digest, "little")
        recalled(_names, code, lambda _: self.name)
        return code

    def reduction(self, dtype: np.dtype[Any]) -> Reduction:
        """The kernel for a dtype.

        Raises
        ------
        TypeError
            If the op is not defined for it.
        """
        combination = self.combination(dtype)
        if self._address:
            return CompiledReduction(self._address, dtype.itemsize, self.function)
        return PythonReduction(combination, dtype)

    def combination(self, dtype: np.dtype[Any]) -> Callable[[Arrays], NDArray[Any]]:
        """The function that combines several arrays of a dtype, in their order."""
        function = self.function
        if self.dtype not in (None, dtype):
            raise TypeError(f"op {self.name!r} is for {self.dtype}, not for {dtype}")
        if self._address:
            return partial(_by_address, _COMPILED(self._address))
        if isinstance(function, np.ufunc):
            _check_ufunc(function, dtype)
            return partial(_by_ufunc, function)
        if package_of(function) == "mpi4py":
            function = partial(_by_mpi4py, function)
        return partial(_by_function, function, self.name, dtype)


def op_name_of_code(code: int) -> str:
    """The name of an op of the user by its number, if this process has such an op."""
    return _names.get(code, "another op of the user")


def _address(function: Any) -> int:
    """The address of a compiled function; 0 for another one."""
    if package_of(function) == "numba" and hasattr(function, "address"):
        return int(function.address)
    if isinstance(function, _POINTER):
        return ctypes.cast(function, ctypes.c_void_p).value or 0
    if package_of(function) == "_cffi_backend":
        import cffi

        return int(cffi.FFI().cast("intptr_t", function))
    return 0


def _check_function(function: Any, is_compiled: bool) -> None:
    """Check that a function can be an op."""
    if isinstance(function, np.ufunc):
        if function.nargs != 3 or function.nout != 1 or function.signature is not None:
            raise TypeError(
                f"Op: {function.__name__} does not combine two arrays element by "
                "element; pass a ufunc of two arguments, or a function of two arrays"
            )
    elif not is_compiled and not callable(function):
        raise wrong_type("Op", "function", function, "a function of two arrays")
    elif instead := _of_one_array(function):
        raise TypeError(
            f"Op: {function.__name__} reduces the elements of one array; pass "
            f"op={instead}, which combines two arrays"
        )


def _of_one_array(function: Any) -> str | None:
    """The op to pass instead of a function that is known to reduce one array."""
    if isinstance(of := getattr(function, "__self__", None), np.ufunc):
        return f"numpy.{of.__name__}"
    module, name = (getattr(function, each, "") for each in ("__module__", "__name__"))
    if module in ("builtins", "numpy", "math") and name in OF_ONE_ARRAY:
        return repr(OF_ONE_ARRAY[name])
    return None


def _check_ufunc(function: np.ufunc, dtype: np.dtype[Any]) -> None:
    """Check that a ufunc of two arrays of a dtype gives one of that dtype."""
    try:
        found = function.resolve_dtypes((dtype, dtype, None))[2]
    except TypeError:
        found = None
    if found != dtype:
        gives = "" if found is None else f", since it gives {found}"
        raise TypeError(f"op {function.__name__!r} is not defined for {dtype}{gives}")


def _commutes(function: Any) -> bool:
    """Whether a function is known to commute."""
    if isinstance(function, np.ufunc):
        return function.__name__ in COMMUTATIVE
    return package_of(function) == "mpi4py" and bool(function.Is_commutative())


def _name(function: Any) -> str:
    """The name of a function, the same in the memory of all ranks."""
    if package_of(function) == "mpi4py":
        return "op of mpi4py"
    found = getattr(function, "__qualname__", None) or getattr(
        function, "__name__", None
    )
    return found if isinstance(found, str) else type(function).__qualname__


def _by_ufunc(function: np.ufunc, arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    found: NDArray[Any] = arrays[0].copy()
    for array in arrays[1:]:
        function(found, array, out=found)
    return found


def _by_function(
    function: Function, name: str, dtype: np.dtype[Any], arrays: Sequence[NDArray[Any]]
) -> NDArray[Any]:
    """Combine copies of arrays, which the function may keep."""
    found: NDArray[Any] = arrays[0].copy()
    for array in arrays[1:]:
        found = _checked(function(found, array.copy()), name, array.shape, dtype)
    return found


def _checked(
    found: Any, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> NDArray[Any]:
    """The result of a function as a contiguous array of the dtype."""
    array = np.asarray(found)
    if array.shape != shape or not np.can_cast(array.dtype, dtype, "same_kind"):
        raise TypeError(
            f"op {name!r} returned {array.dtype} of shape {array.shape} for arrays of "
            f"{dtype} of shape {shape}; it must return an array like its arguments"
        )
    return np.ascontiguousarray(array, dtype)


def _by_address(
    function: Callable[..., None], arrays: Sequence[NDArray[Any]]
) -> NDArray[Any]:
    found: NDArray[Any] = arrays[0].copy()
    for array in arrays[1:]:
        function(found.ctypes.data, np.ascontiguousarray(array).ctypes.data, found.size)
    return found


def _by_mpi4py(op: Any, left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    """Combine two arrays by an op of mpi4py, which writes its result to the second."""
    op.Reduce_local(left, right)
    return right
