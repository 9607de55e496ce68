/* A reduction kernel for a dtype, an op, a number of arrays and a vector width. */
#include "reduce.cuh"

#define REDUCE_KERNEL(name, T, Op, N, WIDTH)                                            \
    extern "C" __global__ void __launch_bounds__(256)                                   \
    name(collalgo::T *result, const __grid_constant__ collalgo::Inputs inputs, int n,   \
         long long count, long long divisor) {                                          \
        long long thread = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; \
        long long threads = static_cast<long long>(gridDim.x) * blockDim.x;             \
        collalgo::reduce<collalgo::T, collalgo::Op, N, WIDTH>(                          \
            result, inputs, n, count, divisor, thread, threads);                        \
    }
