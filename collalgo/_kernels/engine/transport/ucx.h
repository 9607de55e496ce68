/* The part of UCX's interface that the wire uses, as version 1.10 fixed it.
 *
 * The library is loaded at run time, so its headers are not needed to build. Structures
 * begin with a mask of the fields that are set; the library reads no others. */
#ifndef COLLALGO_UCX_H
#define COLLALGO_UCX_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

enum { UCX_OK = 0, UCX_IN_PROGRESS = 1, UCX_CANCELED = -16, UCX_LAST_ERROR = -100 };

enum { UCX_PARAM_FEATURES = 1, UCX_PARAM_SHARED = 1 << 5, UCX_FEATURE_TAG = 1 };
typedef struct {
    uint64_t mask, features;
    size_t request_size;
    void *request_init, *request_cleanup;
    uint64_t tag_sender_mask;
    int workers_shared;
    char more[256];
} ucx_params;

enum { UCX_WORKER_THREADS = 1, UCX_THREADS_MULTI = 2 };
typedef struct {
    uint64_t mask;
    int threads;
    char more[512];
} ucx_worker_params;

enum {
    UCX_EP_ADDRESS = 1 << 0,
    UCX_EP_ERROR_MODE = 1 << 1,
    UCX_EP_ERROR_HANDLER = 1 << 2,
    UCX_ERRORS_OF_PEER = 1
};
typedef struct {
    uint64_t mask;
    const void *address;
    int error_mode;
    void (*handle_error)(void *argument, void *endpoint, signed char status);
    void *argument;
    char more[256];
} ucx_ep_params;

enum { UCX_OP_FLAGS = 1 << 4, UCX_OP_NOT_AT_ONCE = 1 << 16, UCX_CLOSE_BY_FORCE = 1 };
typedef struct {
    uint32_t mask, flags;
    char more[256];
} ucx_request_params;

typedef struct {
    uint64_t tag;
    size_t length;
} ucx_received;

enum { UCX_LOG_HANDLED = 0, UCX_LOG_NEXT_HANDLER = 1, UCX_LEVEL_ERROR = 1 };

/* A log handler of UCX that drops messages below errors. */
static inline int ucx_log_errors_only(const char *file, unsigned line, const char *function,
                                      int level, const void *component,
                                      const char *message, va_list arguments) {
    (void)file, (void)line, (void)function, (void)component, (void)message;
    (void)arguments;
    return level > UCX_LEVEL_ERROR ? UCX_LOG_HANDLED : UCX_LOG_NEXT_HANDLER;
}

static inline int ucx_is_request(void *p) {
    return p != NULL && (uintptr_t)p < (uintptr_t)UCX_LAST_ERROR;
}

#endif
