# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Methods of a communicator, made of functions that take a communicator.

``function(buf, comm, ...)`` becomes ``comm.method(buf, ...)``. The interpreter passes the
arguments of a method as an array, so that the method only has to copy it with the first
two swapped: that takes a few nanoseconds, a wrapper in Python a tenth of a microsecond.
Arguments that do not fit are explained by the signature of the method, as the count of
the compiled function includes the communicator.
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
    bint PyErr_ExceptionMatches(object kind) noexcept
    void PyErr_Fetch(PyObject **kind, PyObject **value, PyObject **traceback) noexcept
    void PyErr_Restore(PyObject *kind, PyObject *value, PyObject *traceback) noexcept
    void Py_XDECREF(PyObject *thing) noexcept
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
    """The position of the communicator among the arguments of a function.

    It is the first of a method.
    """
    declared = getattr(function, "__wrapped__", function)
    names = declared.__code__.co_varnames
    return names.index("comm") if "comm" in names else 0


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
            named = declared.parameters.items()
            kept = [each for name, each in named if name not in ("comm", "self")]
            myself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
            self.signature = declared.replace(parameters=[myself, *kept])
        return self.signature

    cdef object call_slowly(self, tuple args, dict named):
        """Make a call with any arguments; the function raises the errors."""
        if not args:
            raise TypeError(f"{self.function.__name__}() needs a communicator")
        before, after = args[1:self.place + 1], args[self.place + 1:]
        try:
            if len(before) < self.place:
                return self.function(comm=args[0], **named)
            return self.function(*before, args[0], *after, **named)
        except TypeError:
            if (misfit := self.misfit(args, named)) is None:
                raise
        raise misfit

    cdef object misfit(self, tuple args, dict named):
        """The error of arguments that do not fit; None if they do."""
        declared = self.__signature__
        try:
            declared.bind(*args, **named)
        except TypeError as reason:
            shown = str(declared.replace(return_annotation=declared.empty))
            shown = shown.replace("self, /, ", "").replace("self, ", "")
            name = self.__name__
            return TypeError(f"{name}: {reason}; call it as {name}{shown}")
        return None


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
    return explained(
        vector.inner(vector.function, &swapped[1], flags, names), method, args, given,
        names,
    )


cdef PyObject *call_unchanged(
    PyObject *method, PyObject *const *args, size_t flags, PyObject *names
) noexcept:
    """Call the function of a method with the communicator as first argument."""
    cdef vector_call *vector = <vector_call *>(<char *>method + OFFSET)
    cdef Py_ssize_t given = PyVectorcall_NARGS(flags)
    if not given:
        return (<fallback>call_by_objects)(method, args, given, names)
    return explained(
        vector.inner(vector.function, args, flags, names), method, args, given, names
    )


cdef inline PyObject *explained(
    PyObject *found, PyObject *method, PyObject *const *args, Py_ssize_t given,
    PyObject *names
) noexcept:
    """The result of a call; an error of arguments that do not fit is explained."""
    if found == NULL and PyErr_ExceptionMatches(TypeError):
        return (<fallback>explain)(method, args, given, names)
    return found


cdef PyObject *explain(
    PyObject *method, PyObject *const *args, Py_ssize_t given, PyObject *names
) except NULL:
    """Raise the present error, or that of arguments that do not fit."""
    cdef PyObject *kind = NULL
    cdef PyObject *value = NULL
    cdef PyObject *traceback = NULL
    PyErr_Fetch(&kind, &value, &traceback)
    positional, named = arguments(args, given, names)
    misfit = (<Method>method).misfit(positional, named)
    if misfit is None:
        PyErr_Restore(kind, value, traceback)
        return NULL
    Py_XDECREF(kind)
    Py_XDECREF(value)
    Py_XDECREF(traceback)
    raise misfit


cdef tuple arguments(PyObject *const *args, Py_ssize_t given, PyObject *names):
    """The positional and the named arguments of a call by vector."""
    cdef Py_ssize_t i
    named = {}
    if names != NULL:
        for i in range(PyTuple_GET_SIZE(names)):
            named[(<tuple>names)[i]] = <object>args[given + i]
    return tuple([<object>args[i] for i in range(given)]), named


cdef PyObject *call_by_objects(
    PyObject *method, PyObject *const *args, Py_ssize_t given, PyObject *names
) except NULL:
    """Make a call that lacks an argument or has too many."""
    positional, named = arguments(args, given, names)
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
        Takes the communicator, named ``comm``, as its first argument or its second; or
        is a method already, of which only the errors change.
    """
    return Method(function)
