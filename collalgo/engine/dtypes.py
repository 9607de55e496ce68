"""The dtypes of arrays: their names, and the numbers by which ranks compare them."""

import re
import sys
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np

from collalgo._kernels.engine.reduction.reduce import FAMILIES
from collalgo.base.cache import recalled
from collalgo.base.digest import blake2b

#: The kinds of float8 that ``ml_dtypes`` defines and that have a zero.
FLOAT8 = (
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
)

#: The dtypes that are reduced on the host only, and their type codes in NumPy.
HOST_ONLY = {
    "longdouble": "g",
    "clongdouble": "G",
    "datetime64": "M",
    "timedelta64": "m",
}

#: The names of the dtypes with operations on hosts and devices.
DTYPES = (
    *(name for name in FAMILIES if name != "float8" and name not in HOST_ONLY),
    *FLOAT8,
)

#: The numbers of ``ml_dtypes`` that are moved but not reduced.
MOVED = (
    *(f"{sign}int{bits}" for bits in (1, 2, 4) for sign in ("", "u")),
    "float4_e2m1fn",
    "float6_e2m3fn",
    "float6_e3m2fn",
    "float8_e8m0fnu",
)

#: The dtypes whose elements have any size, and their type codes in NumPy.
SIZED = {"bytes": "S", "str": "U", "void": "V"}

#: All kinds of dtypes; their order defines the numbers.
_KINDS = (*DTYPES, *HOST_ONLY, *MOVED, *SIZED, "structure")

#: The units of times, of which a dtype has a multiple; the first is that of no unit.
_UNITS = ("generic", *"YMWDhms", "ms", "us", "ns", "ps", "fs", "as")

#: The bits of a number, from the lowest: the kind, whether the bytes are in the other
#: order, and the detail, of which times have some for the unit.
_KIND_BITS, _DETAIL_BITS, _UNIT_BITS = 6, 25, 4
_SWAPPED = 1 << _KIND_BITS
_DETAIL_PLACE = _KIND_BITS + 1

_codes: dict[Any, int] = {}
_structures: dict[int, str] = {}


def dtype_code(dtype: np.dtype[Any]) -> int:
    """The number of a dtype, 32 bits of all that ranks compare of it.

    Of a structure it holds a digest of its description.

    Raises
    ------
    TypeError
        If such elements cannot be sent to other processes, as objects.
    """
    return recalled(_codes, dtype, _code_of)


def dtype_text(code: int) -> str:
    """The name of a dtype in NumPy by its number.

    A structure is described if this process has such a dtype, too.
    """
    kind = _KINDS[code & (_SWAPPED - 1)]
    detail = code >> _DETAIL_PLACE
    if kind == "structure":
        return _structures.get(code) or _pairs().get(code, "another structure")
    name = kind
    if kind in SIZED:
        name = f"{SIZED[kind]}{detail}"
    elif kind in ("datetime64", "timedelta64"):
        unit, multiple = detail & ((1 << _UNIT_BITS) - 1), detail >> _UNIT_BITS
        name += f"[{multiple if multiple > 1 else ''}{_UNITS[unit]}]" if unit else ""
    return _other_order(HOST_ONLY.get(kind, name), name, code)


def _other_order(char: str, name: str, code: int) -> str:
    """The name of a dtype, marked if its bytes are in the other order."""
    if not code & _SWAPPED:
        return name
    mark = ">" if sys.byteorder == "little" else "<"
    if name.startswith(("datetime64", "timedelta64")):
        return f"{mark}{char}8{name[name.find('[') :] if '[' in name else ''}"
    return mark + np.dtype(char).str[1:] if char == name else f"{mark}{char}"


def pair_dtype(value: np.dtype[Any], index: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of values that travel with their ranks or indices."""
    return np.dtype([("value", value), ("index", index)], align=True)


def value_text(code: int) -> str:
    """The name of the dtype of the values, by the number of that of their pairs."""
    text = dtype_text(code)
    found = re.match(r"structure of \d+ bytes \('value': (.*) at 0, 'index': ", text)
    return found[1] if found else text.replace("structure", "dtype")


@cache
def _pairs() -> dict[int, str]:
    """The usual pairs of values and indices by their numbers, also of other ranks."""
    times = [f"{kind}8[{unit}]" for kind in "mM" for unit in _UNITS[1:]]
    values = _known([*DTYPES, *HOST_ONLY, *MOVED, *times])
    texts = [
        dtype_description(pair_dtype(each, np.dtype(index)))
        for value in values
        for each in (value, value.newbyteorder())
        for index in "bhilBHIL"
    ]
    return {_code_of_structure(text): text for text in texts}


def _known(names: list[str]) -> set[np.dtype[Any]]:
    """The dtypes of names, but those of ``ml_dtypes`` only if that is imported."""
    found = set()
    for name in names:
        with suppress(TypeError):
            found.add(np.dtype(name))
    return found


def dtype_description(dtype: np.dtype[Any]) -> str:
    """A dtype in words that no other dtype has."""
    if dtype.subdtype is not None:
        element, shape = dtype.subdtype
        return f"{shape} of {dtype_description(element)}"
    if dtype.fields is None:
        return dtype_text(dtype_code(dtype))
    fields = ", ".join(
        f"{name!r}: {dtype_description(dtype.fields[name][0])} "
        f"at {dtype.fields[name][1]}"
        for name in dtype.names or ()
    )
    return f"structure of {dtype.itemsize} bytes ({fields})"


def kind_of(dtype: np.dtype[Any]) -> str:
    """The kind of a dtype, whatever the order of its bytes.

    Raises
    ------
    TypeError
        If it has no kind, as objects.
    """
    if dtype.hasobject or not dtype.itemsize:
        reason = "objects of Python" if dtype.hasobject else "elements of 0 bytes"
        raise TypeError(
            f"dtype {dtype} is not supported, since it has {reason}; use a dtype of "
            "elements of a fixed size, or the call for objects, as broadcast_object"
        )
    if dtype.fields is not None:
        return "structure"
    own = "S" if dtype.char == "c" else dtype.char  # a byte, as of C
    for kind, char in (*HOST_ONLY.items(), *SIZED.items()):
        if own == char and dtype.type.__module__ == "numpy":
            return kind
    name = str(dtype.name)
    if dtype.kind in "iu" and name not in _KINDS:  # a C integer type of another name
        name = f"{'u' if dtype.kind == 'u' else ''}int{8 * dtype.itemsize}"
    if name in _KINDS:
        return name
    raise TypeError(
        f"dtype {dtype} is not supported; use a dtype of NumPy or of ml_dtypes"
    )


def _code_of(dtype: np.dtype[Any]) -> int:
    kind = kind_of(dtype)
    code = _KINDS.index(kind) | (0 if dtype.isnative else _SWAPPED)
    if kind == "structure":
        text = dtype_description(dtype)
        code = _code_of_structure(text)
        recalled(_structures, code, lambda _: text)
        return code
    detail = _detail_of(dtype, kind)
    if detail >> _DETAIL_BITS:
        raise TypeError(
            f"dtype {dtype} is not supported, since its elements are too long or its "
            f"unit too large; pass a view of smaller elements, as x.view('uint8')"
        )
    return code | detail << _DETAIL_PLACE


def _code_of_structure(text: str) -> int:
    """The number of a structure by its description."""
    digest = blake2b(text.encode(), digest_size=8).digest()
    detail = int.from_bytes(digest, "little") % (1 << _DETAIL_BITS)
    return _KINDS.index("structure") | detail << _DETAIL_PLACE


def _detail_of(dtype: np.dtype[Any], kind: str) -> int:
    """The detail in the number of a dtype, without its kind."""
    if kind in SIZED:
        return dtype.itemsize // (4 if kind == "str" else 1)
    if kind in ("datetime64", "timedelta64"):
        unit, multiple = np.datetime_data(dtype)
        return _UNITS.index(unit) | multiple << _UNIT_BITS
    return 0
