# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: freethreading_compatible=True
"""Methods of a communicator made of functions that take one.

``function(buf, comm, ...)`` becomes ``comm.method(buf, ...)``. The interpreter passes the
arguments of a method as an array, so that the method only has to copy it with the first
two swapped: that takes a few nanoseconds, a wrapper in Python a tenth of a microsecond.
"""

from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.string cimport memcpy

from functools import update_wrapper

cdef extern from "Python.h":
    ctypedef PyObject *(*vectorcallfunc)(
        PyObject *method, PyObject *const *args, size_t flags, PyObject *names
    ) except NULL
    size_t PY_VECTORCALL_ARGUMENTS_OFFSET
    Py_ssize_t PyVectorcall_NARGS(size_t flags)
    Py_ssize_t PyTuple_GET_SIZE(PyObject *names)
    PyObject *PyObject_Vectorcall(
        PyObject *function, PyObject *const *args, size_t flags, PyObject *names
    ) except NULL
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

cdef enum:
    ROOM = 16  # arguments of the longest call


def place_of_comm(function):
    """The position of the communicator among the arguments of a function."""
    declared = getattr(function, "__wrapped__", function)
    return declared.__code__.co_varnames.index("comm")


cdef class Method:
    """A function of a communicator as a method; see :func:`method`."""
    cdef vectorcallfunc call
    cdef object function, signature
    cdef Py_ssize_t place  # of the communicator
    cdef dict __dict__  # with the name and the docstring of the function

    def __init__(self, function):
        self.call = call_with_swapped
        self.function = function
        self.place = place_of_comm(function)
        update_wrapper(self, function)

    def __get__(self, instance, owner):
        return self if instance is None else PyMethod_New(self, instance)

    def __call__(self, *args, **named):
        return self.call_slowly(args, named)

    def __repr__(self):
        return f"<method {self.function.__name__}>"

    @property
    def __signature__(self):
        """That of the function, with ``self`` instead of the communicator."""
        import inspect

        if self.signature is None:
            declared = inspect.signature(self.function)
            kept = [p for name, p in declared.parameters.items() if name != "comm"]
            myself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
            self.signature = declared.replace(parameters=[myself, *kept])
        return self.signature

    cdef object call_slowly(self, tuple args, dict named):
        """Make a call with any arguments; the function raises what is wrong."""
        if not args:
            raise TypeError(f"{self.function.__name__}() needs a communicator")
        before, after = args[1:self.place + 1], args[self.place + 1:]
        if len(before) < self.place:
            return self.function(comm=args[0], **named)
        return self.function(*before, args[0], *after, **named)


cdef PyObject *call_with_swapped(
    PyObject *method, PyObject *const *args, size_t flags, PyObject *names
) except NULL:
    """Call the function of a method with the communicator at its place."""
    cdef PyObject *swapped[ROOM + 1]
    cdef PyObject *function = <PyObject *>(<Method>method).function
    cdef Py_ssize_t given = PyVectorcall_NARGS(flags), all_given = given
    if names != NULL:
        all_given += PyTuple_GET_SIZE(names)
    if (<Method>method).place == 0 and given:
        return PyObject_Vectorcall(function, args, flags, names)
    if given < 2 or all_given > ROOM:
        return call_by_objects(<Method>method, args, given, names)
    memcpy(&swapped[1], args, all_given * sizeof(args[0]))
    swapped[1], swapped[2] = args[1], args[0]
    flags = <size_t>given | PY_VECTORCALL_ARGUMENTS_OFFSET
    return PyObject_Vectorcall(function, &swapped[1], flags, names)


cdef PyObject *call_by_objects(
    Method method, PyObject *const *args, Py_ssize_t given, PyObject *names
) except NULL:
    """Make a call that lacks an argument or has too many."""
    cdef Py_ssize_t i
    positional = tuple([<object>args[i] for i in range(given)])
    named = {}
    if names != NULL:
        for i in range(PyTuple_GET_SIZE(names)):
            named[(<tuple>names)[i]] = <object>args[given + i]
    found = method.call_slowly(positional, named)
    Py_INCREF(found)
    return <PyObject *>found


cdef int prepare_type() except -1:
    """Let the interpreter call methods by vector."""
    cdef Method some = Method.__new__(Method)
    call_as_method(Method, <char *>&some.call - <char *><PyObject *>some)
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
