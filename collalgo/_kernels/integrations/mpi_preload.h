/* What the preloaded library and the engine in the interpreter that it starts give each other. */
#ifndef COLLALGO_MPI_PRELOAD_H
#define COLLALGO_MPI_PRELOAD_H

#include <stdint.h>

/* The collectives, each with its name for the user. */
#define PRELOAD_EACH(F) \
    F(PRELOAD_ALLREDUCE, "allreduce") \
    F(PRELOAD_BROADCAST, "broadcast") \
    F(PRELOAD_REDUCE_SCATTER, "reduce_scatter") \
    F(PRELOAD_ALLGATHER, "allgather") \
    F(PRELOAD_ALLTOALL, "alltoall") \
    F(PRELOAD_BARRIER, "barrier")
#define PRELOAD_NUMBER(number, name) number,
#define PRELOAD_NAME(number, name) " " name
#define PRELOAD_NAMES PRELOAD_EACH(PRELOAD_NAME)
enum { PRELOAD_EACH(PRELOAD_NUMBER) PRELOAD_COLLECTIVES };

/* A call on a communicator. What only moves is bytes. */
typedef struct {
    int collective;
    int dtype;             /* the place of its dtype in PRELOAD_DTYPES */
    int op;                /* the place of its op in PRELOAD_OPS */
    int root;
    int64_t count;         /* the elements of the source, or of a broadcast */
    const void *source;
    void *target;
    const int64_t *counts; /* the elements of each rank's block, or NULL if they are equal */
} preload_call;

#define PRELOAD_DTYPES "i1 i2 i4 i8 u1 u2 u4 u8 f4 f8 c8 c16 b1"
#define PRELOAD_OPS "sum prod min max land lor lxor band bor bxor"

/* The bytes of the sentence of an error: no more than any MPI has room for. */
enum { PRELOAD_SENTENCE = 256 };

typedef struct {
    /* Of the library: allgather of bytes by MPI (0, or an error of MPI), and MPI's progress
       during a call. */
    int (*allgather)(intptr_t comm, const void *mine, int nbytes, void *all);
    unsigned (*poll)(void *);
    /* Of the engine: a connection after some earlier calls, or NULL on all ranks if one of them
       cannot connect or they are on several hosts. A call on it: 0, or -1 after an error, whose
       text is in `sentence`. The end of the connection. */
    void *(*connect)(intptr_t comm, int rank, int size, int earlier);
    int (*call)(void *connection, const preload_call *call);
    void (*disconnect)(void *connection);
    char sentence[PRELOAD_SENTENCE];
} preload_interface;

#endif
