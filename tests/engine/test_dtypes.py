"""The numbers and names of dtypes."""

import numpy as np
import pytest

from collalgo.engine import dtypes
from collalgo.engine.dtypes import (
    DTYPES,
    MOVED,
    dtype_code,
    dtype_description,
    dtype_text,
    kind_of,
    pair_dtype,
    value_text,
)
from tests.support.oracle import dtype_of

PLAIN = ["g", "G", "S1", "S7", "U1", "U300", "V5", "M8", "M8[s]", "M8[25us]", "m8[D]"]
SWAPPED = [">i4", ">f8", ">c16", ">U3", ">M8[s]", ">m8[5ns]", ">g", ">M8"]
STRUCTURES = [
    np.dtype("f4,i4"),
    np.dtype("i4,f4"),
    np.dtype(">f4,i4"),
    np.dtype([("a", "f4"), ("b", "i4")]),
    np.dtype([("a", "f4", 3)]),
    np.dtype([("a", "f4", (3, 1))]),
    np.dtype([("a", [("b", "f4"), ("c", "S2")])]),
    np.dtype("u1,f8", align=True),
    np.dtype("u1,f8"),
    np.dtype({"names": ["a"], "formats": ["f4"], "offsets": [4], "itemsize": 12}),
    np.dtype({"names": ["a"], "formats": ["f4"], "offsets": [8], "itemsize": 12}),
]


def every_dtype():
    plain = [dtype_of(name) for name in (*DTYPES, *MOVED)]
    return [*plain, *map(np.dtype, PLAIN + SWAPPED), *STRUCTURES]


def test_different_dtypes_have_different_numbers_of_32_bits_and_names():
    found = every_dtype()
    codes = [dtype_code(dtype) for dtype in found]
    assert len(set(codes)) == len(set(map(dtype_text, codes))) == len(found)
    assert len(set(map(dtype_description, found))) == len(found)
    assert all(0 <= code < 2**32 for code in codes)


@pytest.mark.parametrize(
    "dtype", [d for d in every_dtype() if d.fields is None], ids=str
)
def test_a_name_is_that_of_numpy(dtype):
    assert dtype_of(dtype_text(dtype_code(dtype))) == dtype


def test_equal_structures_are_the_same_whatever_their_titles():
    titled = np.dtype([(("title", "a"), "f4"), ("b", "i4")])
    assert dtype_code(titled) == dtype_code(np.dtype([("a", "f4"), ("b", "i4")]))


def test_a_structure_of_another_process_has_no_description():
    known = dtype_code(np.dtype([("only here", "f4")]))
    assert "only here" in dtype_text(known)
    assert dtype_text(known ^ 1 << 31) == "another structure"


@pytest.mark.parametrize("name", ["longlong", "ulonglong", "intc", "byte"])
def test_every_name_of_a_c_integer_will_do(name):
    assert kind_of(np.dtype(name)) in DTYPES


@pytest.mark.parametrize(
    ("dtype", "reason"),
    [
        ("O", "objects of Python"),
        ([("a", "O")], "objects of Python"),
        (np.dtypes.StringDType(), "objects of Python"),
        ("S0", "elements of 0 bytes"),
        ([], "elements of 0 bytes"),
        ("S33554432", "too long"),
        ("M8[9999999s]", "unit too large"),
    ],
)
def test_elements_that_cannot_be_moved_are_refused_with_the_reason(dtype, reason):
    with pytest.raises(TypeError, match=f"is not supported, since it.*{reason}"):
        dtype_code(np.dtype(dtype))


@pytest.mark.parametrize("value", ["f4", ">f8", "?", "u1", "g", "M8[us]", "F"])
def test_pairs_of_values_and_indices_have_names_on_all_ranks(value, monkeypatch):
    pair = pair_dtype(np.dtype(value), np.dtype("i4"))
    code, text = dtype_code(pair), dtype_description(pair)
    monkeypatch.setattr(dtypes, "_structures", {})  # as in another process
    assert dtype_text(code) == text
    assert value_text(code) == dtype_text(dtype_code(np.dtype(value)))


def test_values_of_unusual_pairs_are_of_another_dtype(monkeypatch):
    code = dtype_code(pair_dtype(np.dtype("U7"), np.dtype("i4")))
    assert value_text(code) == "U7"
    monkeypatch.setattr(dtypes, "_structures", {})
    assert value_text(code) == "another dtype"
    assert value_text(dtype_code(np.dtype("f8"))) == "float64"
