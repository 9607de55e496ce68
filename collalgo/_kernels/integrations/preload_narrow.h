/* The forms for large counts over an MPI that has only those of int. */
#ifndef COLLALGO_PRELOAD_NARROW_H
#define COLLALGO_PRELOAD_NARROW_H

#include <limits.h>

/* An MPI of version 3 has no form for large counts, of which mpi4py takes ours for its own: the
   form of int then makes the call, or the error of MPI for a count that is too large. */
#define OR_NARROW(number, count, ...) \
    if (sizeof(number) == 8 && is_only_narrow()) \
        return (count) > INT_MAX ? refuse_count(comm) : __VA_ARGS__

static int is_only_narrow(void) {
    pthread_once(&once, begin);
    return !has_wide_forms;
}

static int refuse_count(word comm) {
    enum { ERR_COUNT = 2 }; /* in all MPIs */
    mpi.Comm_call_errhandler(handle_of(&mpi, comm), ERR_COUNT);
    return ERR_COUNT;
}

int MPI_Reduce_scatter(const void *source, void *target, const int *counts, word type, word op,
                       word comm);

static int reduce_scatter_narrowed(const void *source, void *target, const void *counts,
                                   word type, word op, word comm) {
    int size = 0, is_too_large = 0;
    mpi.Comm_size(handle_of(&mpi, comm), &size);
    int *narrow = reserved(size * (int64_t)sizeof *narrow);
    for (int i = 0; i < size; i++) {
        int64_t each = ((const int64_t *)counts)[i];
        is_too_large |= each > INT_MAX;
        narrow[i] = (int)each;
    }
    int status = is_too_large ? refuse_count(comm)
                              : MPI_Reduce_scatter(source, target, narrow, type, op, comm);
    free(narrow);
    return status;
}

#endif
