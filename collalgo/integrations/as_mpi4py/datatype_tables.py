"""The datatypes that every program has, by their names and codes."""

import numpy as np


def _bfloat16() -> dict[str, object]:
    """The datatype of bfloat16, where ``ml_dtypes`` is installed."""
    try:
        import ml_dtypes
    except ImportError:
        return {}
    return {"BFLOAT16_T": ml_dtypes.bfloat16}


#: The elements of each datatype, as NumPy has them.
NAMED: dict[str, object] = {
    "PACKED": "B",
    "BYTE": "B",
    "AINT": np.intp,
    "OFFSET": np.int64,
    "COUNT": np.int64,
    "CHAR": "c",
    "WCHAR": "U1",
    "SIGNED_CHAR": "b",
    "SHORT": "h",
    "INT": "i",
    "LONG": "l",
    "LONG_LONG": "q",
    "UNSIGNED_CHAR": "B",
    "UNSIGNED_SHORT": "H",
    "UNSIGNED": "I",
    "UNSIGNED_LONG": "L",
    "UNSIGNED_LONG_LONG": "Q",
    "FLOAT": "f",
    "DOUBLE": "d",
    "LONG_DOUBLE": "g",
    "C_BOOL": "?",
    **{f"INT{bits}_T": f"i{bits // 8}" for bits in (8, 16, 32, 64)},
    **{f"UINT{bits}_T": f"u{bits // 8}" for bits in (8, 16, 32, 64)},
    "FLOAT16_T": "f2",
    "FLOAT32_T": "f4",
    "FLOAT64_T": "f8",
    **_bfloat16(),
    "C_COMPLEX": "F",
    "C_FLOAT_COMPLEX": "F",
    "C_DOUBLE_COMPLEX": "D",
    "C_LONG_DOUBLE_COMPLEX": "G",
    "CXX_BOOL": "?",
    "CXX_FLOAT_COMPLEX": "F",
    "CXX_DOUBLE_COMPLEX": "D",
    "CXX_LONG_DOUBLE_COMPLEX": "G",
    "CHARACTER": "c",
    "LOGICAL": "i",
    "INTEGER": "i",
    "REAL": "f",
    "DOUBLE_PRECISION": "d",
    "COMPLEX": "F",
    "DOUBLE_COMPLEX": "D",
    **{f"LOGICAL{nbytes}": f"i{nbytes}" for nbytes in (1, 2, 4, 8)},
    **{f"INTEGER{nbytes}": f"i{nbytes}" for nbytes in (1, 2, 4, 8)},
    **{f"REAL{nbytes}": f"f{nbytes}" for nbytes in (2, 4, 8)},
    "COMPLEX8": "F",
    "COMPLEX16": "D",
}

#: The datatypes of pairs, by the names of their values; the index is an INT.
PAIRS = {
    "SHORT": "SHORT_INT",
    "INT": "INT_INT",
    "LONG": "LONG_INT",
    "FLOAT": "FLOAT_INT",
    "DOUBLE": "DOUBLE_INT",
    "LONG_DOUBLE": "LONG_DOUBLE_INT",
}

#: Other names of the same datatypes; those that are missing here are null.
ALIASES = {
    "TWOINT": "INT_INT",
    "UNSIGNED_INT": "UNSIGNED",
    "SIGNED_SHORT": "SHORT",
    "SIGNED_INT": "INT",
    "SIGNED_LONG": "LONG",
    "SIGNED_LONG_LONG": "LONG_LONG",
    "BOOL": "C_BOOL",
    **{f"SINT{bits}_T": f"INT{bits}_T" for bits in (8, 16, 32, 64)},
    "F_BOOL": "LOGICAL",
    "F_INT": "INTEGER",
    "F_FLOAT": "REAL",
    "F_DOUBLE": "DOUBLE_PRECISION",
    "F_COMPLEX": "COMPLEX",
    "F_FLOAT_COMPLEX": "COMPLEX",
    "F_DOUBLE_COMPLEX": "DOUBLE_COMPLEX",
    **{name: name for name in ("LOGICAL16", "INTEGER16", "REAL16", "COMPLEX4")},
    "COMPLEX32": "COMPLEX32",
    "BFLOAT16_T": "BFLOAT16_T",
}

#: The name of the datatype of each code of a character.
CODES = {
    "?": "C_BOOL",
    "c": "CHAR",
    "S": "CHAR",
    "S1": "CHAR",
    "s": "CHAR",
    "U": "WCHAR",
    "U1": "WCHAR",
    "u": "WCHAR",
    "w": "WCHAR",
    "b": "SIGNED_CHAR",
    "h": "SHORT",
    "i": "INT",
    "l": "LONG",
    "q": "LONG_LONG",
    "B": "UNSIGNED_CHAR",
    "H": "UNSIGNED_SHORT",
    "I": "UNSIGNED",
    "L": "UNSIGNED_LONG",
    "Q": "UNSIGNED_LONG_LONG",
    "n": "AINT",
    "p": "AINT",
    "P": "AINT",
    "N": "UNSIGNED_LONG",
    "e": "FLOAT16_T",
    "f": "FLOAT",
    "d": "DOUBLE",
    "g": "LONG_DOUBLE",
    "F": "C_FLOAT_COMPLEX",
    "D": "C_DOUBLE_COMPLEX",
    "G": "C_LONG_DOUBLE_COMPLEX",
    "Zf": "C_FLOAT_COMPLEX",
    "Zd": "C_DOUBLE_COMPLEX",
    "Zg": "C_LONG_DOUBLE_COMPLEX",
    "b1": "C_BOOL",
    **{f"i{n}": f"INT{8 * n}_T" for n in (1, 2, 4, 8)},
    **{f"u{n}": f"UINT{8 * n}_T" for n in (1, 2, 4, 8)},
    "f2": "FLOAT16_T",
    "f4": "FLOAT",
    "f8": "DOUBLE",
    "f16": "LONG_DOUBLE",
    "c8": "C_FLOAT_COMPLEX",
    "c16": "C_DOUBLE_COMPLEX",
    "c32": "C_LONG_DOUBLE_COMPLEX",
    "hi": "SHORT_INT",
    "ii": "INT_INT",
    "li": "LONG_INT",
    "fi": "FLOAT_INT",
    "di": "DOUBLE_INT",
    "gi": "LONG_DOUBLE_INT",
}

#: The parameters that are addresses, of each way to make a datatype.
ADDRESSES = {
    "HVECTOR": ("stride",),
    "HINDEXED": ("displacements",),
    "HINDEXED_BLOCK": ("displacements",),
    "STRUCT": ("displacements",),
    "RESIZED": ("lb", "extent"),
}

#: The datatypes of Fortran, the smallest first, with the most digits of each.
F90 = {
    "INTEGER": (((2,), "INTEGER1"), ((4,), "INTEGER2"), ((9,), "INTEGER4"),
                ((18,), "INTEGER8")),
    "REAL": (((6, 37), "REAL4"), ((15, 307), "REAL8")),
    "COMPLEX": (((6, 37), "COMPLEX8"), ((15, 307), "COMPLEX16")),
}  # fmt: skip
