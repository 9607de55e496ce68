/* The kernel that runs the rows of one rank, for a dtype and an op. */
#include "interpret.cuh"

namespace collalgo {

/* The threads of some blocks that are all on the device at once. */
struct Blocks {
    int64 thread, threads, lane, lanes;
    unsigned *arrived; /* for each row; 0 before and after */

    __device__ explicit Blocks(unsigned *arrived)
        : thread(static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x),
          threads(static_cast<int64>(gridDim.x) * blockDim.x),
          lane(threadIdx.x), lanes(blockDim.x), arrived(arrived) {}

    __device__ static unsigned seen(const unsigned *flag) {
        unsigned value;
        asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
        return value;
    }

    __device__ static unsigned add(unsigned *counter) {
        unsigned before;
        asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;"
                     : "=r"(before) : "l"(counter) : "memory");
        return before;
    }

    __device__ void release() const { asm volatile("fence.acq_rel.sys;" ::: "memory"); }

    __device__ void set(unsigned *flag, unsigned number) const {
        asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(number) : "memory");
    }

    __device__ void sync() const { __syncthreads(); }

    __device__ void wait(const unsigned *flag, unsigned number) const {
        while (static_cast<int>(seen(flag) - number) < 0) __nanosleep(20);
    }

    __device__ bool all_here(int row) const {
        __syncthreads();
        if (lane != 0) return false;
        if (gridDim.x == 1) return true;
        if (add(arrived + row) != gridDim.x - 1) return false;
        arrived[row] = 0;
        return true;
    }

    /* Blocks are counted when they arrive and when they leave; the last one resets the count. */
    __device__ void meet(int row) const {
        __syncthreads();
        if (lane == 0 && gridDim.x > 1) {
            add(arrived + row);
            while (seen(arrived + row) < gridDim.x) {}
            if (add(arrived + row) == 2 * gridDim.x - 1) arrived[row] = 0;
        }
        __syncthreads();
    }
};

}  // namespace collalgo

#define INTERPRETER(name, T, Op)                                                        \
    extern "C" __global__ void __launch_bounds__(512)                                   \
    name(const collalgo::Row *rows, int n, const collalgo::Place *places,               \
         const __grid_constant__ collalgo::Buffers buffers, unsigned *arrived) {        \
        __shared__ collalgo::Inputs inputs;                                             \
        collalgo::interpret<collalgo::T, collalgo::Op>(                                 \
            rows, n, places, buffers, inputs, collalgo::Blocks(arrived));               \
    }
