/* Messages between two ranks of a host, matched by tags: a ring for each ordered pair.
 *
 * The sender writes a slot for each message and for each answer. A short message is stored in the
 * slot or in the data behind the slots, and its sender continues at once. For a long message the
 * slot holds its address: the reader claims it, reads it in the memory of the sender, and marks
 * the claim as done, which needs no slot. */
#ifndef COLLALGO_MESSAGE_RING_H
#define COLLALGO_MESSAGE_RING_H

#include <sched.h>

#include "shared_memory.h"
#include "waiting.h"

/* The state of a claim, in the last bits of it; the number of the message is above them. */
enum { CLAIM_FREE, CLAIM_OPEN, CLAIM_TAKEN, CLAIM_DONE, CLAIM_STATES };

/* In place of a claim: the elements are sent through a channel, or the claim is made once a call
 * of the reader waits for the message. */
enum { THROUGH_CHANNEL = -1, CLAIM_LATER = -2 };

#define SPIN_NANOSECONDS 20000 /* a wait before the first yield, where each rank has a core */
#define YIELDS 200             /* before the first sleep */

/* The two directions of a pair as one of its ranks sees them. */
typedef struct {
    message_ring *out, *in;
    char *out_data, *in_data;
    message_bell *bell; /* of the peer */
    rank_header *peer;
    uint64_t sent, acked, consumed; /* slots */
    int64_t head, tail, data_bytes; /* of the data, counted through all rounds */
    int64_t ends[MESSAGE_SLOTS];    /* of the data, after each slot */
    staging_state staging;
    uint64_t open_claims;           /* a bit for each message that the peer has not read yet */
    int waits_for_room;
} message_link;

static inline message_ring *ring_of(const endpoint *e, int64_t sender, int64_t reader) {
    char *rings = region(e, sender) + messages_offset(e->size) + sizeof(message_bell);
    return (message_ring *)(rings + reader * message_ring_bytes(e->size));
}
static inline message_bell *bell_of(const endpoint *e, int64_t rank) {
    return (message_bell *)(region(e, rank) + messages_offset(e->size));
}

static inline void link_open(message_link *l, const endpoint *e, int64_t peer) {
    *l = (message_link){
        .out = ring_of(e, e->rank, peer), .in = ring_of(e, peer, e->rank),
        .bell = bell_of(e, peer), .peer = header(e, peer),
        .data_bytes = message_data_bytes(e->size),
    };
    l->out_data = (char *)(l->out + 1), l->in_data = (char *)(l->in + 1);
}

/* Whether the peer has attached, and has published which memory it can read. */
static inline int link_is_attached(const message_link *l) {
    return LOAD(&l->peer->status) != RANK_ABSENT;
}

/* Wake the peer if it sleeps. */
static inline void link_wake(const message_link *l) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (!LOAD(&l->bell->asleep)) return;
    if (!__atomic_exchange_n(&l->bell->asleep, 0, __ATOMIC_SEQ_CST)) return;
    __atomic_add_fetch(&l->bell->bell, 1, __ATOMIC_SEQ_CST);
    futex_wake(&l->bell->bell);
}

/* ---- sending */

/* Find the slots that the peer has read, and free their data. */
static inline void link_refresh(message_link *l) {
    l->acked = LOAD(&l->out->consumed);
    if (l->acked) l->tail = l->ends[(l->acked - 1) % MESSAGE_SLOTS];
}

/* The place of `nbytes` in a ring of data that is free from `tail` on, or -1. */
static inline int64_t room_at(const message_link *l, int64_t nbytes) {
    int64_t start = l->head;
    if (start % l->data_bytes + nbytes > l->data_bytes) start = round_up(start, l->data_bytes);
    return start + nbytes - l->tail > l->data_bytes ? -1 : start;
}

/* Send a slot with the elements of a short message: 0 if there is no room now. */
static inline int link_put(message_link *l, const message_head *head, const char *data,
                           int64_t nbytes) {
    int64_t place = 0, taken = nbytes > SLOT_BYTES ? round_up(nbytes, CACHE_LINE) : 0;
    if (l->sent - l->acked == MESSAGE_SLOTS) link_refresh(l);
    if (l->sent - l->acked == MESSAGE_SLOTS) return 0;
    if (taken) {
        place = room_at(l, taken);
        if (place < 0) link_refresh(l), place = room_at(l, taken);
        if (place < 0) return 0;
        l->head = place + taken;
        stage(&l->staging, l->out_data + place % l->data_bytes, data, nbytes);
    }
    message_slot *s = l->out->slots + l->sent % MESSAGE_SLOTS;
    l->ends[l->sent % MESSAGE_SLOTS] = l->head;
    s->head = *head;
    s->nbytes = (int32_t)nbytes, s->offset = (int32_t)(place % l->data_bytes);
    if (!taken && nbytes) memcpy(s->data, data, nbytes);
    STORE(&s->number, ++l->sent);
    link_wake(l);
    return 1;
}

/* Whether a slot was read since the last check, so that there may be room. */
static inline int has_new_room(const message_link *l) {
    return l->waits_for_room && LOAD(&l->out->consumed) != l->acked;
}

/* A claim for a message that the peer is to read in the memory of this process, or -1. The last
 * one is for messages that a call of the peer waits for, which it reads at once. */
static inline int link_open_claim(message_link *l, int64_t number, int is_awaited) {
    uint64_t last = UINT64_C(1) << (CLAIMS - 1);
    uint64_t free = ~l->open_claims & (is_awaited ? UINT64_MAX : ~last);
    if (!free) return -1;
    int claim = __builtin_ctzll(free);
    l->open_claims |= UINT64_C(1) << claim;
    STORE(l->out->claims + claim, (uint64_t)number * CLAIM_STATES + CLAIM_OPEN);
    return claim;
}

/* Whether the peer has read the message of a claim, which is free then. */
static inline int link_is_read(message_link *l, int claim) {
    if (LOAD(l->out->claims + claim) % CLAIM_STATES != CLAIM_DONE) return 0;
    l->open_claims &= ~(UINT64_C(1) << claim);
    return 1;
}

/* Take back a message: 0 if the peer is reading it. */
static inline int link_withdraw(message_link *l, int claim, int64_t number) {
    uint64_t open = (uint64_t)number * CLAIM_STATES + CLAIM_OPEN;
    if (!__atomic_compare_exchange_n(l->out->claims + claim, &open, CLAIM_FREE, 0,
                                     __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        return 0;
    l->open_claims &= ~(UINT64_C(1) << claim);
    return 1;
}

/* Whether the peer has read a message whose claim is open here. */
static inline int has_finished_claims(const message_link *l) {
    for (uint64_t open = l->open_claims; open; open &= open - 1)
        if (LOAD(l->out->claims + __builtin_ctzll(open)) % CLAIM_STATES == CLAIM_DONE)
            return 1;
    return 0;
}

/* ---- receiving */

/* The next slot, or NULL. */
static inline const message_slot *link_peek(const message_link *l) {
    const message_slot *s = l->in->slots + l->consumed % MESSAGE_SLOTS;
    return LOAD(&s->number) == l->consumed + 1 ? s : NULL;
}

/* The elements of the message in a slot. */
static inline const char *link_elements(const message_link *l, const message_slot *s) {
    return s->nbytes > SLOT_BYTES ? l->in_data + s->offset : s->data;
}

static inline void link_release(message_link *l) { STORE(&l->in->consumed, ++l->consumed); }

/* Claim a long message: 0 if its sender has taken it back. */
static inline int link_claim(message_link *l, int claim, int64_t number) {
    uint64_t open = (uint64_t)number * CLAIM_STATES + CLAIM_OPEN;
    return __atomic_compare_exchange_n(l->in->claims + claim, &open, open + 1, 0,
                                       __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

/* Give back a claim for a message that could not be read. */
static inline void link_unclaim(message_link *l, int claim, int64_t number) {
    STORE(l->in->claims + claim, (uint64_t)number * CLAIM_STATES + CLAIM_OPEN);
}

/* Copy from the memory of the peer's process: 0, or the error. */
static inline int link_fetch(const message_link *l, char *target, int64_t place, int64_t nbytes) {
    const char *data = (const char *)(uintptr_t)place;
    if (l->peer->process == getpid()) {
        copy_bytes(target, data, nbytes);
        return 0;
    }
    return fetch_from(l->peer->process, target, data, nbytes);
}

/* Mark a message as read, and wake its sender. */
static inline void link_finish(message_link *l, int claim, int64_t number) {
    STORE(l->in->claims + claim, (uint64_t)number * CLAIM_STATES + CLAIM_DONE);
    link_wake(l);
}

/* ---- waiting */

static inline int link_is_ready(const message_link *l) {
    return link_peek(l) || has_finished_claims(l) || has_new_room(l);
}

static inline int is_any_link_ready(message_link *const *links, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (link_is_ready(links[i])) return 1;
    return 0;
}

/* Sleep until a peer rings, at most for `most` nanoseconds. */
static inline void sleep_on(message_bell *bell, message_link *const *links, int64_t count,
                            int64_t most) {
    uint32_t seen = LOAD(&bell->bell);
    struct timespec limit = {0, most < SLEEP_NANOSECONDS ? most : SLEEP_NANOSECONDS};
    __atomic_store_n(&bell->asleep, 1, __ATOMIC_SEQ_CST);
    if (!is_any_link_ready(links, count) && most > 0)
        syscall(SYS_futex, &bell->bell, FUTEX_WAIT, seen, &limit, NULL, 0);
    STORE(&bell->asleep, 0);
}

/* Wait until a link is ready, for one sleep at most: whether one is. */
static inline int links_wait(message_bell *bell, message_link *const *links, int64_t count,
                             int64_t spins, int64_t until) {
    int64_t begun = nanoseconds();
    for (int64_t turn = 1; spins && turn; turn++) {
        if (is_any_link_ready(links, count)) return 1;
        relax();
        if (turn % 64 == 0 && nanoseconds() - begun > SPIN_NANOSECONDS) break;
    }
    for (int64_t turn = 0; turn < YIELDS; turn++) {
        if (is_any_link_ready(links, count)) return 1;
        if (turn % 16 == 0 && nanoseconds() >= until) return 0;
        sched_yield();
    }
    sleep_on(bell, links, count, until - nanoseconds());
    return is_any_link_ready(links, count);
}

/* The same without a yield or a sleep, for a moment. */
static inline int links_spin(message_link *const *links, int64_t count, int64_t turns) {
    for (int64_t turn = 0; turn < turns; turn++) {
        if (is_any_link_ready(links, count)) return 1;
        relax();
    }
    return 0;
}

/* Wake the threads of this rank. */
static inline void wake_waiters(message_bell *bell) {
    __atomic_add_fetch(&bell->bell, 1, __ATOMIC_SEQ_CST);
    futex_wake(&bell->bell);
}

#endif
