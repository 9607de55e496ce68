from collalgo._kernels.engine.transport.transport cimport Transport, step_log


cdef class StepLog:
    cdef step_log log
    cdef Transport transport
