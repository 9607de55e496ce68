/* What the engine and every transport have in common. */
#ifndef COLLALGO_TRANSPORT_H
#define COLLALGO_TRANSPORT_H

#include <stdint.h>

#define CACHE_LINE 64
#define LANES 8 /* channels between two ranks */
#define NAME_BYTES 40

/* What a transport asks of the engine. */
enum { GO_ON, STOP, SIGNALS, CLOSED, FORKED };

/* Instead of the clock of a thread whose call another thread runs. */
enum { NOBODY };

/* What is to be expected of another rank, beside the calls that I have made: nothing yet,
 * that a call of mine goes on at once or fails, or nothing ever. */
enum { QUIET, CALLED, LEFT };

/* Where what has come is to be found: in memory that I can read, in that of the process of
 * the sender only, or already where it belongs. */
enum { NEAR, REMOTE, DELIVERED };

/* What has come on a channel and is not consumed yet. */
typedef struct {
    const char *data;
    int64_t left, whereabouts;
} segment_state;

/* Whether others read something where it is: no, as long as their caches are near, which is
 * found out now and then, unless they are known to be far, or all the same. */
enum { STAGED, SHARED_IF_NEAR, SHARED_UNLESS_FAR, SHARED };

/* What becomes of a message whose readers might offer where to write it: none of it has been
 * written as they do not, they may yet, or some has. */
enum { NOT_WANTED, WANTED_LATER, WRITTEN };

/* Some bytes of a message that may be written where they belong: who reads it, by channels
 * and its number on each; where the bytes are, and at which of the whole they begin; whether
 * they are a result of the call, had better be written past the caches, or have been already
 * where they belong. */
typedef struct {
    const int64_t *channels, *numbers;
    int64_t readers;
    const char *data;
    int64_t nbytes, done, whole, is_result, past_caches, is_written;
} message_part;

/* What a rank called: the ranks of a communicator compare these. */
typedef struct {
    int64_t sequence, fingerprint, collective, dtype, op, root, count;
    char algorithm[NAME_BYTES];
} call_record;

/* When the steps of calls began and ended, where somebody wants to know. */
typedef struct {
    int64_t call, wave, step, begun, ended;
} step_time;

typedef struct {
    step_time *steps;
    int64_t capacity, count, call;
} step_log;

/* How often a rank that waits looks again before it sleeps, at once and after it has yielded
 * its core, also in a call of several waves; and for how many ticks in the hope that those it
 * waits for are about to come. */
typedef struct {
    int64_t spins, hopes, yields, yields_in_waves;
} wait_turns;

/* A rank's end of the memory of its host: endpoint.h tells what it is. */
typedef struct endpoint endpoint;

#endif
