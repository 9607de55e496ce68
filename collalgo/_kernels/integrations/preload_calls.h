/* The functions of MPI that are replaced, each with its form for large counts. */
#ifndef COLLALGO_PRELOAD_CALLS_H
#define COLLALGO_PRELOAD_CALLS_H

#include "preload_narrow.h"

/* Elements of a datatype as adjacent bytes: in place, or packed in memory of their own. */
typedef struct {
    char *bytes;
    int is_packed, status; /* an error of MPI while they were packed, or 0 */
} buffer;

/* Elements to read (is_read), or a place for those to be written. */
static buffer begin_buffer(const void *elements, int64_t count, const datatype *type, word comm,
                           int is_read) {
    buffer made = {(char *)elements, !type->is_named, 0};
    if (type->is_named) return made;
    made.bytes = reserved(count * type->size);
    if (is_read)
        made.status = copy_packed(&mpi, (char *)elements, count, type, made.bytes, comm, 1);
    return made;
}

/* Puts elements that were written in place, and frees the memory: the first error, or 0. */
static int end_buffer(buffer *made, void *elements, int64_t count, const datatype *type,
                      word comm, int is_written) {
    int status = made->status;
    if (!made->is_packed) return 0;
    if (is_written && !status)
        status = copy_packed(&mpi, elements, count, type, made->bytes, comm, 0);
    free(made->bytes);
    return status;
}

static datatype type_of(word handle) {
    pthread_once(&once, begin);
    if (!found_mpi) return (datatype){0, 0, -1, 0};
    return datatype_of(&mpi, handle_of(&mpi, handle), PRELOAD_DTYPES);
}

/* The place of an op that these elements have in every MPI; -1 if they do not. */
static int op_of(word handle, int dtype) {
    enum { LOGICAL = 4, BITWISE = 7, FLOATS = 8, COMPLEX = 10, BOOL = 12 };
    handle = handle_of(&mpi, handle);
    for (int op = 0; dtype >= 0 && op < 10; op++) {
        if (mpi.ops[op] != handle) continue;
        int is_logical = op >= LOGICAL && op < BITWISE;
        if (dtype == BOOL) return is_logical ? op : -1;
        if (dtype >= COMPLEX) return op < 2 ? op : -1;
        return dtype >= FLOATS && op >= LOGICAL ? -1 : op;
    }
    return -1;
}

/* Both forms of a function: with counts of int and of MPI_Count. */
#define BOTH(F) F(, int) F(_c, int64_t)

/* Calls the same function of the MPI beneath. */
#define PASS_ON(name, parameters, ...) \
    static int(*next) parameters; \
    if (!next) next = (int(*) parameters)find_next(name); \
    return next(__VA_ARGS__)

/* ---- allreduce */

#define ALLREDUCE(suffix, number) \
    int MPI_Allreduce##suffix(const void *source, void *target, number count, word type, \
                              word op, word comm) { \
        OR_NARROW(number, count, MPI_Allreduce(source, target, (int)count, type, op, comm)); \
        int status = take_allreduce(source, target, count, type, op, comm); \
        if (status >= 0) return status; \
        PASS_ON("MPI_Allreduce" #suffix, (const void *, void *, number, word, word, word), \
                source, target, count, type, op, comm); \
    }

static int pass_on(int collective) {
    passed[collective]++;
    return -1;
}

/* The status of a call that is taken; -1 if it is passed on. So below. */
static int take_allreduce(const void *source, void *target, int64_t count, word type, word op,
                          word comm) {
    datatype elements = type_of(type);
    connection *mine = connection_for(PRELOAD_ALLREDUCE, comm, count * elements.size);
    int place = mine ? op_of(op, elements.dtype) : -1;
    if (place < 0) return pass_on(PRELOAD_ALLREDUCE);
    preload_call call = {PRELOAD_ALLREDUCE, elements.dtype, place, 0, count,
                         source == mpi.in_place ? target : source, target, NULL};
    return make(mine, comm, &call);
}

BOTH(ALLREDUCE)

/* ---- broadcast */

#define BROADCAST(suffix, number) \
    int MPI_Bcast##suffix(void *elements, number count, word type, int root, word comm) { \
        OR_NARROW(number, count, MPI_Bcast(elements, (int)count, type, root, comm)); \
        int status = take_broadcast(elements, count, type, root, comm); \
        if (status >= 0) return status; \
        PASS_ON("MPI_Bcast" #suffix, (void *, number, word, int, word), elements, count, type, \
                root, comm); \
    }

static int take_broadcast(void *elements, int64_t count, word handle, int root, word comm) {
    datatype type = type_of(handle);
    connection *mine = connection_for(PRELOAD_BROADCAST, comm, count * type.size);
    if (!mine || root < 0 || root >= mine->size)
        return pass_on(PRELOAD_BROADCAST);
    int is_root = mine->rank == root;
    buffer made = begin_buffer(elements, count, &type, comm, is_root);
    preload_call call = {PRELOAD_BROADCAST, 0, 0, root, count * type.size, made.bytes, made.bytes,
                         NULL};
    int status = make(mine, comm, &call);
    int unpacked = end_buffer(&made, elements, count, &type, comm, !is_root);
    return status ? status : unpacked;
}

BOTH(BROADCAST)

/* ---- reduce_scatter and reduce_scatter_block */

#define REDUCE_SCATTER_BLOCK(suffix, number) \
    int MPI_Reduce_scatter_block##suffix(const void *source, void *target, number count, \
                                         word type, word op, word comm) { \
        OR_NARROW(number, count, \
                  MPI_Reduce_scatter_block(source, target, (int)count, type, op, comm)); \
        int status = take_reduce_scatter(source, target, count, NULL, 0, type, op, comm); \
        if (status >= 0) return status; \
        PASS_ON("MPI_Reduce_scatter_block" #suffix, \
                (const void *, void *, number, word, word, word), source, target, count, type, \
                op, comm); \
    }

#define REDUCE_SCATTER(suffix, number) \
    int MPI_Reduce_scatter##suffix(const void *source, void *target, const number *counts, \
                                   word type, word op, word comm) { \
        int is_wide = sizeof *counts == 8; \
        if (is_wide && is_only_narrow()) \
            return reduce_scatter_narrowed(source, target, counts, type, op, comm); \
        int status = take_reduce_scatter(source, target, 0, counts, is_wide, type, op, comm); \
        if (status >= 0) return status; \
        PASS_ON("MPI_Reduce_scatter" #suffix, \
                (const void *, void *, const number *, word, word, word), source, target, \
                counts, type, op, comm); \
    }

/* A copy of a source that lies in the target, where its blocks are overwritten. */
static const void *apart(const void *source, void *target, int64_t nbytes, void **copy) {
    *copy = NULL;
    if (source != mpi.in_place) return source;
    return *copy = memcpy(reserved(nbytes), target, (size_t)nbytes);
}

/* The counts of all blocks, with their sum. */
static int64_t *widened(const void *counts, int is_wide, int size, int64_t *sum) {
    int64_t *made = reserved(size * (int64_t)sizeof *made);
    *sum = 0;
    for (int i = 0; i < size; i++) {
        made[i] = is_wide ? ((const int64_t *)counts)[i] : ((const int *)counts)[i];
        *sum += made[i];
    }
    return made;
}

/* Of all blocks, with their counts unless each has `count` elements. */
static int take_blocks_reduced(const void *source, void *target, int64_t count,
                               const int64_t *counts, const datatype *type, word op,
                               word comm, int size) {
    int64_t mean = counts ? (count * type->size + size - 1) / size : count * type->size;
    connection *mine = connection_for(PRELOAD_REDUCE_SCATTER, comm, mean);
    int place = mine ? op_of(op, type->dtype) : -1;
    if (place < 0) return pass_on(PRELOAD_REDUCE_SCATTER);
    int64_t total = counts ? count : count * mine->size;
    void *copy;
    source = apart(source, target, total * type->size, &copy);
    preload_call call = {PRELOAD_REDUCE_SCATTER, type->dtype, place, 0, total, source, target,
                         counts};
    int status = make(mine, comm, &call);
    free(copy);
    return status;
}

static int take_reduce_scatter(const void *source, void *target, int64_t count,
                               const void *counts, int is_wide, word handle, word op,
                               word comm) {
    datatype type = type_of(handle);
    int64_t *all = NULL;
    int size = 1;
    if (counts && found_mpi && !mpi.Comm_size(handle_of(&mpi, comm), &size))
        all = widened(counts, is_wide, size, &count);
    int status = take_blocks_reduced(source, target, count, all, &type, op, comm, size);
    free(all);
    return status;
}

BOTH(REDUCE_SCATTER_BLOCK)
BOTH(REDUCE_SCATTER)

/* ---- allgather and alltoall */

#define BLOCKS(name, collective, suffix, number) \
    int name##suffix(const void *source, number count, word type, void *target, \
                     number target_count, word target_type, word comm) { \
        OR_NARROW(number, count > target_count ? count : target_count, \
                  name(source, (int)count, type, target, (int)target_count, target_type, comm)); \
        int status = take_blocks(collective, source, count, type, target, target_count, \
                                 target_type, comm); \
        if (status >= 0) return status; \
        PASS_ON(#name #suffix, (const void *, number, word, void *, number, word, word), source, \
                count, type, target, target_count, target_type, comm); \
    }
#define ALLGATHER(suffix, number) BLOCKS(MPI_Allgather, PRELOAD_ALLGATHER, suffix, number)
#define ALLTOALL(suffix, number) BLOCKS(MPI_Alltoall, PRELOAD_ALLTOALL, suffix, number)

static int take_blocks(int collective, const void *source, int64_t count, word handle,
                       void *target, int64_t target_count, word target_handle, word comm) {
    /* Long: a source may be in place or packed, and a target packed. */
    datatype into = type_of(target_handle);
    connection *mine = connection_for(collective, comm, target_count * into.size);
    if (!mine) return pass_on(collective);
    int is_gathering = collective == PRELOAD_ALLGATHER, is_in_place = source == mpi.in_place;
    int64_t all = target_count * mine->size, each = target_count * into.size;
    int64_t parts = is_gathering ? 1 : mine->size;
    datatype of = is_in_place ? into : type_of(handle);
    buffer found = begin_buffer(target, all, &into, comm, is_in_place), given = {NULL, 0, 0};
    void *copy = NULL;
    if (!is_in_place)
        given = begin_buffer(source, count * parts, &of, comm, 1);
    else if (is_gathering)
        given.bytes = found.bytes + mine->rank * each;
    else
        given.bytes = (char *)apart(mpi.in_place, found.bytes, each * parts, &copy);
    preload_call call = {collective, 0, 0, 0, each * parts, given.bytes, found.bytes, NULL};
    int status = make(mine, comm, &call);
    int packed = end_buffer(&given, NULL, 0, &of, comm, 0);
    int unpacked = end_buffer(&found, target, all, &into, comm, 1);
    free(copy);
    return status ? status : packed ? packed : unpacked;
}

BOTH(ALLGATHER)
BOTH(ALLTOALL)

/* ---- barrier, and the end */

int MPI_Barrier(word comm) {
    connection *mine = connection_for(PRELOAD_BARRIER, comm, INT64_MAX);
    preload_call call = {.collective = PRELOAD_BARRIER};
    if (mine) return make(mine, comm, &call);
    passed[PRELOAD_BARRIER]++;
    PASS_ON("MPI_Barrier", (word), comm);
}

/* Tells which calls were taken, if the user asks for it. */
static void report(void) {
    const char *asked = settings[REPORT];
    if (!asked || !*asked || !strcmp(asked, "0")) return;
    int rank = -1;
    if (found_mpi) mpi.Comm_rank(mpi.world, &rank);
    for (int i = 0; i < PRELOAD_COLLECTIVES; i++) {
        char why[80] = "";
        if (first[i] && first[i] == passed[i])
            snprintf(why, sizeof why, " (among the first %d calls of a communicator)",
                     PASSED_AT_FIRST);
        else if (first[i])
            snprintf(why, sizeof why, " (%lld among the first %d calls of a communicator)",
                     (long long)first[i], PASSED_AT_FIRST);
        if (taken[i] || passed[i])
            fprintf(stderr, "collalgo: rank %d: %s: %lld taken, %lld passed on%s\n", rank,
                    NAMES[i], (long long)taken[i], (long long)passed[i], why);
    }
}

int MPI_Finalize(void) {
    report();
    PASS_ON("MPI_Finalize", (void), );
}

#endif
