/* The cores that the ranks run on, and moves to less loaded ones. */
#ifndef COLLALGO_CORES_H
#define COLLALGO_CORES_H

#include <sched.h>

#include "endpoint.h"

#define SPREAD 3000000          /* ticks between two searches, about a millisecond */
#define SPREAD_BACKGROUND 300000 /* the same while a caller computes on another core */
#define MISTAKE_TICKS 30000000  /* after a move, in which a long yield marks a mistake */
#define STAY_AT_LEAST 150000000 /* ticks without a move after it, about 50 milliseconds */
#define STAY_AT_MOST 9600000000 /* and several seconds */
#define STAY_LONGER 4           /* the growth of the pause from one mistake to the next */
#define NOWHERE (-1)

/* Publish the core that this rank runs on. */
static inline void publish_core(endpoint *e, int64_t now) {
    int32_t core = sched_getcpu() + 1;
    __atomic_store_n(&e->me->ran_since, now, __ATOMIC_RELAXED);
    __atomic_store_n(&e->me->place, core, __ATOMIC_RELAXED);
    __atomic_store_n(&e->me->core, core, __ATOMIC_RELAXED);
}

/* Publish that this rank yields its core. */
static inline void clear_core(endpoint *e, int64_t now) {
    __atomic_store_n(&e->me->ran_until, now, __ATOMIC_RELAXED);
    __atomic_store_n(&e->me->core, 0, __ATOMIC_RELAXED);
}

/* The ticks in which other ranks ran on this core, according to their last runs. */
static inline int64_t ticks_of_other_ranks(const endpoint *e, int64_t begun, int64_t ended) {
    int64_t had = 0;
    for (int64_t r = 0; r < e->size; r++) {
        rank_header *peer = header(e, r);
        int64_t since = __atomic_load_n(&peer->ran_since, __ATOMIC_RELAXED);
        int64_t until = __atomic_load_n(&peer->ran_until, __ATOMIC_RELAXED);
        if (r == e->rank) continue;
        if (__atomic_load_n(&peer->place, __ATOMIC_RELAXED) != e->me->place) continue;
        if (until < since || until > ended) until = ended; /* it was still running */
        if (since < begun) since = begun;
        if (since < until) had += until - since;
    }
    return had;
}

/* An allowed core with at least two ranks fewer than this one, or NOWHERE. Of the ranks on a
 * core only the last one moves. */
static inline int less_loaded_core(const endpoint *e, const cpu_set_t *allowed) {
    uint16_t ranks[CPU_SETSIZE] = {0};
    uint32_t mine = e->me->place - 1, best = mine;
    if (mine >= CPU_SETSIZE) return NOWHERE;
    for (int64_t r = 0; r < e->size; r++) {
        uint32_t core = __atomic_load_n(&header(e, r)->place, __ATOMIC_RELAXED) - 1;
        if (core < CPU_SETSIZE) ranks[core]++;
        if (core == mine && r > e->rank) return NOWHERE;
    }
    for (uint32_t core = 0; core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, allowed) && ranks[core] < ranks[best]) best = core;
    return ranks[mine] - ranks[best] >= 2 ? (int)best : NOWHERE;
}

/* Move to a core with fewer ranks. The kernel may place three ranks that wake on one core, and
 * one on another, for tens of milliseconds. */
static inline void move_to_less_loaded_core(endpoint *e, int64_t now) {
    cpu_set_t allowed, chosen;
    if (now < e->spread_at) return;
    e->spread_at = now + (e->caller == NO_CALLER ? SPREAD : SPREAD_BACKGROUND);
    if (sched_getaffinity(0, sizeof allowed, &allowed)) return;
    int core = less_loaded_core(e, &allowed);
    if (core == NOWHERE) return;
    CPU_ZERO(&chosen);
    CPU_SET(core, &chosen);
    if (sched_setaffinity(0, sizeof chosen, &chosen)) return;
    sched_setaffinity(0, sizeof allowed, &allowed);
    if (e->moved) e->stay = 0;
    e->moved = now;
}

/* Pause the moves after one to a core that another process keeps busy. */
static inline void delay_next_move(endpoint *e, int64_t now) {
    if (!e->moved || now - e->moved > MISTAKE_TICKS) return;
    int64_t longer = STAY_LONGER * e->stay;
    e->stay = longer < STAY_AT_LEAST ? STAY_AT_LEAST
              : longer < STAY_AT_MOST ? longer : STAY_AT_MOST;
    e->spread_at = now + e->stay;
    e->moved = 0;
}

#endif
