# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Methods of a communicator, made of functions that take a communicator.

``function(buf, comm, ...)`` becomes ``comm.method(buf, ...)``. The interpreter passes the
arguments of a method as an array, so that the method only has to copy it with the first
two swapped: that takes a few nanoseconds, a wrapper in Python a tenth of a microsecond.
"""

from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF

from functools import update_wrapper

cdef extern from "Python.h":
    ctypedef PyObject *(*vectorcallfunc)(
        PyObject *function, PyObject *const *args, size_t flags, PyObject *names
    ) noexcept
    size_t PY_VECTORCALL_ARGUMENTS_OFFSET
    Py_ssize_t PyVectorcall_NARGS(size_t flags) noexcept
    vectorcallfunc PyVectorcall_Function(PyObject *function) noexcept
    PyObject *PyObject_Vectorcall(
        PyObject *function, PyObject *const *args, size_t flags, PyObject *names
    ) noexcept
    Py_ssize_t PyTuple_GET_SIZE(PyObject *names) noexcept
    object PyMethod_New(object function, object instance)

cdef extern from *:
    """
    /* Calls of a type's instances go to the vectorcallfunc at an offset in them, and the
     * interpreter passes self to those that it finds in a class without a bound method. */
    static void call_as_method(PyTypeObject *type, Py_ssize_t offset)
    {
        type->tp_vectorcall_offset = offset;
        type->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR;
        PyType_Modified(type);
    }
    """
    void call_as_method(type cls, Py_ssize_t offset)

ctypedef PyObject *(*fallback)(
    PyObject *method, PyObject *const *args, Py_ssize_t given, PyObject *names
) noexcept

cdef enum:
    ROOM = 16  # arguments of the longest call

cdef struct vector_call:
    vectorcallfunc call  # of the method
    vectorcallfunc inner  # of the function
    PyObject *function

cdef Py_ssize_t OFFSET = 0  # of the vector_call in a method


def place_of_comm(function):
    """The position of the communicator among the arguments of a function."""
    declared = getattr(function, "__wrapped__", function)
    return declared.__code__.co_varnames.index("comm")


cdef class Method:
    """A function of a communicator as a method; see :func:`method`."""
    cdef vector_call vector
    cdef object function, signature
    cdef Py_ssize_t place  # of the communicator
    cdef dict __dict__  # with the name and the docstring of the function

    def __init__(self, function):
        self.function = function
        self.place = place_of_comm(function)
        self.vector.function = <PyObject *>function
        self.vector.inner = PyVectorcall_Function(self.vector.function)
        if self.vector.inner == NULL:  # it takes a tuple and a dict
            self.vector.inner = PyObject_Vectorcall
        self.vector.call = call_swapped if self.place else call_unchanged
        update_wrapper(self, function)

    def __get__(self, instance, owner):
        return self if instance is None else PyMethod_New(self, instance)

    def __call__(self, *args, **named):
        return self.call_slowly(args, named)

    def __repr__(self):
        return f"<method {self.function.__name__}>"

    @property
    def __signature__(self):
        """The signature of the function, with ``self`` instead of the communicator."""
        import inspect

        if self.signature is None:
            declared = inspect.signature(self.function)
            kept = [p for name, p in declared.parameters.items() if name != "comm"]
            myself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
            self.signature = declared.replace(parameters=[myself, *kept])
        return self.signature

    cdef object call_slowly(self, tuple args, dict named):
        """Make a call with any arguments; the function raises the errors."""
        if not args:
            raise TypeError(f"{self.function.__name__}() needs a communicator")
        before, after = args[1:self.place + 1], args[self.place + 1:]
        if len(before) < self.place:
            return self.function(comm=args[0], **named)
        return self.function(*before, args[0], *after, **named)


cdef PyObject *call_swapped(
    PyObject *method, PyObject *const *args, size_t flags, PyObject *names
) noexcept:
    """Call the function of a method with the communicator as second argument."""
    cdef vector_call *vector = <vector_call *>(<char *>method + OFFSET)
    cdef PyObject *swapped[ROOM + 1]
    cdef Py_ssize_t i, given = PyVectorcall_NARGS(flags), count = given
    if names != NULL:
        count += PyTuple_GET_SIZE(names)
    if given < 2 or count > ROOM:
        return (<fallback>call_by_objects)(method, args, given, names)
    swapped[1], swapped[2] = args[1], args[0]
    for i in range(2, count):
        swapped[i + 1] = args[i]
    flags = <size_t>given | PY_VECTORCALL_ARGUMENTS_OFFSET
    return vector.inner(vector.function, &swapped[1], flags, names)


cdef PyObject *call_unchanged(
    PyObject *method, PyObject *const *args, size_t flags, PyObject *names
) noexcept:
    """Call the function of a method with the communicator as first argument."""
    cdef vector_call *vector = <vector_call *>(<char *>method + OFFSET)
    cdef Py_ssize_t given = PyVectorcall_NARGS(flags)
    if not given:
        return (<fallback>call_by_objects)(method, args, given, names)
    return vector.inner(vector.function, args, flags, names)


cdef PyObject *call_by_objects(
    PyObject *method, PyObject *const *args, Py_ssize_t given, PyObject *names
) except NULL:
    """Make a call that lacks an argument or has too many."""
    cdef Py_ssize_t i
    positional = tuple([<object>args[i] for i in range(given)])
    named = {}
    if names != NULL:
        for i in range(PyTuple_GET_SIZE(names)):
            named[(<tuple>names)[i]] = <object>args[given + i]
    found = (<Method>method).call_slowly(positional, named)
    Py_INCREF(found)
    return <PyObject *>found


cdef int prepare_type() except -1:
    """Make the interpreter call methods by the vectorcall protocol."""
    global OFFSET
    cdef Method some = Method.__new__(Method)
    OFFSET = <char *>&some.vector - <char *><PyObject *>some
    call_as_method(Method, OFFSET)
    return 0


prepare_type()


def method(function):
    """A function of a communicator as a method, with the same declaration.

    Parameters
    ----------
    function
        Takes the communicator, named ``comm``, as its first argument or its second.
    """
    return Method(function)
