/* A library to preload into MPI programs in C: it takes some collectives of ranks on one host
   to collalgo's engine, and passes all others on to the MPI beneath.

   All ranks of a communicator decide alike, as they do by what MPI has them pass alike: the
   collective, the bytes, and for a reduction its op and datatype. */
#include "preload_python.h" /* first, as it has Python.h, which asks for all of libc */

#include <pthread.h>
#include <stdatomic.h>

#include "mpi_preload.h"
#include "preload_mpi.h"

/* Calls on a communicator that are passed on before it is connected: many have no more. */
enum { PASSED_AT_FIRST = 3 };

typedef struct {
    void *engine; /* NULL: its calls are passed on */
    int rank, size, calls;
} connection;

static mpi_beneath mpi;
static preload_interface interface;
static int found_mpi, has_python, has_wide_forms, key;
static unsigned taken_collectives; /* a bit for each */
static _Atomic int64_t taken[PRELOAD_COLLECTIVES], passed[PRELOAD_COLLECTIVES];
static _Atomic int64_t first[PRELOAD_COLLECTIVES]; /* of those passed on, before connecting */
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The communicator of the call that this thread makes in the engine. */
static __thread struct {
    word comm;
    int rank, is_in_call;
} current;

#define NAME(number, name) name,
static const char *const NAMES[] = {PRELOAD_EACH(NAME)};

/* What the user has set, of which the program may clear its environment. */
#define SETTING_EACH(F) \
    F(TAKEN, "COLLALGO_PRELOAD") \
    F(LIBRARY, "COLLALGO_PRELOAD_LIBRARY") \
    F(PYTHON, "COLLALGO_PRELOAD_PYTHON") \
    F(REPORT, "COLLALGO_PRELOAD_REPORT")
enum { SETTING_EACH(PRELOAD_NUMBER) SETTINGS };
static const char *const VARIABLES[] = {SETTING_EACH(NAME)};
static char *settings[SETTINGS];

__attribute__((constructor)) static void keep_settings(void) {
    for (int i = 0; i < SETTINGS; i++) {
        const char *value = getenv(VARIABLES[i]);
        settings[i] = value ? strdup(value) : NULL;
    }
}

/* ---- what the engine calls */

static int allgather(intptr_t comm, const void *mine, int nbytes, void *all) {
    return mpi.Allgather(mine, nbytes, mpi.byte, all, nbytes, mpi.byte, comm);
}

/* Lets MPI make progress on messages that other ranks may need before they make the call. */
static unsigned poll_mpi(void *unused) {
    int64_t status[16]; /* larger than that of any MPI */
    int flag = 0;
    (void)unused;
    if (current.is_in_call) mpi.Iprobe(current.rank, 0, current.comm, &flag, status);
    return (unsigned)flag;
}

/* ---- connections */

static int keep_none(word comm, int id, void *extra, void *in, void *out, int *flag) {
    (void)comm, (void)id, (void)extra, (void)in, (void)out;
    *flag = 0; /* a duplicate has a connection of its own */
    return 0;
}

static int forget(word comm, int id, void *value, void *extra) {
    connection *mine = value;
    (void)comm, (void)id, (void)extra;
    if (mine->engine) interface.disconnect(mine->engine);
    free(mine);
    return 0;
}

/* Whether a collective is in the list of the user, who lists none for all. */
static int is_wanted(const char *list, const char *name) {
    size_t length = strlen(name);
    if (!list || !*list) return 1;
    for (const char *at = list; (at = strstr(at, name)); at += length) {
        int starts = at == list || at[-1] == ',';
        if (starts && (!at[length] || at[length] == ',')) return 1;
    }
    return 0;
}

/* A program with an interpreter has the engine itself: import collalgo, or --as-mpi4py. Its
   calls are counted all the same, as the other ranks may be of programs that have none. */
static void begin(void) {
    has_python = dlsym(RTLD_DEFAULT, "Py_IsInitialized") != NULL;
    has_wide_forms = find_next("MPI_Allreduce_c") != NULL;
    found_mpi = find_mpi(&mpi) && !mpi.Comm_create_keyval(keep_none, forget, &key, NULL);
    for (int i = 0; found_mpi && i < PRELOAD_COLLECTIVES; i++)
        if (is_wanted(settings[TAKEN], NAMES[i])) taken_collectives |= 1u << i;
}

static void start_engine(void) {
    char command[128];
    interface.allgather = allgather, interface.poll = poll_mpi;
    snprintf(command, sizeof command,
             "from collalgo.integrations.preload import start; start(%zu)", (size_t)&interface);
    int found = run_in_python(settings[LIBRARY], settings[PYTHON], command);
    if (!found) fprintf(stderr, "collalgo: its interpreter cannot start; MPI makes all calls\n");
}

/* Whether all ranks have the engine, which each of them starts for itself. */
static int all_have_engine(word comm, int size) {
    static pthread_once_t started = PTHREAD_ONCE_INIT;
    if (!has_python) pthread_once(&started, start_engine);
    char mine = interface.connect != NULL, *all = reserved(size);
    int have = !allgather(comm, &mine, 1, all);
    for (int rank = 0; have && rank < size; rank++) have = all[rank];
    free(all);
    return have;
}

/* The connection of a communicator; its engine is NULL until it has made some calls. */
static connection *connection_of(word comm) {
    connection *mine = NULL;
    int found = 0, is_inter = 0;
    if (mpi.Comm_get_attr(comm, key, &mine, &found)) return NULL;
    if (!found) {
        mine = memset(reserved(sizeof *mine), 0, sizeof *mine);
        mpi.Comm_test_inter(comm, &is_inter);
        if (!is_inter && !mpi.Comm_size(comm, &mine->size)) mpi.Comm_rank(comm, &mine->rank);
        mpi.Comm_set_attr(comm, key, mine);
    }
    if (mine->calls <= PASSED_AT_FIRST && mine->size > 1 &&
        mine->calls++ == PASSED_AT_FIRST && all_have_engine(comm, mine->size))
        mine->engine = interface.connect(comm, mine->rank, mine->size, PASSED_AT_FIRST);
    return mine;
}

/* The connection for a call with blocks of some bytes; NULL if it is passed on. */
static connection *connection_for(int collective, word comm, int64_t nbytes) {
    pthread_once(&once, begin);
    if (!found_mpi || !(taken_collectives >> collective & 1)) return NULL;
    if (!nbytes || nbytes < mpi.least) return NULL;
    connection *mine = connection_of(handle_of(&mpi, comm));
    if (mine && mine->size > 1 && mine->calls <= PASSED_AT_FIRST) first[collective]++;
    return mine && mine->engine ? mine : NULL;
}

static int call_error; /* a code of MPI for the calls that fail, whose text is the last one's */

static void add_error_code(void) {
    if (mpi.Add_error_code(mpi.other_error, &call_error)) call_error = mpi.other_error;
}

/* Raises the error of the last call that failed: its code, by the handler of the communicator. */
static int raise_error(word comm) {
    static pthread_once_t added = PTHREAD_ONCE_INIT;
    pthread_once(&added, add_error_code);
    if (call_error != mpi.other_error) mpi.Add_error_string(call_error, interface.sentence);
    mpi.Comm_call_errhandler(comm, call_error);
    return call_error;
}

static int make(const connection *mine, word comm, const preload_call *call) {
    comm = handle_of(&mpi, comm);
    current.comm = comm, current.rank = mine->rank, current.is_in_call = 1;
    int status = interface.call(mine->engine, call);
    current.is_in_call = 0;
    taken[call->collective]++;
    return status ? raise_error(comm) : 0;
}

#include "preload_calls.h"
