from libc.stdint cimport int64_t

from collalgo._kernels.comm.point_to_point.by_tag cimport ByTag
from collalgo._kernels.comm.point_to_point.inbox cimport ReceiveMatching
from collalgo._kernels.comm.point_to_point.message cimport Message
from collalgo._kernels.comm.point_to_point.peer cimport Peer
from collalgo._kernels.comm.pthreads cimport pthread_mutex_t
from collalgo._kernels.engine.transport.host_endpoint cimport HostEndpoint
from collalgo._kernels.engine.transport.message_ring cimport message_bell, message_link
from collalgo._kernels.engine.transport.segment cimport Segment


cdef class Polling(ReceiveMatching):
    cdef readonly int64_t rank, size
    cdef HostEndpoint shared
    cdef Segment segment  # which stays mapped while it is used
    cdef message_bell *bell
    cdef message_link **links  # of the known ranks of this host
    cdef int64_t link_count
    cdef dict places  # in the memory of the host, by rank
    cdef list peers, known
    cdef ByTag from_any
    cdef object finished, to_fetch
    cdef bint closed
    cdef bint listens  # to records of any rank
    cdef int64_t users  # threads that wait, or read a long message
    cdef pthread_mutex_t mutex

    cdef int add_peer(self, Peer peer) except -1
    cdef bint is_forked(self) noexcept
    cdef void enter(self) noexcept
    cdef void leave(self) noexcept
    cdef int check_open(self, str call) except -1
    cdef bint poll_locked(self) except -1
    cdef bint fetch(self, Message message) except -1
    cdef int read_unlocked(self, Peer peer, Message message) noexcept
    cdef int find_departures(self) except -1
    cdef int withdraw(self, Message message) except -1
    cdef bint cancel_receive(self, Message message) except -1
    cdef int call_back(self) except -1
