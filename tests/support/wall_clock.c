// A wall clock that is wrong by some seconds, which a file has for each rank. It is
// preloaded, as no namespace of the kernel covers CLOCK_REALTIME.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *error;

__attribute__((constructor)) static void begin(void) {
    int file = open(getenv("WALL_CLOCK"), O_RDONLY | O_CLOEXEC);
    int rank = atoi(getenv("RANK"));
    int64_t *errors = mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0);
    if (errors == MAP_FAILED) abort();
    error = errors + rank;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *found) {
    int failed = (int)syscall(SYS_clock_gettime, clock, found);
    int is_wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
    if (!failed && is_wall && error) found->tv_sec += *error;
    return failed;
}

int gettimeofday(struct timeval *found, void *zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    found->tv_sec = now.tv_sec;
    found->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *found) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (found) *found = now.tv_sec;
    return now.tv_sec;
}
