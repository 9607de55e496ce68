/* The types that the engine and all transports share. */
#ifndef COLLALGO_TRANSPORT_H
#define COLLALGO_TRANSPORT_H

#include <stdint.h>

#define CACHE_LINE 64
#define LANES 8 /* channels between two ranks */
#define NAME_BYTES 40

/* The status of a call, which a transport returns to the engine. */
enum { GO_ON, STOP, SIGNALS, CLOSED, FORKED };

/* No clock: the thread runs its own call, not that of another thread. */
enum { NO_CALLER };

/* The state of another rank between the calls of this rank: it has not made the next call, it
 * has made it (or a call has failed), or it has closed normally. */
enum { QUIET, CALLED, LEFT };

/* The location of received data: memory that this rank can read, memory of the sender's
 * process only, or its destination already; or the data is announced, and arrives where the
 * receiver accepts it. */
enum { NEAR, REMOTE, DELIVERED, ANNOUNCED };

/* The bytes of a message that are too short to be carried between hosts. */
enum { NOT_CARRIED = -1 };

/* The segment that has arrived on a channel and is not consumed yet. */
typedef struct {
    const char *data;
    int64_t left, location;
} segment_state;

/* Whether data is sent without a copy: never, while the caches of the peers are measured to be
 * near, unless they are known to be far, or always. */
enum { STAGED, SHARED_IF_NEAR, SHARED_UNLESS_FAR, SHARED };

/* The state of a message that is to be written to its destination: its readers have not
 * offered their memory, they may still do so, or bytes have been written. */
enum { NOT_OFFERED, OFFER_PENDING, WRITTEN };

/* A part of a message that may be written to its destination: the channels of its readers
 * and its number on each; its source and its offset in the whole message; whether it is a
 * result of the call, is to be written past the caches, or has been written already. */
typedef struct {
    const int64_t *channels, *numbers;
    int64_t readers;
    const char *data;
    int64_t nbytes, done, whole, is_result, past_caches, is_written;
} message_part;

/* Whether the user counts a call that the library makes: as a part of the next one or of the last
 * one it has the number of that. */
enum { PART_OF_NEXT, WHOLE_CALL, PART_OF_LAST };

/* The arguments of a call, which the ranks of a communicator compare by its fingerprint, in its
 * sequence. The user counts fewer calls: in a program, `number` tells whether it is one, in a
 * record it is the number of the call, from 1. `passed` is the number of elements that this
 * rank passes, `count` that which all pass or, with a count for each, the sum. */
typedef struct {
    int64_t sequence, fingerprint, collective, dtype, op, root, count, number, passed;
    char algorithm[NAME_BYTES];
} call_record;

/* The begin and end of each step, for tracing. */
typedef struct {
    int64_t call, slice, step, begun, ended;
} step_time;

typedef struct {
    step_time *steps;
    int64_t capacity, count, call;
} step_log;

/* The number of polls before a waiting rank sleeps, or decides to go on because an engine must be
 * polled: without a yield, and after a yield of its core. The rank spins without a limit for the
 * first `spin_ticks` of a wait while all the ranks that it waits for run on other cores. */
typedef struct {
    int64_t spins, spin_ticks, yields;
} wait_policy;

/* The endpoint of a rank in the memory of its host; see endpoint.h. */
typedef struct endpoint endpoint;

#endif
