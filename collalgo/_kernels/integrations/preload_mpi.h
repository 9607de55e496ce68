/* The MPI beneath: its functions, looked up by name, and the few constants that differ.

   A handle is a word, of which an MPI with 32-bit handles uses the lower half. */
#ifndef COLLALGO_PRELOAD_MPI_H
#define COLLALGO_PRELOAD_MPI_H

#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Memory of some bytes. Without it the process ends: the other ranks wait for its call. */
static void *reserved(int64_t nbytes) {
    void *memory = malloc((size_t)(nbytes > 0 ? nbytes : 1));
    if (!memory) abort();
    return memory;
}

typedef intptr_t word;
typedef int copy_function(word comm, int key, void *extra, void *in, void *out, int *flag);
typedef int delete_function(word comm, int key, void *value, void *extra);

/* Name, and parameters, of the functions that are called. */
#define MPI_FUNCTIONS(F) \
    F(Add_error_code, int, int *) \
    F(Add_error_string, int, const char *) \
    F(Allgather, const void *, int, word, void *, int, word, word) \
    F(Comm_call_errhandler, word, int) \
    F(Comm_create_keyval, copy_function *, delete_function *, int *, void *) \
    F(Comm_get_attr, word, int, void *, int *) \
    F(Comm_rank, word, int *) \
    F(Comm_set_attr, word, int, void *) \
    F(Comm_size, word, int *) \
    F(Comm_test_inter, word, int *) \
    F(Iprobe, int, int, word, int *, void *) \
    F(Pack, const void *, int, word, void *, int, int *, word) \
    F(Unpack, const void *, int, int *, void *, int, word, word) \
    F(Type_get_envelope, word, int *, int *, int *, int *) \
    F(Type_get_extent, word, intptr_t *, intptr_t *) \
    F(Type_get_name, word, char *, int *) \
    F(Type_size, word, int *)

#define DECLARED(name, ...) int (*name)(__VA_ARGS__);
typedef struct {
    MPI_FUNCTIONS(DECLARED)
    word byte, world; /* MPI_BYTE, MPI_COMM_WORLD */
    word ops[10];    /* in the order of PRELOAD_OPS */
    void *in_place;  /* MPI_IN_PLACE */
    int other_error; /* MPI_ERR_OTHER */
    int is_narrow;   /* whether handles have 32 bits */
    int64_t least;   /* bytes of a block from which on calls are taken: below, MPI is faster */
} mpi_beneath;

enum { MPI_NAME = 256 }; /* more than the longest name of any MPI */

static int is_mpi(const char *path) {
    const char *name = strrchr(path, '/');
    return !strncmp(name ? name + 1 : path, "libmpi", 6);
}

/* Looks a name up in a library of MPI that the program has loaded for itself alone. */
static int find_in(struct dl_phdr_info *info, size_t size, void *wanted) {
    void **found = wanted, *library;
    (void)size;
    if (!info->dlpi_name || !is_mpi(info->dlpi_name)) return 0;
    if (!(library = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD))) return 0;
    void *function = dlsym(library, found[0]);
    dlclose(library);
    return function ? (found[1] = function, 1) : 0;
}

static void *find_from(void *begin, const char *name) {
    void *pair[2] = {(void *)name, dlsym(begin, name)};
    if (!pair[1]) dl_iterate_phdr(find_in, pair);
    return pair[1];
}

/* The function of this name behind this library; NULL if it is missing. */
static void *find_next(const char *name) { return find_from(RTLD_NEXT, name); }

/* An object of MPI, which a program may have in its own memory, as a copy. */
static word find_object(const char *name) { return (word)find_from(RTLD_DEFAULT, name); }

static void set_mpich(mpi_beneath *mpi) {
    static const int ops[] = {3, 4, 2, 1, 5, 7, 9, 6, 8, 10};
    for (int i = 0; i < 10; i++) mpi->ops[i] = 0x58000000 + ops[i];
    mpi->byte = 0x4c00010d, mpi->world = 0x44000000, mpi->in_place = (void *)-1;
    mpi->other_error = 15, mpi->is_narrow = 1;
}

static void set_standard_abi(mpi_beneath *mpi) {
    static const int ops[] = {0x21, 0x24, 0x22, 0x23, 0x30, 0x31, 0x32, 0x28, 0x29, 0x2a};
    for (int i = 0; i < 10; i++) mpi->ops[i] = ops[i];
    mpi->byte = 0x247, mpi->world = 0x101, mpi->in_place = (void *)1;
    mpi->other_error = 16;
}

static int set_open_mpi(mpi_beneath *mpi) {
    static const char *ops[] = {
        "ompi_mpi_op_sum",  "ompi_mpi_op_prod", "ompi_mpi_op_min", "ompi_mpi_op_max",
        "ompi_mpi_op_land", "ompi_mpi_op_lor",  "ompi_mpi_op_lxor", "ompi_mpi_op_band",
        "ompi_mpi_op_bor",  "ompi_mpi_op_bxor",
    };
    if (!(mpi->byte = find_object("ompi_mpi_byte"))) return 0;
    for (int i = 0; i < 10; i++) mpi->ops[i] = find_object(ops[i]);
    mpi->world = find_object("ompi_mpi_comm_world");
    mpi->in_place = (void *)1, mpi->other_error = 16, mpi->least = 512;
    return 1;
}

/* Sets all fields; 0 if a function is missing. */
static int find_mpi(mpi_beneath *mpi) {
    Dl_info where;
#define FOUND(name, ...) \
    if (!(mpi->name = (int (*)(__VA_ARGS__))find_next("PMPI_" #name))) return 0;
    MPI_FUNCTIONS(FOUND)
    if (set_open_mpi(mpi)) return 1;
    if (!dladdr((void *)mpi->Allgather, &where)) return 0;
    if (strstr(where.dli_fname, "libmpi_abi"))
        set_standard_abi(mpi);
    else
        set_mpich(mpi);
    return 1;
}

static word handle_of(const mpi_beneath *mpi, word handle) {
    return mpi->is_narrow ? (word)(int32_t)handle : handle;
}

/* ---- datatypes */

typedef struct {
    word handle;
    int size;
    int dtype;    /* its place in PRELOAD_DTYPES; -1 if it cannot be reduced here */
    int is_named; /* whether it is of MPI, and its elements are adjacent */
} datatype;

/* The kind of the elements of a datatype of MPI: its letter in PRELOAD_DTYPES. */
static char letter_of(const char *name) {
    static const char *integers[] = {
        "SIGNED_CHAR", "SHORT", "INT", "LONG", "LONG_LONG_INT", "LONG_LONG", "INT8_T",
        "INT16_T", "INT32_T", "INT64_T", "AINT", "OFFSET", "COUNT", "INTEGER", NULL,
    };
    static const char *naturals[] = {
        "UNSIGNED_CHAR", "UNSIGNED_SHORT", "UNSIGNED", "UNSIGNED_LONG",
        "UNSIGNED_LONG_LONG", "UINT8_T", "UINT16_T", "UINT32_T", "UINT64_T", NULL,
    };
    static const char *floats[] = {"FLOAT", "DOUBLE", "REAL", "DOUBLE_PRECISION", NULL};
    static const char *complexes[] = {
        "C_COMPLEX", "C_FLOAT_COMPLEX", "C_DOUBLE_COMPLEX", "COMPLEX", "DOUBLE_COMPLEX", NULL,
    };
    static const char *bools[] = {"C_BOOL", NULL};
    const char *const *lists[] = {integers, naturals, floats, complexes, bools};
    if (strncmp(name, "MPI_", 4)) return 0;
    for (int kind = 0; kind < 5; kind++)
        for (const char *const *each = lists[kind]; *each; each++)
            if (!strcmp(name + 4, *each)) return "iufcb"[kind];
    return 0;
}

/* The place of a kind of elements of some bytes; -1 if it is missing. */
static int place_of(const char *dtypes, char letter, int size) {
    int place = 0;
    for (const char *at = dtypes; at; at = strchr(at, ' '), place++) {
        if (*at == ' ') at++;
        if (*at == letter && atoi(at + 1) == size) return place;
    }
    return -1;
}

static datatype describe(const mpi_beneath *mpi, word handle, const char *dtypes) {
    datatype found = {handle, 0, -1, 0};
    int integers = 1, addresses = 1, types = 1, combiner, length = 0;
    intptr_t lower = 0, extent = 0;
    char name[MPI_NAME] = "";
    mpi->Type_size(handle, &found.size);
    mpi->Type_get_extent(handle, &lower, &extent);
    mpi->Type_get_envelope(handle, &integers, &addresses, &types, &combiner);
    found.is_named = !integers && !addresses && !types && !lower && extent == found.size;
    if (found.is_named && !mpi->Type_get_name(handle, name, &length))
        found.dtype = place_of(dtypes, letter_of(name), found.size);
    return found;
}

/* The datatype of a handle. Those of MPI are kept for each thread, as they are never freed. */
static datatype datatype_of(const mpi_beneath *mpi, word handle, const char *dtypes) {
    static __thread datatype kept[64];
    datatype *place = &kept[((uintptr_t)handle ^ (uintptr_t)handle >> 8) % 64];
    if (place->is_named && place->handle == handle) return *place;
    datatype found = describe(mpi, handle, dtypes);
    if (found.is_named) *place = found;
    return found;
}

/* Copies elements of any datatype to adjacent bytes, or back; 0, or an error of MPI. */
static int copy_packed(const mpi_beneath *mpi, char *elements, int64_t count,
                       const datatype *type, char *bytes, word comm, int is_packing) {
    intptr_t lower, extent;
    int64_t most = type->size && type->size < 1 << 30 ? (1 << 30) / type->size : 1;
    int status = mpi->Type_get_extent(type->handle, &lower, &extent);
    for (int64_t done = 0; done < count && !status;) {
        int now = (int)(count - done < most ? count - done : most), at = 0;
        int room = now * type->size;
        char *from = elements + done * extent, *packed = bytes + done * type->size;
        status = is_packing ? mpi->Pack(from, now, type->handle, packed, room, &at, comm)
                            : mpi->Unpack(packed, room, &at, from, now, type->handle, comm);
        done += now;
    }
    return status;
}

#endif
