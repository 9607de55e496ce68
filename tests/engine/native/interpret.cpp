// The interpreter of plans on the host: each block of each rank is a thread.
#include "interpret.cuh"

#include <pthread.h>
#include <sched.h>

#include <thread>
#include <vector>

namespace {

struct Threads {
    long long thread, threads, lane, lanes;
    unsigned *arrived;

    void sync() const {}

    void wait(const unsigned *flag, unsigned number) const {
        while (static_cast<int>(__atomic_load_n(flag, __ATOMIC_ACQUIRE) - number) < 0)
            sched_yield();
    }

    void release() const {}  // that is what each flag does here

    void set(unsigned *flag, unsigned number) const {
        __atomic_store_n(flag, number, __ATOMIC_RELEASE);
    }

    unsigned add(unsigned *counter) const {
        return __atomic_fetch_add(counter, 1, __ATOMIC_ACQ_REL);
    }

    bool all_here(int row) const {
        if (add(arrived + row) != threads - 1) return false;
        __atomic_store_n(arrived + row, 0, __ATOMIC_RELAXED);
        return true;
    }

    void meet(int row) const {
        add(arrived + row);
        while (__atomic_load_n(arrived + row, __ATOMIC_ACQUIRE) < threads) sched_yield();
        if (add(arrived + row) == 2 * threads - 1)
            __atomic_store_n(arrived + row, 0, __ATOMIC_RELAXED);
    }
};

}  // namespace

// Run the rows of some ranks so many times, without a word between two times.
#define INTERPRETER(name, T, Op)                                                        \
    extern "C" void name(int ranks, int blocks, int times,                              \
                         const collalgo::Row *const *rows, const int *numbers,          \
                         const collalgo::Place *const *places,                          \
                         const collalgo::Buffers *buffers, unsigned *const *arrived) {  \
        std::vector<pthread_barrier_t> launches(ranks); /* one after the other */       \
        for (auto &launch : launches) pthread_barrier_init(&launch, nullptr, blocks);   \
        std::vector<std::thread> running;                                               \
        for (int rank = 0; rank < ranks; rank++)                                        \
            for (int block = 0; block < blocks; block++)                                \
                running.emplace_back([=, &launches] {                                   \
                    collalgo::Inputs inputs;                                            \
                    Threads team{block, blocks, 0, 1, arrived[rank]};                   \
                    for (int i = 0; i < times; i++) {                                   \
                        collalgo::interpret<collalgo::T, collalgo::Op>(                 \
                            rows[rank], numbers[rank], places[rank], *buffers, inputs,  \
                            team);                                                      \
                        pthread_barrier_wait(&launches[rank]);                          \
                    }                                                                   \
                });                                                                     \
        for (std::thread &thread : running) thread.join();                              \
    }

#include "definitions.inc"
