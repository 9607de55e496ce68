// The kernels of the device as functions of the host: its threads come one after another.
#include "reduce.cuh"

#define REDUCE_KERNEL(name, T, Op, N, WIDTH)                                          \
    extern "C" void name(collalgo::T *result, const collalgo::Inputs *inputs, int n,  \
                         long long count, long long divisor, long long threads) {     \
        for (long long thread = 0; thread < threads; thread++)                        \
            collalgo::reduce<collalgo::T, collalgo::Op, N, WIDTH>(                    \
                result, *inputs, n, count, divisor, thread, threads);                 \
    }

#include "definitions.inc"
