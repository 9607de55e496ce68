# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Keep the memory of arrays in place while other threads may run."""

cimport numpy as cnp
from cpython.weakref cimport PyWeakref_NewRef

cnp.import_array()

cdef list kept = []


cdef object pin(cnp.ndarray array):
    """An object that keeps the memory of an array in place while it lives.

    NumPy can resize an array in spite of exported buffers (``refcheck=False``), but not
    an array with a weak reference. A tensor of torch can get other memory, by ``set_()``
    for example, so that its storage is kept; that can still be resized itself.
    """
    cdef object owner = array
    while isinstance(owner, cnp.ndarray) and owner.base is not None:
        owner = owner.base
    if isinstance(owner, cnp.ndarray):
        return PyWeakref_NewRef(owner, None)
    storage = getattr(owner, "untyped_storage", None)
    return owner if storage is None else storage()


cpdef tuple pinned(cnp.ndarray source, cnp.ndarray target):
    """Objects that keep the memory of the arrays of a call in place."""
    if source is target or source is None or target is None:
        return () if source is target is None else (
            pin(target if source is None else source),
        )
    return pin(source), pin(target)


cdef void keep(object memory) noexcept:
    """Keep memory until the end of the process."""
    kept.append(memory)


cdef void keep_arrays(
    void *source, void *target, void *scratch, object pins
) noexcept:
    """Keep the arrays of a call, each of which may be NULL, and their pins."""
    cdef void **arrays = [source, target, scratch]
    cdef int i
    for i in range(3):
        if arrays[i] != NULL:
            keep(<object>arrays[i])
    keep(pins)
