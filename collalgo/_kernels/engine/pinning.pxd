cimport numpy as cnp


cdef void keep(object memory) noexcept
cdef void keep_arrays(
    void *source, void *target, void *scratch, object pins
) noexcept
cpdef tuple pinned(cnp.ndarray source, cnp.ndarray target)
