# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""A wire over UCX: needs no launcher and no fixed world, and reports the death of a peer.

A UCX tag holds the sender and the tag of the wire. Receives belong to the worker and not
to a peer, so this module cancels receives from a lost peer.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset
from posix.unistd cimport usleep

from collalgo._kernels.engine.transport.wire cimport (
    ARRIVED, LOST, UNDER_WAY, Wire, forget_poll, set_poll,
)

#: The functions that are looked up in the library.
FUNCTIONS = (
    "ucp_get_version", "ucp_config_read", "ucp_config_modify", "ucp_config_release",
    "ucp_init_version", "ucp_cleanup", "ucp_worker_create", "ucp_worker_destroy",
    "ucp_worker_get_address", "ucp_worker_release_address", "ucp_worker_progress",
    "ucp_ep_create", "ucp_tag_send_nbx", "ucp_tag_send_sync_nbx", "ucp_tag_recv_nbx",
    "ucp_request_check_status", "ucp_tag_recv_request_test", "ucp_request_cancel",
    "ucp_request_free", "ucp_ep_close_nbx", "ucs_log_push_handler",
    "ucs_log_pop_handler", "ucp_context_query",
)

cdef enum:
    CLOSE_TURNS = 5000  # of 100 microseconds
    OF_A_SEND = 1  # flag in the word of a request, whose address is even
    SENDER = 32    # the first bit of the sender in a tag


cdef void note_error(void *argument, void *endpoint, signed char status) noexcept nogil:
    (<bint *>argument)[0] = True


cdef class UcxWire(Wire):
    """One process's worker, and its endpoints to all processes of a job.

    Parameters
    ----------
    functions : dict
        The addresses of :data:`FUNCTIONS`.
    settings : dict
        Values of UCX's variables, by their names without the prefix; those that a
        version does not know are ignored.
    rank, size : int
        The rank of this process, and the number of processes.
    """
    cdef dict functions
    cdef void *context
    cdef void *worker
    cdef void **endpoints
    cdef bint closes
    cdef list addresses
    cdef const char **address_of
    cdef int64_t rank, size
    cdef ep_create_type ep_create
    cdef send_type send_now, send_matched
    cdef receive_type receive_now
    cdef check_type check
    cdef test_type received
    cdef cancel_type give_up
    cdef release_type release
    cdef progress_type progress
    cdef close_type close_now

    def __init__(self, dict functions, dict settings, int64_t rank, int64_t size):
        self.functions, self.rank, self.size = functions, rank, size
        self.endpoints = <void **>calloc(size, sizeof(void *))
        self.lost = <bint *>calloc(size, sizeof(bint))
        self.address_of = <const char **>calloc(size, sizeof(void *))
        if self.endpoints == NULL or self.lost == NULL or self.address_of == NULL:
            raise MemoryError
        self.ep_create = <ep_create_type>self.find("ucp_ep_create")
        self.send_now = <send_type>self.find("ucp_tag_send_nbx")
        self.send_matched = <send_type>self.find("ucp_tag_send_sync_nbx")
        self.receive_now = <receive_type>self.find("ucp_tag_recv_nbx")
        self.check = <check_type>self.find("ucp_request_check_status")
        self.received = <test_type>self.find("ucp_tag_recv_request_test")
        self.give_up = <cancel_type>self.find("ucp_request_cancel")
        self.release = <release_type>self.find("ucp_request_free")
        self.progress = <progress_type>self.find("ucp_worker_progress")
        self.close_now = <close_type>self.find("ucp_ep_close_nbx")
        self.begin(settings)

    cdef void *find(self, str name) except NULL:
        return <void *><uintptr_t>self.functions[name]

    cdef int begin(self, dict settings) except -1:
        """Create the context and the worker."""
        cdef void *config = self.configured(settings)
        cdef unsigned major = 0, minor = 0, patch = 0
        cdef ucx_params params
        (<version_type>self.find("ucp_get_version"))(&major, &minor, &patch)
        memset(&params, 0, sizeof(params))
        params.mask = UCX_PARAM_FEATURES | UCX_PARAM_SHARED
        params.features, params.workers_shared = UCX_FEATURE_TAG, 1
        status = (<init_type>self.find("ucp_init_version"))(
            major, minor, &params, config, &self.context
        )
        (<release_type>self.find("ucp_config_release"))(config)
        checked(status, "start")
        return self.begin_worker()

    cdef void *configured(self, dict settings) except NULL:
        """Read the configuration of UCX, and change some settings."""
        cdef void *config = NULL
        checked(
            (<config_read_type>self.find("ucp_config_read"))(NULL, NULL, &config),
            "read its configuration",
        )
        for name, value in settings.items():
            (<config_modify_type>self.find("ucp_config_modify"))(
                config, name.encode(), value.encode()
            )
        return config

    cdef int begin_worker(self) except -1:
        """Create the worker, which may be used by several threads."""
        cdef ucx_worker_params worker
        memset(&worker, 0, sizeof(worker))
        worker.mask, worker.threads = UCX_WORKER_THREADS, UCX_THREADS_MULTI
        checked(
            (<worker_create_type>self.find("ucp_worker_create"))(
                self.context, &worker, &self.worker
            ),
            "create a worker",
        )
        set_poll(self.progress, self.worker)
        return 0

    def context_address(self):
        """The address of the context, for queries."""
        return <uintptr_t>self.context

    def address(self):
        """The address of this process: several hundred bytes."""
        cdef void *address = NULL
        cdef size_t length = 0
        checked(
            (<get_address_type>self.find("ucp_worker_get_address"))(
                self.worker, &address, &length
            ),
            "return its address",
        )
        found = PyBytes_FromStringAndSize(<char *>address, length)
        release = <release_address_type>self.find("ucp_worker_release_address")
        release(self.worker, address)
        return found

    def connect(self, list addresses):
        """Set the addresses of all processes; each is connected at its first use."""
        self.addresses = addresses
        for rank, address in enumerate(addresses):
            self.address_of[rank] = <const char *><bytes>address

    def close(self, bint has_failed=False):
        """Flush pending sends, for a short time, and destroy the worker.

        After a failed call UCX does not warn of messages that stay unreceived.
        """
        if self.worker == NULL or self.closes:
            return
        self.closes = True
        if has_failed:
            push = <push_handler_type>self.find("ucs_log_push_handler")
            push(<void *>&ucx_log_errors_only)
        with nogil:  # other threads renew the leases of this process meanwhile
            self.close_endpoints()
        forget_poll(self.worker)
        (<release_type>self.find("ucp_worker_destroy"))(self.worker)
        (<release_type>self.find("ucp_cleanup"))(self.context)
        self.worker = self.context = NULL
        if has_failed:
            (<pop_handler_type>self.find("ucs_log_pop_handler"))()

    cdef void close_endpoints(self) noexcept nogil:
        """Close all endpoints at once, for a short time; by force those of the lost."""
        cdef int64_t peer, turn = 0
        cdef void **requests = self.endpoints  # in place of the endpoints, which end here
        for peer in range(self.size):
            if self.endpoints[peer] != NULL:
                requests[peer] = self.begin_close(peer)
        for peer in range(self.size):
            if requests[peer] == NULL:
                continue
            while self.check(requests[peer]) == UCX_IN_PROGRESS and turn < CLOSE_TURNS:
                turn += 1
                self.progress(self.worker)
                usleep(100)
            self.release(requests[peer])
            requests[peer] = NULL

    cdef void *begin_close(self, int64_t peer) noexcept nogil:
        """Begin to close the endpoint of a process: the request, or NULL at its end."""
        cdef ucx_request_params params
        memset(&params, 0, sizeof(params))
        if self.lost[peer] or self.all_have_left:
            params.mask, params.flags = UCX_OP_FLAGS, UCX_CLOSE_BY_FORCE
        found = self.close_now(self.endpoints[peer], &params)
        return found if ucx_is_request(found) else NULL

    def __dealloc__(self):
        free(self.endpoints)
        free(self.lost)
        free(self.address_of)

    cdef void *endpoint_to(self, int64_t peer) noexcept nogil:
        """The endpoint of a process, created at its first use; NULL on failure."""
        cdef ucx_ep_params params
        if self.closes:
            return NULL
        if self.endpoints[peer] == NULL:
            memset(&params, 0, sizeof(params))
            params.mask = UCX_EP_ADDRESS | UCX_EP_ERROR_MODE | UCX_EP_ERROR_HANDLER
            params.address = self.address_of[peer]
            params.error_mode = UCX_ERRORS_OF_PEER
            params.handle_error = note_error
            params.argument = &self.lost[peer]
            if self.ep_create(self.worker, &params, &self.endpoints[peer]) != UCX_OK:
                return NULL
        return self.endpoints[peer]

    cdef int send(
        self, int64_t peer, int64_t tag, const char *data, int64_t nbytes, bint matched,
        int64_t *request
    ) noexcept nogil:
        cdef ucx_request_params params
        cdef send_type begin = self.send_matched if matched else self.send_now
        cdef void *endpoint
        cdef void *found
        memset(&params, 0, sizeof(params))
        if self.worker == NULL or self.lost[peer]:
            return LOST
        endpoint = self.endpoint_to(peer)
        if endpoint == NULL:
            return LOST
        found = begin(
            endpoint, data, nbytes, (<uint64_t>self.rank << SENDER) | tag, &params
        )
        if found != NULL and not ucx_is_request(found):
            return LOST
        request[0] = <int64_t>found | (OF_A_SEND if found != NULL else 0)
        return UNDER_WAY

    cdef int receive(
        self, int64_t peer, int64_t tag, char *data, int64_t nbytes, int64_t *request
    ) noexcept nogil:
        cdef ucx_request_params params
        cdef void *found
        memset(&params, 0, sizeof(params))
        params.mask = UCX_OP_NOT_AT_ONCE
        if self.worker == NULL:
            return LOST
        found = self.receive_now(
            self.worker, data, nbytes, (<uint64_t>peer << SENDER) | tag,
            <uint64_t>-1, &params
        )
        if not ucx_is_request(found):
            return LOST
        request[0] = <int64_t>found
        return UNDER_WAY

    cdef int test(self, int64_t peer, int64_t *request, int64_t *nbytes) noexcept nogil:
        cdef void *found = <void *>(request[0] & ~<int64_t>OF_A_SEND)
        cdef bint is_send = request[0] & OF_A_SEND
        cdef ucx_received received
        cdef signed char status
        if self.worker == NULL:
            return LOST
        self.progress(self.worker)
        if found == NULL:  # it completed at once
            return ARRIVED
        received.length = 0
        status = self.check(found) if is_send else self.received(found, &received)
        if status == UCX_IN_PROGRESS:
            if not self.lost[peer]:
                return UNDER_WAY
            self.give_up(self.worker, found)
        self.release(found)  # freed by UCX once it has completed
        request[0] = 0
        nbytes[0] = received.length
        return ARRIVED if status == UCX_OK or status == UCX_CANCELED else LOST

    cdef void cancel(self, int64_t *request) noexcept nogil:
        if self.worker != NULL and request[0]:
            self.give_up(self.worker, <void *>request[0])

    cdef void abandon(self, int64_t *request) noexcept nogil:
        if self.worker != NULL and request[0] & ~<int64_t>OF_A_SEND:
            self.release(<void *>(request[0] & ~<int64_t>OF_A_SEND))


cdef int checked(int status, str what) except -1:
    if status != UCX_OK:
        raise OSError(f"UCX cannot {what}: status {status}")
    return 0
