"""The types of the functions of UCX, which is loaded at run time, not linked."""

from libc.stdint cimport uint32_t, uint64_t


cdef extern from "ucx.h" nogil:
    enum: UCX_OK
    enum: UCX_IN_PROGRESS
    enum: UCX_CANCELED
    enum: UCX_PARAM_FEATURES
    enum: UCX_PARAM_SHARED
    enum: UCX_FEATURE_TAG
    enum: UCX_WORKER_THREADS
    enum: UCX_THREADS_MULTI
    enum: UCX_EP_ADDRESS
    enum: UCX_EP_ERROR_MODE
    enum: UCX_EP_ERROR_HANDLER
    enum: UCX_ERRORS_OF_PEER
    enum: UCX_OP_FLAGS
    enum: UCX_OP_NOT_AT_ONCE
    enum: UCX_CLOSE_BY_FORCE
    ctypedef struct ucx_params:
        uint64_t mask, features
        int workers_shared
    ctypedef struct ucx_worker_params:
        uint64_t mask
        int threads
    ctypedef struct ucx_ep_params:
        uint64_t mask
        const void *address
        int error_mode
        void (*handle_error)(void *, void *, signed char) noexcept nogil
        void *argument
    ctypedef struct ucx_request_params:
        uint32_t mask, flags
    ctypedef struct ucx_received:
        uint64_t tag
        size_t length
    bint ucx_is_request(void *p)
    void ucx_log_errors_only()

ctypedef void (*version_type)(unsigned *, unsigned *, unsigned *) noexcept nogil
ctypedef signed char (*config_read_type)(
    const char *, const char *, void **
) noexcept nogil
ctypedef signed char (*config_modify_type)(
    void *, const char *, const char *
) noexcept nogil
ctypedef signed char (*init_type)(
    unsigned, unsigned, const ucx_params *, const void *, void **
) noexcept nogil
ctypedef signed char (*worker_create_type)(
    void *, const ucx_worker_params *, void **
) noexcept nogil
ctypedef signed char (*get_address_type)(void *, void **, size_t *) noexcept nogil
ctypedef void (*release_address_type)(void *, void *) noexcept nogil
ctypedef signed char (*ep_create_type)(
    void *, const ucx_ep_params *, void **
) noexcept nogil
ctypedef void *(*send_type)(
    void *, const void *, size_t, uint64_t, const ucx_request_params *
) noexcept nogil
ctypedef void *(*receive_type)(
    void *, void *, size_t, uint64_t, uint64_t, const ucx_request_params *
) noexcept nogil
ctypedef signed char (*check_type)(void *) noexcept nogil
ctypedef signed char (*test_type)(void *, ucx_received *) noexcept nogil
ctypedef void (*cancel_type)(void *, void *) noexcept nogil
ctypedef void (*release_type)(void *) noexcept nogil
ctypedef unsigned (*progress_type)(void *) noexcept nogil
ctypedef void *(*close_type)(void *, const ucx_request_params *) noexcept nogil
ctypedef void (*push_handler_type)(void *) noexcept nogil
ctypedef void (*pop_handler_type)() noexcept nogil
