/* Times of the calls that collalgo run --preload takes, in microseconds: the table of
   docs/clients.md. Run it with the preloaded library and without, alternately:

   mpicc -O2 -o times bench/preload.c
   mpiexec -n 2 ./times; collalgo run --preload mpiexec -n 2 ./times */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

static void call(const char *name, char *x, char *y, int nbytes) {
    int each = nbytes / size; /* of a block */
    if (!strcmp(name, "allreduce"))
        MPI_Allreduce(x, y, nbytes / 4, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    else if (!strcmp(name, "broadcast"))
        MPI_Bcast(x, nbytes, MPI_BYTE, 0, MPI_COMM_WORLD);
    else if (!strcmp(name, "reduce_scatter"))
        MPI_Reduce_scatter_block(x, y, each / 4, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    else if (!strcmp(name, "allgather"))
        MPI_Allgather(x, each, MPI_BYTE, y, each, MPI_BYTE, MPI_COMM_WORLD);
    else if (!strcmp(name, "alltoall"))
        MPI_Alltoall(x, each, MPI_BYTE, y, each, MPI_BYTE, MPI_COMM_WORLD);
    else
        MPI_Barrier(MPI_COMM_WORLD);
}

static int compared(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median, over rounds, of the time of the slowest rank. */
static void measure(const char *name, int nbytes, int rounds) {
    char *x = calloc(1, nbytes + 64), *y = calloc(1, nbytes + 64);
    double *times = malloc(rounds * sizeof *times);
    for (int i = 0; i < 20; i++) call(name, x, y, nbytes);
    for (int i = 0; i < rounds; i++) {
        int repeats = nbytes < 1 << 16 ? 20 : 2;
        PMPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        for (int k = 0; k < repeats; k++) call(name, x, y, nbytes);
        double mine = (MPI_Wtime() - start) / repeats;
        PMPI_Allreduce(&mine, &times[i], 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    }
    qsort(times, rounds, sizeof *times, compared);
    if (rank == 0) printf("%-14s %8d %9.2f\n", name, nbytes, 1e6 * times[rounds / 2]);
    free(x), free(y), free(times);
}

int main(int argc, char **argv) {
    static const char *const names[] = {
        "allreduce", "broadcast", "reduce_scatter", "allgather", "alltoall",
    };
    static const int bytes[] = {64, 1 << 12, 1 << 16, 1 << 20};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < 4; k++) measure(names[i], bytes[k], 30);
    measure("barrier", 0, 30);
    MPI_Finalize();
    return 0;
}
