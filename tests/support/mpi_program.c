/* A program of MPI alone, as others have: it checks collectives.

   mpi_program check: the results of many calls, in bytes that are computed here.
   mpi_program leave: the last rank ends between two calls.
   mpi_program returned: the same, where errors are returned.
   mpi_program mismatch: the text of an error, for a call with another count on each rank.
   mpi_program count: twenty calls that a program of another language makes, too. */
#include <complex.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

#define CHECK(condition) \
    if (!(condition)) { \
        fprintf(stderr, "rank %d: line %d: %s\n", rank, __LINE__, #condition); \
        MPI_Abort(MPI_COMM_WORLD, 3); \
    }

/* ---- reductions of every type, with each op that has a meaning for it */

#define SUMS(type, mpi_type) \
    for (int count = 1; count < 3000; count = 3 * count + 1) { \
        type *x = malloc(count * sizeof *x), *y = malloc(count * sizeof *y); \
        for (int i = 0; i < count; i++) x[i] = (type)(i % 7 + rank), y[i] = 0; \
        MPI_Allreduce(x, y, count, mpi_type, MPI_SUM, comm); \
        for (int i = 0; i < count; i++) \
            CHECK(y[i] == (type)(i % 7 * n + n * (n - 1) / 2)); \
        MPI_Allreduce(MPI_IN_PLACE, x, count, mpi_type, MPI_SUM, comm); \
        for (int i = 0; i < count; i++) CHECK(x[i] == y[i]); \
        free(x), free(y); \
    }
#define ORDERED(type, mpi_type) \
    SUMS(type, mpi_type) \
    { \
        type x = (type)(rank + 1), y, product = 1; \
        for (int i = 0; i < n; i++) product = (type)(product * (i + 1)); \
        MPI_Allreduce(&x, &y, 1, mpi_type, MPI_MIN, comm); \
        CHECK(y == 1); \
        MPI_Allreduce(&x, &y, 1, mpi_type, MPI_MAX, comm); \
        CHECK(y == (type)n); \
        MPI_Allreduce(&x, &y, 1, mpi_type, MPI_PROD, comm); \
        CHECK(y == product); \
    }
#define INTEGERS(type, mpi_type) \
    ORDERED(type, mpi_type) \
    { \
        type x = (type)(1 << rank % 4), y, either = 0, xor = 0; \
        for (int i = 0; i < n; i++) either |= 1 << i % 4, xor ^= 1 << i % 4; \
        MPI_Allreduce(&x, &y, 1, mpi_type, MPI_BOR, comm); \
        CHECK(y == either); \
        MPI_Allreduce(&x, &y, 1, mpi_type, MPI_BXOR, comm); \
        CHECK(y == xor); \
        MPI_Allreduce(&x, &y, 1, mpi_type, MPI_BAND, comm); \
        CHECK(y == (n == 1 ? x : 0)); \
        x = rank == 0; \
        MPI_Allreduce(&x, &y, 1, mpi_type, MPI_LOR, comm); \
        CHECK(y == 1); \
        MPI_Allreduce(&x, &y, 1, mpi_type, MPI_LAND, comm); \
        CHECK(y == (n == 1)); \
        MPI_Allreduce(&x, &y, 1, mpi_type, MPI_LXOR, comm); \
        CHECK(y == 1); \
    }

static void check_reductions(MPI_Comm comm) {
    int n;
    MPI_Comm_size(comm, &n);
    MPI_Comm_rank(comm, &rank);
    INTEGERS(signed char, MPI_SIGNED_CHAR)
    INTEGERS(short, MPI_SHORT)
    INTEGERS(int, MPI_INT)
    INTEGERS(long, MPI_LONG)
    INTEGERS(long long, MPI_LONG_LONG)
    INTEGERS(unsigned, MPI_UNSIGNED)
    INTEGERS(uint8_t, MPI_UINT8_T)
    INTEGERS(uint16_t, MPI_UINT16_T)
    INTEGERS(int32_t, MPI_INT32_T)
    INTEGERS(uint64_t, MPI_UINT64_T)
    ORDERED(float, MPI_FLOAT)
    ORDERED(double, MPI_DOUBLE)
    ORDERED(long double, MPI_LONG_DOUBLE) /* which is passed on */
    SUMS(double complex, MPI_C_DOUBLE_COMPLEX)
}

static void check_scattered(MPI_Comm comm) {
    int n, me;
    MPI_Comm_size(comm, &n), MPI_Comm_rank(comm, &me);
    for (int each = 1; each < 2000; each = 5 * each + 1) {
        double *x = malloc((n + 1) * each * n * sizeof *x), *y = malloc(each * n * sizeof *y);
        int *counts = malloc(n * sizeof *counts), total = 0, first = 0;
        for (int i = 0; i < n * each; i++) x[i] = i + me;
        MPI_Reduce_scatter_block(x, y, each, MPI_DOUBLE, MPI_SUM, comm);
        for (int i = 0; i < each; i++)
            CHECK(y[i] == (double)n * (me * each + i) + n * (n - 1) / 2);
        MPI_Reduce_scatter_block(MPI_IN_PLACE, x, each, MPI_DOUBLE, MPI_SUM, comm);
        CHECK(!memcmp(x, y, each * sizeof *x));
        for (int i = 0; i < n; i++) {
            counts[i] = i % 2 ? each : each / 2;
            if (i < me) first += counts[i];
            total += counts[i];
        }
        for (int i = 0; i < total; i++) x[i] = i * (me + 1);
        MPI_Reduce_scatter(x, y, counts, MPI_DOUBLE, MPI_MAX, comm);
        for (int i = 0; i < counts[me]; i++) CHECK(y[i] == (double)(first + i) * n);
        free(x), free(y), free(counts);
    }
}

/* ---- what only moves, of adjacent and of other elements */

static void check_moved(MPI_Comm comm) {
    int n, me;
    MPI_Comm_size(comm, &n), MPI_Comm_rank(comm, &me);
    for (int each = 1; each < 5000; each = 7 * each + 2) {
        int *x = malloc(n * each * sizeof *x), *y = malloc(n * each * sizeof *y);
        for (int root = 0; root < n; root++) {
            for (int i = 0; i < each; i++) x[i] = me == root ? i * 3 + root : -1;
            MPI_Bcast(x, each, MPI_INT, root, comm);
            for (int i = 0; i < each; i++) CHECK(x[i] == i * 3 + root);
        }
        for (int i = 0; i < each; i++) x[i] = me * 1000 + i;
        MPI_Allgather(x, each, MPI_INT, y, each, MPI_INT, comm);
        for (int i = 0; i < n * each; i++) CHECK(y[i] == i / each * 1000 + i % each);
        memset(x, 0, n * each * sizeof *x);
        memcpy(x + me * each, y + me * each, each * sizeof *x);
        MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, x, each, MPI_INT, comm);
        CHECK(!memcmp(x, y, n * each * sizeof *x));
        for (int i = 0; i < n * each; i++) x[i] = me * 1000 + i / each;
        MPI_Alltoall(x, each, MPI_INT, y, each, MPI_INT, comm);
        for (int i = 0; i < n * each; i++) CHECK(y[i] == i / each * 1000 + me);
        MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, x, each, MPI_INT, comm);
        CHECK(!memcmp(x, y, n * each * sizeof *x));
        MPI_Barrier(comm);
        free(x), free(y);
    }
}

/* A column on the root and adjacent numbers on the others have one signature. */
static void check_derived(MPI_Comm comm) {
    int n, me, table[12][5], column[12];
    MPI_Datatype strided, pair;
    MPI_Comm_size(comm, &n), MPI_Comm_rank(comm, &me);
    MPI_Type_vector(12, 1, 5, MPI_INT, &strided), MPI_Type_commit(&strided);
    MPI_Type_contiguous(2, MPI_INT, &pair), MPI_Type_commit(&pair);
    for (int root = 0; root < n; root++) {
        memset(table, 0, sizeof table), memset(column, 0, sizeof column);
        for (int i = 0; i < 12; i++) table[i][0] = me == root ? i + 100 * root : 7;
        if (me % 2)
            MPI_Bcast(table, 1, strided, root, comm);
        else if (me == root)
            MPI_Bcast(table, 1, strided, root, comm);
        else
            MPI_Bcast(column, 6, pair, root, comm);
        for (int i = 0; i < 12; i++)
            CHECK((me % 2 || me == root ? table[i][0] : column[i]) == i + 100 * root);
        CHECK(table[3][1] == 0 && table[11][4] == 0);
    }
    int *all = malloc(12 * n * sizeof *all);
    for (int i = 0; i < 12; i++) table[i][0] = me * 50 + i;
    MPI_Allgather(table, 1, strided, all, 6, pair, comm);
    for (int i = 0; i < 12 * n; i++) CHECK(all[i] == i / 12 * 50 + i % 12);
    free(all), MPI_Type_free(&strided), MPI_Type_free(&pair);
}

/* A message that its sender completes after a collective that its receiver waits for. */
static void check_progress(void) {
    enum { MANY = 1 << 20 };
    int *x = calloc(MANY, sizeof *x), sum = 0, one = 1;
    MPI_Request sent;
    for (int turn = 0; turn < 3 && size > 1; turn++) {
        x[MANY - 1] = turn + 5;
        if (rank == 0) MPI_Isend(x, MANY, MPI_INT, 1, 3, MPI_COMM_WORLD, &sent);
        if (rank == 1) {
            memset(x, 0, MANY * sizeof *x);
            MPI_Recv(x, MANY, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            CHECK(x[MANY - 1] == turn + 5);
        }
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        CHECK(sum == size);
        if (rank == 0) MPI_Wait(&sent, MPI_STATUS_IGNORE);
    }
    free(x);
}

static void greater(void *in, void *out, int *count, MPI_Datatype *type) {
    (void)type;
    for (int i = 0; i < *count; i++)
        if (((int *)in)[i] > ((int *)out)[i]) ((int *)out)[i] = ((int *)in)[i];
}

/* Ops and communicators that are not taken, between calls that are. */
static void check_passed_on(void) {
    struct {
        double value;
        int index;
    } mine = {size - rank, rank}, best;
    int found, x = rank;
    MPI_Op op;
    MPI_Allreduce(&mine, &best, 1, MPI_DOUBLE_INT, MPI_MINLOC, MPI_COMM_WORLD);
    CHECK(best.index == size - 1);
    MPI_Op_create(greater, 1, &op);
    MPI_Allreduce(&x, &found, 1, MPI_INT, op, MPI_COMM_WORLD);
    CHECK(found == size - 1);
    MPI_Allreduce(&x, &found, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
    CHECK(found == rank);
    MPI_Bcast(NULL, 0, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Op_free(&op);
}

static void check(void) {
    MPI_Comm half, copy;
    for (int turn = 0; turn < 2; turn++) {
        check_reductions(MPI_COMM_WORLD);
        check_scattered(MPI_COMM_WORLD);
        check_moved(MPI_COMM_WORLD);
        check_derived(MPI_COMM_WORLD);
        check_progress();
        check_passed_on();
        MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
        MPI_Comm_dup(MPI_COMM_WORLD, &copy);
        check_moved(half), check_moved(copy), check_scattered(half);
        check_reductions(half);
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Comm_free(&half), MPI_Comm_free(&copy);
    }
    if (rank == 0) printf("right on %d ranks\n", size);
}

/* The last rank ends without a word, between two calls. */
static void leave(void) {
    for (int i = 0; i < 20; i++) MPI_Barrier(MPI_COMM_WORLD);
    if (rank == size - 1) _exit(0);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* The same, where errors are returned. */
static void returned(void) {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int i = 0; i < 20; i++) MPI_Barrier(MPI_COMM_WORLD);
    if (rank != size - 1) puts(MPI_Barrier(MPI_COMM_WORLD) ? "an error" : "no error");
    fflush(stdout);
    _exit(0);
}

static void mismatch(void) {
    char text[MPI_MAX_ERROR_STRING] = "", mine[2000] = "", total[2000];
    int class = -1, length;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int i = 0; i < 20; i++) MPI_Barrier(MPI_COMM_WORLD);
    int code =
        MPI_Allreduce(mine, total, 1000 + rank, MPI_SIGNED_CHAR, MPI_SUM, MPI_COMM_WORLD);
    MPI_Error_class(code, &class);
    MPI_Error_string(code, text, &length);
    CHECK(class == MPI_ERR_OTHER);
    if (rank == 0) puts(text);
}

/* The program has no environment when its first calls are taken. */
static void cleared(void) {
    clearenv();
    check();
}

/* Calls that a program of another language makes, too. */
static void count(void) {
    long mine[500], total[500];
    for (int i = 0; i < 500; i++) mine[i] = rank;
    for (int i = 0; i < 20; i++) {
        memset(total, 0, sizeof total);
        MPI_Allreduce(mine, total, 500, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        CHECK(total[7] == size * (size - 1) / 2 && total[499] == total[7]);
    }
}

/* The last rank sleeps, which a signal would end, while the others wait for it. */
static void asleep(void) {
    for (int i = 0; i < 20; i++) MPI_Barrier(MPI_COMM_WORLD);
    if (rank == size - 1) {
        puts("asleep");
        fflush(stdout);
        sleep(60);
        puts("awake");
        fflush(stdout);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *asked = argc == 2 ? argv[1] : "check";
    if (!strcmp(asked, "leave"))
        leave();
    else if (!strcmp(asked, "returned"))
        returned();
    else if (!strcmp(asked, "mismatch"))
        mismatch();
    else if (!strcmp(asked, "asleep"))
        asleep();
    else if (!strcmp(asked, "cleared"))
        cleared();
    else if (!strcmp(asked, "count"))
        count();
    else
        check();
    MPI_Finalize();
    return 0;
}
