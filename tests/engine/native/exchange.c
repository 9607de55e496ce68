/* Ranks as threads that exchange messages of many lengths through the transport, checked
 * byte by byte. Meant to be built with a sanitizer. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>

#include "zero_copy.h"
#include "waiting.h"

#ifndef RANKS
#define RANKS 3
#endif
#define CALLS_MADE 400
#define LONGEST 300000
#define HEAP (1 << 21)

static char *base;
static clockid_t resting; /* the clock of a thread that only waits for the others */
static int64_t placed;    /* the parts written to their destination, */
static int64_t made;      /* and those written there before they were sent */
static int64_t recycled;  /* the parts written to a recycled slot */

static uint8_t expected(int64_t call, int64_t rank, int64_t i) {
    return (uint8_t)(31 * call + 7 * rank + i % 251);
}

static int64_t length_of(int64_t call) {
    if (call % 5 == 4) call--; /* so that the offer of the last call is expected again */
    uint64_t x = (uint64_t)call * 0x9e3779b97f4a7c15u;
    return (int64_t)(x >> 40) % (call % 3 ? 2000 : LONGEST);
}

static void wait(endpoint *e, int64_t *idle) {
    int status = endpoint_pause(e, idle);
    if (status != GO_ON && status != SIGNALS) {
        const world_failure *failure = known_failure(e);
        fprintf(stderr, "rank %d: failure %d\n", (int)e->rank, failure ? (int)failure->kind : 0);
        abort();
    }
}

/* The destination that a rank offers to a peer, behind its own message. */
static char *target_for(char *mine, int64_t peer) { return mine + (1 + peer) * LONGEST; }

/* Write a half of the message to the offered destinations: its bytes, or -1 without offers. */
static int64_t put(endpoint *e, const int64_t *channels, int64_t readers,
                   const char *mine, int64_t sent, int64_t nbytes) {
    const int64_t numbers[RANKS] = {0};
    char *targets[RANKS];
    message_part half = {
        .channels = channels, .numbers = numbers, .readers = readers,
        .data = mine + sent, .nbytes = sent ? nbytes - sent : nbytes / 2,
        .done = sent, .whole = nbytes, .is_result = 1, .past_caches = nbytes % 2,
    };
    if (endpoint_locate(e, &half, targets)) {
        for (int64_t i = 0; i < readers; i++)
            memcpy(targets[i], half.data, (size_t)half.nbytes);
        half.data = NULL, half.is_written = 1;
        __atomic_add_fetch(&made, 1, __ATOMIC_RELAXED);
    }
    int found = endpoint_put(e, 0, &half);
    return found == WRITTEN ? half.nbytes : found == OFFER_PENDING ? 0 : -1;
}

static int is_in_recycled_slot(const char *slot) {
    int64_t place = slot - (base + regions_offset());
    return place >= 0 && place < RANKS * region_bytes(RANKS) &&
           place % region_bytes(RANKS) >= recycled_offset(RANKS);
}

/* Every rank sends the same bytes to all the others, and receives theirs. */
static void exchange(endpoint *e, int64_t call, char *mine) {
    int64_t channels[RANKS], readers = 0, nbytes = length_of(call), idle = 0;
    int64_t received[RANKS] = {0}, sent = 0, unfinished = RANKS - 1;
    int may_send_direct = call % 5 == 0, share = (int)(call / 5 % 4), done = 0;
    int offers = call % 5 > 2 && nbytes > 1;
    e->staging.line_ticks = call % 7 < 4 ? FARTHEST : 0;
    for (int64_t i = 0; i < nbytes; i++) mine[i] = (char)expected(call, e->rank, i);
    for (int64_t r = 0; r < RANKS; r++)
        if (r != e->rank) channels[readers++] = call % LANES * RANKS + r;
    for (int64_t i = 0; i < readers && offers; i++)
        endpoint_offer(e, channels[i], 0, target_for(mine, channels[i] % RANKS), nbytes);
    endpoint_begin_step(e, 1, call % 2);
    while (!done || unfinished) {
        int moved = 0;
        int64_t room, written = -1;
        if (!done && offers)
            written = put(e, channels, readers, mine, sent, nbytes);
        if (written == 0) {
            /* the offers are pending */
        } else if (written > 0) {
            __atomic_add_fetch(&placed, 1, __ATOMIC_RELAXED);
            sent += written;
            done = sent == nbytes;
            moved = 1;
        } else if (!done && may_send_direct && sent == 0 && nbytes > INLINE_BYTES &&
            endpoint_send_direct(e, 0, channels, readers, mine, nbytes, share, 0, call % 2)) {
            if (share == STAGED || (share < SHARED && e->staging.line_ticks >= FAR)) abort();
            moved = done = 1;
        } else if (!done && call % 4 && sent == 0 && nbytes <= SMALL_BYTES &&
                   endpoint_post(e, channels, readers, mine, nbytes)) {
            moved = done = 1;
        } else if (!done) {
            char *slot = endpoint_reserve(e, 0, channels, readers, nbytes - sent, &room);
            if (slot) {
                if (is_in_recycled_slot(slot))
                    __atomic_add_fetch(&recycled, 1, __ATOMIC_RELAXED);
                stage(&e->staging, slot, mine + sent, room);
                endpoint_commit(e, 0, channels, readers, room);
                sent += room;
                done = sent == nbytes;
                moved = 1;
            }
        }
        for (int64_t i = 0; i < readers; i++) {
            int64_t peer = channels[i] % RANKS;
            segment_state next = {0};
            if (received[peer] < 0) continue;
            if (!endpoint_peek(e, channels + i, 1, &next)) continue;
            if (next.location == DELIVERED)
                next.data = target_for(mine, peer) + received[peer];
            for (int64_t j = 0; j < next.left; j++)
                if ((uint8_t)next.data[j] != expected(call, peer, received[peer] + j)) {
                    fprintf(stderr, "wrong byte in call %ld\n", (long)call);
                    abort();
                }
            received[peer] += next.left;
            if (received[peer] == nbytes) received[peer] = -1, unfinished--;
            endpoint_release(e, channels + i, 1);
            moved = 1;
        }
        if (moved) {
            endpoint_resume(e);
            idle = 0;
        } else wait(e, &idle);
    }
    while (endpoint_has_readers(e)) wait(e, &idle);
    endpoint_resume(e);
}

static clockid_t clock_of(pthread_t thread) {
    clockid_t clock;
    if (pthread_getcpuclockid(thread, &clock)) abort();
    return clock;
}

static void *run(void *argument) {
    int64_t rank = (int64_t)(intptr_t)argument;
    endpoint *e = endpoint_new(base, base + segment_bytes(RANKS) + rank * HEAP, HEAP, rank, RANKS, LANES * RANKS, 0);
    endpoint_announce(e);
    if (RANKS > 2) e->multi_reader = &e->wide;
    else e->recycled[0] = OWN_SLOT, e->recycled_count = 1; /* on any processor */
    if (rank % 2) endpoint_share_cores(e); /* these restart their rings early */
    e->usual = (wait_policy){10, 1000, 10};
    e->background = (wait_policy){0, 0, 2};
    char *mine = base + segment_bytes(RANKS) + rank * HEAP;
    call_record call = {.fingerprint = 1};
    for (int64_t i = 0; i < CALLS_MADE; i++) {
        if (endpoint_enter(e, &call, 60.0) != GO_ON) abort();
        endpoint_yield_core(e, i % 3 == 1 ? resting : i % 3 ? clock_of(pthread_self()) : NO_CALLER);
        exchange(e, i, mine);
        endpoint_exit(e);
    }
    return e;
}

int main(void) {
    pthread_t threads[RANKS];
    int64_t owned = 0;
    resting = clock_of(pthread_self());
    base = mmap(NULL, (size_t)segment_bytes(RANKS) + RANKS * HEAP, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return 1;
    for (intptr_t r = 0; r < RANKS; r++) pthread_create(threads + r, NULL, run, (void *)r);
    for (int r = 0; r < RANKS; r++) {
        void *e;
        pthread_join(threads[r], &e);
        owned += ((endpoint *)e)->recycled_count;
        endpoint_free(e);
    }
    if (!made || placed <= made) return 1;
    if (RANKS == 2 && (owned != 2 || !recycled)) return 1; /* one is lost, or unused */
    printf("all right, %ld times in place, %ld before\n", (long)placed, (long)made);
    return 0;
}
