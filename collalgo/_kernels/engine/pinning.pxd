cimport numpy as cnp


cpdef tuple pinned(cnp.ndarray source, cnp.ndarray target)
