"""The numbers of MPI, by their names."""

from collections.abc import Iterator

UNDEFINED = -32766
ANY_SOURCE, PROC_NULL, ROOT = -1, -2, -3
ANY_TAG = -31
KEYVAL_INVALID = 0

#: The largest tag.
MAX_TAG = 2**31 - 1

#: The classes of errors, in the order of their numbers, with what they mean.
ERROR_CLASSES = {
    "SUCCESS": "no error",
    "ERR_BUFFER": "invalid buffer",
    "ERR_COUNT": "invalid count",
    "ERR_TYPE": "invalid datatype",
    "ERR_TAG": "invalid tag",
    "ERR_COMM": "invalid communicator",
    "ERR_RANK": "invalid rank",
    "ERR_REQUEST": "invalid request",
    "ERR_ROOT": "invalid root",
    "ERR_GROUP": "invalid group",
    "ERR_OP": "invalid reduction operation",
    "ERR_TOPOLOGY": "invalid topology",
    "ERR_DIMS": "invalid dimensions",
    "ERR_ARG": "invalid argument",
    "ERR_UNKNOWN": "unknown error",
    "ERR_TRUNCATE": "message truncated",
    "ERR_OTHER": "other error",
    "ERR_INTERN": "internal error",
    "ERR_PENDING": "request not complete",
    "ERR_IN_STATUS": "the error is in the status",
    "ERR_ACCESS": "permission denied",
    "ERR_AMODE": "invalid mode of access",
    "ERR_ASSERT": "invalid assertion",
    "ERR_BAD_FILE": "invalid name of a file",
    "ERR_BASE": "invalid base address",
    "ERR_CONVERSION": "error of a conversion function",
    "ERR_DISP": "invalid displacement",
    "ERR_DUP_DATAREP": "data representation is defined already",
    "ERR_FILE_EXISTS": "file exists",
    "ERR_FILE_IN_USE": "file in use",
    "ERR_FILE": "invalid file",
    "ERR_INFO_KEY": "invalid key of an info",
    "ERR_INFO_NOKEY": "key of an info not found",
    "ERR_INFO_VALUE": "invalid value of an info",
    "ERR_INFO": "invalid info",
    "ERR_IO": "input or output failed",
    "ERR_KEYVAL": "invalid key of an attribute",
    "ERR_LOCKTYPE": "invalid type of a lock",
    "ERR_NAME": "service name not found",
    "ERR_NO_MEM": "out of memory",
    "ERR_NOT_SAME": "arguments of the ranks differ",
    "ERR_NO_SPACE": "no space left",
    "ERR_NO_SUCH_FILE": "file not found",
    "ERR_PORT": "invalid port",
    "ERR_PROC_ABORTED": "a rank has aborted",
    "ERR_QUOTA": "quota exceeded",
    "ERR_READ_ONLY": "file is read-only",
    "ERR_RMA_ATTACH": "memory cannot be attached",
    "ERR_RMA_CONFLICT": "conflicting accesses to a window",
    "ERR_RMA_RANGE": "outside of the window",
    "ERR_RMA_SHARED": "memory cannot be shared",
    "ERR_RMA_SYNC": "wrong synchronisation of a window",
    "ERR_RMA_FLAVOR": "wrong flavor of a window",
    "ERR_SERVICE": "service name not published",
    "ERR_SIZE": "invalid size",
    "ERR_SPAWN": "processes cannot be spawned",
    "ERR_UNSUPPORTED_DATAREP": "data representation not supported",
    "ERR_UNSUPPORTED_OPERATION": "operation not supported",
    "ERR_WIN": "invalid window",
    "ERR_SESSION": "invalid session",
    "ERR_VALUE_TOO_LARGE": "value too large",
    "ERR_ERRHANDLER": "invalid error handler",
    "ERR_ABI": "wrong ABI",
    "ERR_REVOKED": "communicator was revoked",
    "ERR_PROC_FAILED": "a rank has failed",
    "ERR_PROC_FAILED_PENDING": "a rank has failed, and the request is pending",
}

#: The number of each class of errors.
ERRORS = {name: number for number, name in enumerate(ERROR_CLASSES)}
ERR_LASTCODE = 0x3FFFFFFF

#: Names that are numbered from a first number on.
NUMBERED = {
    1: (
        ("TAG_UB", "IO", "WTIME_IS_GLOBAL", "UNIVERSE_SIZE", "APPNUM", "LASTUSEDCODE"),
        ("WIN_BASE", "WIN_SIZE", "WIN_DISP_UNIT", "WIN_CREATE_FLAVOR", "WIN_MODEL"),
        ("COMBINER_NAMED", "COMBINER_DUP", "COMBINER_CONTIGUOUS", "COMBINER_VECTOR",
         "COMBINER_HVECTOR", "COMBINER_INDEXED", "COMBINER_HINDEXED",
         "COMBINER_INDEXED_BLOCK", "COMBINER_HINDEXED_BLOCK", "COMBINER_STRUCT",
         "COMBINER_SUBARRAY", "COMBINER_DARRAY", "COMBINER_RESIZED",
         "COMBINER_VALUE_INDEX", "COMBINER_F90_INTEGER", "COMBINER_F90_REAL",
         "COMBINER_F90_COMPLEX"),
        ("CART", "GRAPH", "DIST_GRAPH"),
        ("COMM_TYPE_SHARED", "COMM_TYPE_HW_GUIDED", "COMM_TYPE_HW_UNGUIDED",
         "COMM_TYPE_RESOURCE_GUIDED"),
        ("TYPECLASS_REAL", "TYPECLASS_INTEGER", "TYPECLASS_COMPLEX",
         "TYPECLASS_LOGICAL"),
        ("DISTRIBUTE_BLOCK", "DISTRIBUTE_CYCLIC", "DISTRIBUTE_NONE"),
        ("WIN_FLAVOR_CREATE", "WIN_FLAVOR_ALLOCATE", "WIN_FLAVOR_DYNAMIC",
         "WIN_FLAVOR_SHARED"),
        ("WIN_SEPARATE", "WIN_UNIFIED"),
        ("LOCK_EXCLUSIVE", "LOCK_SHARED"),
    ),
    0: (
        ("IDENT", "CONGRUENT", "SIMILAR", "UNEQUAL"),
        ("THREAD_SINGLE", "THREAD_FUNNELED", "THREAD_SERIALIZED", "THREAD_MULTIPLE"),
        ("ORDER_C", "ORDER_FORTRAN"),
        ("SEEK_SET", "SEEK_CUR", "SEEK_END"),
        ("F_SOURCE", "F_TAG", "F_ERROR"),
    ),
}  # fmt: skip

#: Flags, from the lowest bit on.
FLAGS = (
    ("MODE_NOCHECK", "MODE_NOSTORE", "MODE_NOPUT", "MODE_NOPRECEDE", "MODE_NOSUCCEED"),
    ("MODE_RDONLY", "MODE_WRONLY", "MODE_RDWR", "MODE_CREATE", "MODE_EXCL",
     "MODE_DELETE_ON_CLOSE", "MODE_UNIQUE_OPEN", "MODE_SEQUENTIAL", "MODE_APPEND"),
)  # fmt: skip

#: Other numbers.
OTHERS = {
    "UNDEFINED": UNDEFINED,
    "ANY_SOURCE": ANY_SOURCE,
    "ANY_TAG": ANY_TAG,
    "PROC_NULL": PROC_NULL,
    "ROOT": ROOT,
    "KEYVAL_INVALID": KEYVAL_INVALID,
    "ERR_LASTCODE": ERR_LASTCODE,
    "ORDER_F": 1,
    "DISTRIBUTE_DFLT_DARG": -49767,
    "BSEND_OVERHEAD": 96,
    "F_STATUS_SIZE": 8,
    "UNWEIGHTED": 10,
    "WEIGHTS_EMPTY": 11,
    "WIN_FLAVOR": 4,
    "DISPLACEMENT_CURRENT": -54278278,
    "DISP_CUR": -54278278,
    "VERSION": 4,
    "SUBVERSION": 0,
    "MAX_PROCESSOR_NAME": 255,
    "MAX_ERROR_STRING": 1023,
    "MAX_PORT_NAME": 255,
    "MAX_INFO_KEY": 254,
    "MAX_INFO_VAL": 1023,
    "MAX_OBJECT_NAME": 127,
    "MAX_DATAREP_STRING": 127,
    "MAX_LIBRARY_VERSION_STRING": 1023,
    "MAX_PSET_NAME_LEN": 255,
    "MAX_STRINGTAG_LEN": 255,
}


def _all() -> Iterator[tuple[str, int]]:
    yield from ERRORS.items()
    for first, lists in NUMBERED.items():
        for names in lists:
            yield from ((name, number) for number, name in enumerate(names, first))
    for flags in FLAGS:
        yield from ((name, 1 << bit) for bit, name in enumerate(flags))
    yield from OTHERS.items()


#: All numbers by their names.
NUMBERS = dict(_all())
