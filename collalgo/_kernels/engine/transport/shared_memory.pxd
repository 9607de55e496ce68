from collalgo._kernels.engine.transport.host_endpoint cimport HostEndpoint


cdef class SharedMemory(HostEndpoint):
    pass
